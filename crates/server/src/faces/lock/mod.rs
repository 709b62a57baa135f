//! The sticky lock, `/lock`: one holder, who keeps it by renewing and gets a grace period to come back in. Everything
//! is in the query, so that a line of curl is enough.

mod openapi;
mod refusal;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_engine::{Refusal, Reply as Engine, Spent};
use leasehold_journal::Denial;

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::{Reply, ask_about, unserved};
use crate::auth::{self, Admission, Caller, Change, Need};
use crate::http::{Body, Problem, RequestId, response};
use crate::metrics::Dialect;
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
use routes::{Call, Endpoint, Subject};

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
            Endpoint::Acquire | Endpoint::Show => Class::Api,
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

    fn change(call: &Call) -> Option<Change<'_>> {
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
        ask_about(&service.driver, call.request, id, call.subject, show)
    }

    fn operation(endpoint: Endpoint, settings: &Settings) -> Operation {
        openapi::operation(endpoint, settings)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}

fn show(subject: &Subject, reply: &Reply<'_>, answer: Result<Engine, Denial>) -> Result<Response<Body>, Problem> {
    let body = match answer {
        Ok(Engine::Lock(view, news)) => wire::lock(&view, &news, reply.asked_at, subject.clamped),
        Ok(Engine::Place(place)) => wire::place(&place),
        Ok(Engine::Unlocked | Engine::Spent(Spent::Held)) => wire::released(&subject.job, "lock released"),
        Ok(Engine::Spent(Spent::Waited)) => wire::released(&subject.job, "wait withdrawn"),
        Ok(Engine::Spent(Spent::Nothing)) => return refusal::word(&Refusal::NotTheHolder, &subject.job, reply),
        Ok(other) => unreachable!("no call to a lock is answered with {other:?}"),
        Err(denial) => return refusal::word(&unserved(denial)?, &subject.job, reply),
    };
    Ok(reply.positioned(response::json(StatusCode::OK, reply.id, body)))
}
