//! The sticky lock, `/lock`: one holder, who keeps it by renewing and gets a grace period to come back in. Everything
//! is in the query, so that a line of curl is enough.

mod lookout;
mod openapi;
mod refusal;
mod routes;
mod wire;

use std::sync::Arc;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};
use leasehold_engine::{Command, Kind, LockHolder, Refusal, Reply, ResourceKey, Spent};
use leasehold_journal::{Denial, Request};

use super::class::Class;
use super::face::{Answering, Face, Received, Rows, Service};
use super::proving::{self, Held};
use super::{Envelope, ask, ask_about, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need};
use crate::faces::fittings::Resumed;
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::response;
use crate::settings::Settings;
use routes::{Aim, Call, Endpoint, Proving};
use wire::{LockState, Topic};

pub(crate) struct Lock;

impl Face for Lock {
    type Endpoint = Endpoint;
    type Call = Call;

    const LABELS: FaceLabels = FaceLabels::lending("lock", Kind::Lock);

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::Release => Class::Tend,
            Endpoint::Acquire | Endpoint::Show | Endpoint::Pause | Endpoint::Resume | Endpoint::Prove => Class::Api,
        }
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received)
    }

    fn need(call: &Call) -> Need<'_> {
        match (&call.aim, &call.request.command) {
            // As for a renewal.
            (Aim::Proof(_), Command::ViewResource { resource }) => Need::One(Action::UpdateOwn, Target::of(resource)),
            (Aim::Answer | Aim::News(_) | Aim::Proof(_), command) => auth::need_of(command),
        }
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        auth::change_by(&call.request.command)
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        if let Aim::Proof(proving) = &call.aim {
            auth::check_client(&proving.client, &caller)?;
        }
        auth::sign_command(&mut call.request.command, &caller)
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        let Call { topic, request, aim } = call;
        // The others on the heap: every caller that is parked would have room for them.
        let asking: Result<_, Answering<'a>> = match aim {
            Aim::Answer => Ok(ask_about(&service.driver, request, id, topic, show)),
            Aim::News(watching) => Err(Box::pin(lookout::look_out(service, topic, request.command, *watching, id))),
            Aim::Proof(proving) => Err(Box::pin(prove(service, topic, request, *proving, id))),
        };
        async move {
            match asking {
                Ok(asking) => asking.await,
                Err(other) => other.await,
            }
        }
    }

    fn operation(endpoint: Endpoint, settings: &Settings) -> Operation {
        openapi::operation(endpoint, settings)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}

async fn prove(
    service: &Service,
    topic: Topic,
    request: Request,
    proving: Proving,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let asked_at = service.driver.wall();
    let (envelope, answer) = ask(&service.driver, request, id).await;
    let keys = proving::keys(service).await?;
    envelope.word(|envelope| {
        let view = match answer {
            Ok(Reply::Lock(view, _)) => view,
            Ok(other) => unreachable!("a lock is not shown as {other:?}"),
            Err(denial) => return refusal::word(&unserved(denial)?, &topic.job, envelope),
        };
        let is_held = |holder: &&LockHolder| LockState::of(holder, view.now) == LockState::Held;
        let Some(holder) = view.holder.as_ref().filter(is_held).filter(|holder| holder.client == proving.client) else {
            return refusal::word(&Refusal::NotTheHolder, &topic.job, envelope);
        };
        if proving.token.is_some_and(|token| token != holder.token) {
            return refusal::word(&Refusal::NotHeld { how: None }, &topic.job, envelope);
        }
        let held = Held {
            resource: &ResourceKey::Lock(Arc::clone(&topic.job)),
            subject: &holder.client,
            slot: 0,
            token: holder.token,
            left_us: holder.deadline.since(view.now.at),
        };
        Ok(proving::answer(service, &keys, &held, (&proving.audience, asked_at), envelope))
    })
}

fn show(topic: &Topic, envelope: &Envelope<'_>, answer: Result<Reply, Denial>) -> Result<Response<Body>, Problem> {
    let body = match answer {
        Ok(Reply::Lock(view, news)) => wire::lock(&view, &news, envelope.asked_at, topic.clamped),
        Ok(Reply::Place(place)) => wire::place(&place),
        Ok(Reply::Resumed(resumed)) => to_bytes(&Resumed { resumed }),
        Ok(Reply::Unlocked | Reply::Spent(Spent::Held)) => wire::released(&topic.job, "lock released"),
        Ok(Reply::Spent(Spent::Waited)) => wire::released(&topic.job, "wait withdrawn"),
        Ok(Reply::Spent(Spent::Nothing)) => return refusal::word(&Refusal::NotTheHolder, &topic.job, envelope),
        Ok(other) => unreachable!("no call to a lock is answered with {other:?}"),
        Err(denial) => return refusal::word(&unserved(denial)?, &topic.job, envelope),
    };
    Ok(envelope.positioned(response::json(StatusCode::OK, envelope.id, body)))
}
