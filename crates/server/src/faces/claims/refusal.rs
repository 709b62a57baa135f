//! The words of a refusal for a claimant.

use http::{Response, StatusCode};
use leasehold_engine::{ClaimStatus, Refusal};

use super::wire::{ClaimConflict, ending_name};
use crate::auth::no_such_claim;
use crate::code::Code;
use crate::faces::{Envelope, denial, ended, fittings};
use crate::http::json::to_bytes;
use crate::http::{Body, Problem};
use crate::response;

pub(super) fn word(refusal: &Refusal, envelope: &Envelope<'_>) -> Result<Response<Body>, Problem> {
    if let Some(problem) = denial::past_a_limit(refusal) {
        return Err(problem);
    }
    if let Some(problem) = fittings::refused(refusal) {
        return Ok(envelope.positioned(problem.to_response(envelope.id)));
    }
    let problem = match refusal {
        Refusal::Ended(how) => {
            let error = format!("the claim is {}, it can no longer be changed", ending_name(*how));
            return Ok(conflict(&ClaimConflict::ended(&error, *how), envelope));
        }
        Refusal::StillWaiting => {
            let error = "the claim is waiting, it has no ttl and nothing to release";
            return Ok(conflict(&ClaimConflict::waits(error), envelope));
        }
        Refusal::Contended => {
            let error = "the claim is waiting, the resource is held by others";
            return Ok(conflict(&ClaimConflict::waits(error), envelope));
        }
        Refusal::NoSuchClaim => no_such_claim(),
        Refusal::NoSuchResource => {
            Problem::new(StatusCode::NOT_FOUND, "no such resource: nobody holds, wants or configured it")
                .coded(Code::NoSuchResource)
        }
        Refusal::KeyReused => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this Idempotency-Key was used with another body on this resource",
        )
        .coded(Code::KeyReused),
        Refusal::KeySpent { how } => {
            let error = "the claim of this Idempotency-Key has ended";
            return Ok(ended::answer(StatusCode::GONE, Code::KeySpent, error, Some(*how), envelope));
        }
        Refusal::StoreFull
        | Refusal::EndedUntold { .. }
        | Refusal::TooManyWaiting { .. }
        | Refusal::OverQuota { .. }
        | Refusal::TooManyClaims { .. }
        | Refusal::TooManyResources { .. }
        | Refusal::StateFull { .. }
        | Refusal::NoSuchSlot { .. }
        | Refusal::SlotHeld { .. }
        | Refusal::SlotsNamed { .. }
        | Refusal::TooManyOutOfService { .. }
        | Refusal::NoneFree { .. }
        | Refusal::NotHeld { .. }
        | Refusal::Locked { .. }
        | Refusal::TakenOut
        | Refusal::NotTheHolder => unreachable!("not said of a claim: {refusal:?}"),
    };
    Ok(envelope.positioned(problem.to_response(envelope.id)))
}

/// 409 to a caller that wants a proof of a claim that is not active.
pub(super) fn nothing_to_prove(status: ClaimStatus, envelope: &Envelope<'_>) -> Response<Body> {
    match status {
        ClaimStatus::Ended(how) => {
            let error = format!("the claim is {}, there is nothing to prove", ending_name(how));
            conflict(&ClaimConflict::ended(&error, how), envelope)
        }
        ClaimStatus::Waiting | ClaimStatus::Active => {
            conflict(&ClaimConflict::waits("the claim is waiting, there is nothing to prove"), envelope)
        }
    }
}

/// 409 that says which status the claim has.
fn conflict(conflict: &ClaimConflict<'_>, envelope: &Envelope<'_>) -> Response<Body> {
    envelope.positioned(response::json(StatusCode::CONFLICT, envelope.id, to_bytes(conflict)))
}
