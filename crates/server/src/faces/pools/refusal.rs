//! The words of a refusal for a borrower.

use http::{Response, StatusCode};
use leasehold_engine::{Ending, Refusal};

use super::wire::NoneFree;
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
    let (status, code, reason) = match refusal {
        Refusal::NoneFree { waiting, eta_us, pause } => {
            return Ok(none_free(&NoneFree::of(*waiting, *eta_us, pause.as_deref()), envelope));
        }
        Refusal::TakenOut => {
            let (error, how) = ("an operator took this call out of the queue", Some(Ending::Revoked));
            let mut response = ended::answer(StatusCode::CONFLICT, Code::Revoked, error, how, envelope);
            response::set_retry_after(&mut response, 1);
            return Ok(response);
        }
        Refusal::NoSuchResource => (StatusCode::NOT_FOUND, Code::NoSuchPool, "no such pool"),
        Refusal::NoSuchClaim => (StatusCode::NOT_FOUND, Code::NoSuchLease, "no such lease"),
        Refusal::NotHeld { how } => {
            let error = "the lease is no longer held";
            return Ok(ended::answer(StatusCode::CONFLICT, Code::NotHeld, error, *how, envelope));
        }
        Refusal::KeyReused => (
            StatusCode::UNPROCESSABLE_ENTITY,
            Code::KeyReused,
            "this Idempotency-Key was used with another body on this pool",
        ),
        Refusal::KeySpent { how } => {
            let error = "the lease of this Idempotency-Key has ended";
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
        | Refusal::Locked { .. }
        | Refusal::NotTheHolder
        | Refusal::Ended(_)
        | Refusal::StillWaiting
        | Refusal::Contended => unreachable!("not said of a pool: {refusal:?}"),
    };
    let hint = (code == Code::NoSuchPool).then_some(r#"PUT /l/ID with {"count": 1} makes one"#);
    Ok(envelope.positioned(Problem::new(status, reason).coded(code).hinting(hint).to_response(envelope.id)))
}

fn none_free(none_free: &NoneFree<'_>, envelope: &Envelope<'_>) -> Response<Body> {
    let mut response = response::json(StatusCode::CONFLICT, envelope.id, to_bytes(none_free));
    response::set_retry_after(&mut response, 1);
    envelope.positioned(response)
}
