//! S14: unknown stays unknown, never a definite "no" that later turns into a "yes"; a grant answered 502 is not held.

use leasehold_engine::ClaimId;

use super::{Check, ensure};
use crate::ledger::{Asks, Entry, Ledger};

/// A claim that a second caller joined outlives the refusal of the first, and so does a place that is kept: their keys
/// still lead to them.
pub(crate) fn on_grant(claim: ClaimId, entry: &Entry, asks: &Asks) -> Check {
    let outlives = entry.seen || entry.keep_us > 0;
    ensure(outlives || !asks.refused.contains(&claim), "S14", || format!("{claim:?} was refused, and is granted now"))
}

/// At rest, in the process that answered 502: its grant is gone, unless a second caller knows of it that was not
/// answered 502 as well.
pub(crate) fn at_rest(
    ledger: &Ledger,
    given_up: &[ClaimId],
    are_all_given_up: impl Fn(ClaimId, &Entry) -> bool,
) -> Check {
    for claim in given_up {
        let Some(entry) = ledger.claims.get(claim) else { continue };
        // A place that is kept outlives its calls, however they end.
        let is_kept = entry.keep_us > 0 && entry.is_away;
        let is_left = entry.ended.is_none() && !is_kept && (!entry.seen || are_all_given_up(*claim, entry));
        ensure(!is_left, "S14", || format!("{claim:?} was answered 502 and is {:?}", entry.state))?;
    }
    Ok(())
}
