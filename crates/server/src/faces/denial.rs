//! The refusals of the service itself, the same in every dialect. Each dialect words the refusals of the engine.

use leasehold_engine::Refusal;
use leasehold_journal::Denial;

use crate::code::Code;
use crate::http::Problem;

/// Seconds after which to come back when the service is full, starting or going.
const RETRY_SOON_S: u64 = 1;

/// Seconds after which to come back when the disk is nearly full.
const RETRY_WHEN_THERE_IS_ROOM_S: u64 = 10;

/// Sorts out the denials that no dialect words for itself: returns the engine's refusal, or the problem to answer with.
pub(crate) fn unserved(denial: Denial) -> Result<Refusal, Problem> {
    Err(match denial {
        Denial::Refused(refusal) => return Ok(refusal),
        Denial::StoreLate => Problem::bad_gateway(
            "the store did not confirm the write in time; nothing was promised, it is safe to retry",
            RETRY_SOON_S,
        )
        .coded(Code::StoreLate),
        Denial::Overloaded => {
            Problem::unavailable("too many calls are waiting for an answer", RETRY_SOON_S).coded(Code::Overloaded)
        }
        Denial::StoreBehind => Problem::unavailable(
            "the store does not keep up, nothing more is taken on until it does; nothing was done",
            RETRY_SOON_S,
        )
        .coded(Code::Overloaded),
        // The driver asks the new owner itself; a caller hears of it only if that took too long.
        Denial::Moved => Problem::unavailable("the partition of this resource is moving", RETRY_SOON_S),
        Denial::Lost => Problem::bad_gateway(
            "the owner of this resource was lost before it answered; nothing was promised, it is safe to retry",
            RETRY_SOON_S,
        )
        .coded(Code::StoreLate),
        Denial::EarlierVersion => Problem::unavailable(
            "a node of an earlier version is still in the cluster and does not know this; nothing was done",
            RETRY_SOON_S,
        )
        .hinting("it works when every node of the cluster is upgraded"),
        Denial::ShuttingDown => Problem::unavailable("shutting down", RETRY_SOON_S).coded(Code::ShuttingDown),
    })
}

/// Refusals that come from the service, most of them from one of its limits, and not from the call.
pub(crate) fn past_a_limit(refusal: &Refusal) -> Option<Problem> {
    let reason = match refusal {
        Refusal::OverQuota { is_about_waiting, limit } => {
            let what = if *is_about_waiting { "claims that wait" } else { "claims" };
            let reason = format!("the caller has {limit} {what}, as many as it may");
            return Some(Problem::too_many(reason, RETRY_SOON_S).coded(Code::OverQuota));
        }
        Refusal::StoreFull => {
            let reason = "the store is nearly full, nothing new is taken on until there is room";
            return Some(Problem::unavailable(reason, RETRY_WHEN_THERE_IS_ROOM_S).coded(Code::StoreFull));
        }
        Refusal::EndedUntold { .. } => {
            let reason = "this call was granted and its claim ended before the answer could leave; nothing is held, it is \
                          safe to retry";
            return Some(Problem::unavailable(reason, RETRY_SOON_S));
        }
        Refusal::TooManyWaiting { limit } => format!("the limit of {limit} callers waiting in queues is reached"),
        Refusal::TooManyClaims { limit } => format!("the limit of {limit} live claims is reached"),
        Refusal::StateFull { limit_bytes } => {
            format!(
                "the service holds as much as it may, {} MiB (state_max): nothing new is taken on until something ends; \
                 releases and renewals go on",
                limit_bytes.div_ceil(1 << 20)
            )
        }
        Refusal::TooManyResources { limit } => format!("the limit of {limit} resources is reached"),
        _ => return None,
    };
    Some(Problem::unavailable(reason, RETRY_SOON_S).coded(Code::Overloaded))
}
