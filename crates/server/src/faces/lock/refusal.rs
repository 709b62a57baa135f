//! The words of a refusal for a client that does not get the lock.

use http::{Response, StatusCode};
use leasehold_engine::{Ending, LockView, Refusal};

use super::wire::{LockHeld, NotTheHolder, is_open};
use crate::code::Code;
use crate::faces::{Envelope, denial, ended};
use crate::http::json::to_bytes;
use crate::http::{Body, Problem};
use crate::response;

/// A pause may be ended at any time.
const RETRY_PAUSED_US: u64 = 30_000_000;

pub(super) fn word(refusal: &Refusal, job: &str, envelope: &Envelope<'_>) -> Result<Response<Body>, Problem> {
    if let Some(problem) = denial::past_a_limit(refusal) {
        return Err(problem);
    }
    match refusal {
        Refusal::TakenOut => {
            let (error, how) = ("an operator took this client out of the queue", Some(Ending::Revoked));
            Ok(ended::answer(StatusCode::CONFLICT, Code::Revoked, error, how, envelope))
        }
        Refusal::Locked { lock, in_grace, eta_us } => Ok(locked(lock, *in_grace, *eta_us, envelope)),
        Refusal::NotTheHolder => {
            let body = to_bytes(&NotTheHolder::of(job));
            Ok(envelope.positioned(response::json(StatusCode::FORBIDDEN, envelope.id, body)))
        }
        Refusal::NotHeld { how } => Ok(ended::answer(
            StatusCode::CONFLICT,
            Code::NotHeld,
            "the lock is not held under this token",
            *how,
            envelope,
        )),
        Refusal::KeyReused => {
            let reason = "this Idempotency-Key was used with another client or ttl on this lock";
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reason).coded(Code::KeyReused);
            Ok(envelope.positioned(problem.to_response(envelope.id)))
        }
        Refusal::KeySpent { how } => {
            let error = "the lock of this Idempotency-Key has ended";
            Ok(ended::answer(StatusCode::GONE, Code::KeySpent, error, Some(*how), envelope))
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
        | Refusal::NoSuchResource
        | Refusal::NoSuchClaim
        | Refusal::Ended(_)
        | Refusal::StillWaiting
        | Refusal::Contended => unreachable!("not said of a lock: {refusal:?}"),
    }
}

fn locked(lock: &LockView, in_grace: bool, eta_us: Option<u64>, envelope: &Envelope<'_>) -> Response<Body> {
    let mut response =
        response::json(StatusCode::CONFLICT, envelope.id, to_bytes(&LockHeld::of(lock, in_grace, eta_us)));
    let rest_us = match &lock.pause {
        Some(pause) if is_open(lock) => pause.rest_us.unwrap_or(RETRY_PAUSED_US).min(RETRY_PAUSED_US),
        _ => lock.holder.as_ref().map_or(0, |holder| holder.grace_until.since(lock.now.at)),
    };
    response::set_retry_after(&mut response, rest_us.div_ceil(1_000_000));
    envelope.positioned(response)
}
