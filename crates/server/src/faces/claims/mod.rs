//! Claims, `/v1/claims/`: named resources with a queue of standing claims. A claim is made, waits its turn, is active
//! until it is released or its ttl runs out, and can be read for a while after.

mod filter;
mod list;
pub(crate) mod openapi;
mod refusal;
pub(crate) mod routes;
mod wire;

use http::header::LOCATION;
use http::{HeaderValue, Response, StatusCode};
use leasehold_engine::{ClaimStatus, Command, Reply as Engine};
use leasehold_journal::Denial;

use super::{Reply, ask, unserved};
use crate::driver::Handle;
use crate::http::{Body, Problem, RequestId, response};
pub(crate) use refusal::no_such_claim;
use routes::Subject;
pub(crate) use routes::{Action, Asked, parse};

pub(crate) async fn answer(driver: &Handle, asked: Asked, id: &RequestId) -> Result<Response<Body>, Problem> {
    match asked {
        Asked::One { subject, request } => {
            let (reply, answer) = ask(driver, request, id).await;
            reply.word(|reply| show(&subject, reply, answer))
        }
        // On the heap: lists are seldom and large, and every parked caller would have room for one.
        Asked::Claims(list) => Box::pin(list::claims(driver, *list, id)).await,
        Asked::Resources(page) => Box::pin(list::resources(driver, page, id)).await,
        Asked::Mistaken { claim, problem } => {
            // A call about a claim that does not exist gets 404, whatever else is wrong with it.
            let (_, answer) = ask(driver, Command::ViewClaim { claim }.into(), id).await;
            Err(if answer.is_ok() { problem } else { refusal::no_such_claim() })
        }
    }
}

fn show(subject: &Subject, reply: &Reply<'_>, answer: Result<Engine, Denial>) -> Result<Response<Body>, Problem> {
    let response = match answer {
        Ok(Engine::Claim(view)) => {
            let status = match (subject.action, view.status) {
                (Action::Create, ClaimStatus::Waiting) => StatusCode::ACCEPTED,
                (Action::Create, ClaimStatus::Active | ClaimStatus::Ended(_)) => StatusCode::CREATED,
                _ => StatusCode::OK,
            };
            let mut response = response::json(
                status,
                reply.id,
                wire::claim(&subject.base_url, &view, reply.asked_at, subject.clamped),
            );
            if subject.action == Action::Create {
                let url = wire::claim_url(&subject.base_url, view.id);
                let location = HeaderValue::try_from(url).expect("a host header and a UUID make a header value");
                response.headers_mut().insert(LOCATION, location);
            }
            response
        }
        Ok(Engine::ClaimEnded(_)) => response::empty(StatusCode::NO_CONTENT, reply.id),
        Ok(Engine::Resource(view)) => response::json(StatusCode::OK, reply.id, wire::resource(&view)),
        Ok(Engine::Unconfigured(was_there)) => response::json(StatusCode::OK, reply.id, wire::deleted(was_there)),
        Ok(other) => unreachable!("no call to a claim is answered with {other:?}"),
        Err(denial) => return refusal::word(&unserved(denial)?, reply),
    };
    Ok(reply.positioned(response))
}
