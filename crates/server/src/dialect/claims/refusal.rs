//! What a claimant is told when the answer is no.

use http::{Response, StatusCode};
use leasehold_engine::Refusal;

use super::wire::ending_name;
use crate::dialect::text::Object;
use crate::dialect::{Reply, denial};
use crate::http::{Body, Problem, response};

pub(super) fn word(refusal: &Refusal, reply: &Reply<'_>) -> Result<Response<Body>, Problem> {
    if let Some(problem) = denial::past_a_limit(refusal) {
        return Err(problem);
    }
    let problem = match refusal {
        Refusal::Ended(how) => {
            return Ok(conflict(
                &format!("the claim is {}, it can no longer be changed", ending_name(*how)),
                ending_name(*how),
                reply,
            ));
        }
        Refusal::StillWaiting => {
            return Ok(conflict("the claim is waiting, it has no ttl and nothing to release", "waiting", reply));
        }
        Refusal::Contended => {
            return Ok(conflict("the claim is waiting, the resource is held by others", "waiting", reply));
        }
        Refusal::NoSuchClaim => no_such_claim(),
        Refusal::NoSuchResource => {
            Problem::new(StatusCode::NOT_FOUND, "no such resource: nobody holds, wants or configured it")
        }
        Refusal::KeyReused => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this Idempotency-Key was used with another body on this resource",
        ),
        Refusal::KeySpent => Problem::new(StatusCode::GONE, "the claim of this Idempotency-Key has ended"),
        Refusal::TooManyWaiting { .. }
        | Refusal::OverQuota { .. }
        | Refusal::TooManyClaims { .. }
        | Refusal::TooManyResources { .. }
        | Refusal::NoneFree { .. }
        | Refusal::NotHeld
        | Refusal::Locked { .. }
        | Refusal::NotTheHolder => unreachable!("not said of a claim: {refusal:?}"),
    };
    Ok(reply.positioned(problem.to_response(reply.id)))
}

/// 409 that says which status the claim has.
fn conflict(error: &str, status: &str, reply: &Reply<'_>) -> Response<Body> {
    let mut object = Object::new();
    object.string("error", error).string("status", status);
    reply.positioned(response::json(StatusCode::CONFLICT, reply.id, object.end()))
}

pub(crate) fn no_such_claim() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no such claim")
}
