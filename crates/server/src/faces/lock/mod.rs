//! The sticky lock, `/lock`: one holder, who keeps it by renewing and gets a grace period to come back in. Everything
//! is in the query, so that a line of curl is enough.

mod lookout;
mod openapi;
mod refusal;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_engine::{Refusal, Reply, Spent};
use leasehold_journal::Denial;

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::{Envelope, ask_about, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need};
use crate::faces::fittings::Resumed;
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId, response};
use crate::metrics::Dialect;
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
use routes::{Call, Endpoint, Topic};

pub(crate) struct Lock;

impl Face for Lock {
    type Endpoint = Endpoint;
    type Call = Call;

    const DIALECT: Dialect = Dialect::Lock;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::Release => Class::Tend,
            Endpoint::Acquire | Endpoint::Show | Endpoint::Pause | Endpoint::Resume => Class::Api,
        }
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received)
    }

    fn need(call: &Call) -> Need<'_> {
        auth::need_of(&call.request.command)
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        auth::change_by(&call.request.command)
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        auth::sign_command(&mut call.request.command, &caller)
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        let Call { topic, request, watching } = call;
        let asking = match watching {
            None => Ok(ask_about(&service.driver, request, id, topic, show)),
            // On the heap: every other caller that is parked would have room for it.
            Some(watching) => Err(Box::pin(lookout::look_out(service, topic, request.command, *watching, id))),
        };
        async move {
            match asking {
                Ok(asking) => asking.await,
                Err(looking_out) => looking_out.await,
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
