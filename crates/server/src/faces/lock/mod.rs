//! The sticky lock, `/lock`: one holder, who keeps it by renewing and gets a grace period to come back in. Everything
//! is in the query, so that a line of curl is enough.

pub(crate) mod openapi;
mod refusal;
pub(crate) mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_engine::{Refusal, Reply as Engine, Spent};
use leasehold_journal::Denial;

use super::{Reply, ask_about, unserved};
use crate::driver::Handle;
use crate::http::{Body, Problem, RequestId, response};
use routes::Subject;
pub(crate) use routes::{Action, Asked, parse};

pub(crate) fn answer<'a>(
    driver: &'a Handle,
    asked: Asked,
    id: &'a RequestId,
) -> impl Future<Output = Result<Response<Body>, Problem>> {
    ask_about(driver, asked.request, id, asked.subject, show)
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
