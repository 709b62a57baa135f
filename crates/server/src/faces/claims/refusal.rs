//! The words of a refusal for a claimant.

use http::{Response, StatusCode};
use leasehold_engine::Refusal;

use super::wire::{ClaimConflict, ending_name};
use crate::auth::no_such_claim;
use crate::faces::{Reply, denial, ended};
use crate::http::json::to_bytes;
use crate::http::{Body, Code, Problem, response};

pub(super) fn word(refusal: &Refusal, reply: &Reply<'_>) -> Result<Response<Body>, Problem> {
    if let Some(problem) = denial::past_a_limit(refusal) {
        return Err(problem);
    }
    let problem = match refusal {
        Refusal::Ended(how) => {
            let error = format!("the claim is {}, it can no longer be changed", ending_name(*how));
            return Ok(conflict(&ClaimConflict::ended(&error, *how), reply));
        }
        Refusal::StillWaiting => {
            let error = "the claim is waiting, it has no ttl and nothing to release";
            return Ok(conflict(&ClaimConflict::waits(error), reply));
        }
        Refusal::Contended => {
            let error = "the claim is waiting, the resource is held by others";
            return Ok(conflict(&ClaimConflict::waits(error), reply));
        }
        Refusal::NoSuchClaim => no_such_claim(),
        Refusal::NoSuchResource => {
            Problem::new(StatusCode::NOT_FOUND, "no such resource: nobody holds, wants or configured it")
                .coded(Code::NoSuchResource)
        }
        Refusal::KeyReused => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this Idempotency-Key was used with another body on this resource",
        ),
        Refusal::KeySpent { how } => {
            let error = "the claim of this Idempotency-Key has ended";
            return Ok(ended::answer(StatusCode::GONE, Code::KeySpent, error, Some(*how), reply));
        }
        Refusal::StoreFull
        | Refusal::TooManyWaiting { .. }
        | Refusal::OverQuota { .. }
        | Refusal::TooManyClaims { .. }
        | Refusal::TooManyResources { .. }
        | Refusal::StateFull { .. }
        | Refusal::NoneFree { .. }
        | Refusal::NotHeld { .. }
        | Refusal::Locked { .. }
        | Refusal::TakenOut
        | Refusal::NotTheHolder => unreachable!("not said of a claim: {refusal:?}"),
    };
    Ok(reply.positioned(problem.to_response(reply.id)))
}

/// 409 that says which status the claim has.
fn conflict(conflict: &ClaimConflict<'_>, reply: &Reply<'_>) -> Response<Body> {
    reply.positioned(response::json(StatusCode::CONFLICT, reply.id, to_bytes(conflict)))
}
