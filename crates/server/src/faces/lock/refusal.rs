//! The words of a refusal for a client that does not get the lock.

use http::{Response, StatusCode};
use leasehold_engine::{LockView, Refusal};

use super::wire::write_holder;
use crate::faces::{Reply, denial, ended};
use crate::http::json::write::Object;
use crate::http::{Body, Code, Problem, response};

pub(super) fn word(refusal: &Refusal, job: &str, reply: &Reply<'_>) -> Result<Response<Body>, Problem> {
    if let Some(problem) = denial::past_a_limit(refusal) {
        return Err(problem);
    }
    match refusal {
        Refusal::Locked { lock, in_grace } => Ok(locked(lock, *in_grace, reply)),
        Refusal::NotTheHolder => {
            let mut object = Object::new();
            object.string("error", "client does not hold the lock").string("code", Code::NotTheHolder.as_str());
            object.boolean("success", false).string("job", job);
            Ok(reply.positioned(response::json(StatusCode::FORBIDDEN, reply.id, object.end())))
        }
        Refusal::NotHeld { how } => {
            Ok(ended::answer(StatusCode::CONFLICT, Code::NotHeld, "the lock is not held under this token", *how, reply))
        }
        Refusal::KeyReused => {
            let reason = "this Idempotency-Key was used with another client or ttl on this lock";
            Ok(reply.positioned(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reason).to_response(reply.id)))
        }
        Refusal::KeySpent { how } => {
            let error = "the lock of this Idempotency-Key has ended";
            Ok(ended::answer(StatusCode::GONE, Code::KeySpent, error, Some(*how), reply))
        }
        Refusal::StoreFull
        | Refusal::TooManyWaiting { .. }
        | Refusal::OverQuota { .. }
        | Refusal::TooManyClaims { .. }
        | Refusal::TooManyResources { .. }
        | Refusal::StateFull { .. }
        | Refusal::NoneFree { .. }
        | Refusal::NoSuchResource
        | Refusal::NoSuchClaim
        | Refusal::Ended(_)
        | Refusal::StillWaiting
        | Refusal::Contended => unreachable!("not said of a lock: {refusal:?}"),
    }
}

fn locked(lock: &LockView, in_grace: bool, reply: &Reply<'_>) -> Response<Body> {
    let (error, code) =
        if in_grace { ("grace period active", Code::Grace) } else { ("lock held by another client", Code::Locked) };
    let mut object = Object::new();
    object.string("error", error).string("code", code.as_str());
    let mut rest_us = 0;
    if let Some(holder) = &lock.holder {
        write_holder(&mut object, holder, lock.now);
        object.time_ms("grace_until", lock.now.wall_at(holder.grace_until).0);
        rest_us = holder.grace_until.since(lock.now.at);
    }
    object.boolean("success", false).string("job", &lock.job).string("message", error);
    let mut response = response::json(StatusCode::CONFLICT, reply.id, object.end());
    response::set_retry_after(&mut response, rest_us.div_ceil(1_000_000));
    reply.positioned(response)
}
