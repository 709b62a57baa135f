//! L7: nothing is held, and nothing waits, for callers that are gone. A caller was told of every live claim, or is
//! about to be.

use leasehold_engine::ClaimId;

use super::{Check, ensure};
use crate::ledger::{Entry, Ledger, State};

/// At rest. `is_stood_for`: whether a caller knows of the claim, will be told of it, or may have been by a process that
/// is no more.
pub(crate) fn at_rest(ledger: &Ledger, is_stood_for: impl Fn(ClaimId, &Entry) -> bool) -> Check {
    for (claim, entry) in ledger.living() {
        ensure(is_stood_for(*claim, entry), "L7", || {
            format!("{claim:?} is {:?}, and all its callers left", entry.state)
        })?;
    }
    Ok(())
}

/// A waiter whose connection belonged to an earlier process has lost it.
pub(crate) fn on_grant(claim: ClaimId, entry: &Entry, epoch: u64) -> Check {
    let is_orphan =
        entry.state == State::Waiting && entry.wait_until != leasehold_engine::Time::NEVER && entry.epoch < epoch;
    ensure(!is_orphan, "L7", || format!("{claim:?} was granted, its connection went with epoch {}", entry.epoch))
}
