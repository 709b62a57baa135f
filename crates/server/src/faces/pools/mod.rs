//! Pools, `/l/{id}`: a distributed semaphore. A pool of numbered slots under a secret UUID, borrowed for a bounded
//! time. The UUID is the only credential: it is in no log, metric, event or error.

mod openapi;
mod refusal;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};
use leasehold_engine::{Kind, Reply, ResourceKey};
use leasehold_journal::{Denial, Request};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::proving::{self, Held};
use super::{Envelope, ask, ask_about, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need};
use crate::faces::deleted::Deleted;
use crate::faces::fittings::Resumed;
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::response;
use crate::settings::Settings;
use routes::{Call, Endpoint, Proving, Topic};
use wire::{GivenUp, Lease, LeaseSeen, Pool, PoolSeen, Returned};

pub(crate) struct Pools;

impl Face for Pools {
    type Endpoint = Endpoint;
    type Call = Call;

    const LABELS: FaceLabels = FaceLabels::lending("pools", Kind::Pool);

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(_endpoint: Endpoint) -> Class {
        Class::Api
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::ById
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received)
    }

    fn need(call: &Call) -> Need<'_> {
        match &call.proving {
            // Only its holder knows a lease, as for a renewal.
            Some(_) => Need::One(Action::UpdateOwn, Target::Pool),
            None => auth::need_of(&call.request.command),
        }
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        auth::change_by(&call.request.command)
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        if let Some(proving) = &mut call.proving {
            proving.caller = caller.identity.name().cloned();
        }
        auth::sign_command(&mut call.request.command, &caller)
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        let Call { topic, request, proving } = call;
        let asking = match proving {
            None => Ok(ask_about(&service.driver, request, id, topic, show)),
            // On the heap: every caller that is parked would have room for it.
            Some(proving) => Err(Box::pin(prove(service, topic.pool, request, *proving, id))),
        };
        async move {
            match asking {
                Ok(asking) => asking.await,
                Err(proving) => proving.await,
            }
        }
    }

    fn operation(endpoint: Endpoint, settings: &Settings) -> Operation {
        openapi::operation(endpoint, settings)
    }

    fn schemas(settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas(settings)
    }
}

async fn prove(
    service: &Service,
    pool: u128,
    request: Request,
    proving: Proving,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let asked_at = service.driver.wall();
    let (envelope, answer) = ask(&service.driver, request, id).await;
    let keys = proving::keys(service).await?;
    envelope.word(|envelope| {
        let view = match answer {
            Ok(Reply::Lease(view)) => view,
            Ok(other) => unreachable!("a lease is not shown as {other:?}"),
            Err(denial) => return refusal::word(&unserved(denial)?, envelope),
        };
        let digested = || service.observer.digester().lease(view.claim.0);
        let subject = proving.caller.as_deref().map_or_else(digested, str::to_owned);
        let held = Held {
            resource: &ResourceKey::Pool(pool),
            subject: &subject,
            slot: view.slot,
            token: view.token,
            left_us: view.deadline.since(view.now.at),
        };
        Ok(proving::answer(service, &keys, &held, (&proving.audience, asked_at), envelope))
    })
}

fn show(topic: &Topic, envelope: &Envelope<'_>, answer: Result<Reply, Denial>) -> Result<Response<Body>, Problem> {
    let body = match answer {
        Ok(Reply::Resource(view)) if topic.endpoint == Endpoint::Show => to_bytes(&PoolSeen::of(topic.pool, &view)),
        Ok(Reply::Resource(view)) => to_bytes(&Pool::of(topic.pool, &view, topic.warning.clone())),
        Ok(Reply::Place(place)) => to_bytes(&PoolSeen::by_borrower(topic.pool, &place)),
        Ok(Reply::Spent(had)) => to_bytes(&GivenUp::of(had)),
        Ok(Reply::Unconfigured(deleted)) => to_bytes(&Deleted { deleted }),
        Ok(Reply::Resumed(resumed)) => to_bytes(&Resumed { resumed }),
        Ok(Reply::Lease(view)) if topic.endpoint == Endpoint::ShowLease => to_bytes(&LeaseSeen::of(&view)),
        Ok(Reply::Lease(view)) => to_bytes(&Lease::of(&view, envelope.asked_at, topic.clamped, topic.warning.clone())),
        Ok(Reply::Returned(returned)) => to_bytes(&Returned { returned }),
        Ok(other) => unreachable!("no call to a pool is answered with {other:?}"),
        Err(denial) => return refusal::word(&unserved(denial)?, envelope),
    };
    Ok(envelope.positioned(response::json(StatusCode::OK, envelope.id, body)))
}
