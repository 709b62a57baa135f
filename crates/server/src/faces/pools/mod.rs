//! Pools, `/l/{id}`: a distributed semaphore. A pool of numbered slots under a secret UUID, borrowed for a bounded
//! time. The UUID is the only credential: it is in no log, metric, event or error.

pub(crate) mod openapi;
mod refusal;
pub(crate) mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_engine::Reply as Engine;
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
        Ok(Engine::Resource(view)) => wire::pool(subject.pool, &view, subject.action == Action::Show),
        Ok(Engine::Place(place)) => wire::place(subject.pool, &place),
        Ok(Engine::Spent(had)) => wire::given_up(had),
        Ok(Engine::Unconfigured(was_there)) => wire::flag("deleted", was_there),
        Ok(Engine::Lease(view)) if subject.action == Action::ShowLease => wire::lease(&view),
        Ok(Engine::Lease(view)) => wire::granted(&view, reply.asked_at, subject.clamped),
        Ok(Engine::Returned(was_held)) => wire::flag("returned", was_held),
        Ok(other) => unreachable!("no call to a pool is answered with {other:?}"),
        Err(denial) => return refusal::word(&unserved(denial)?, reply),
    };
    Ok(reply.positioned(response::json(StatusCode::OK, reply.id, body)))
}
