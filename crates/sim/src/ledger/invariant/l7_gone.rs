//! L7: nothing is held, and nothing waits, for callers that are gone. A caller was told of every live claim, or is
//! about to be.

use leasehold_engine::{ClaimId, Lease, Moment, Time};

use super::{Check, ensure};
use crate::ledger::{Entry, EntryState, Ledger};

/// At rest. `is_stood_for`: whether a caller knows of the claim, will be told of it, or may have been by a process that
/// is no more.
pub(crate) fn at_rest(ledger: &Ledger, is_stood_for: impl Fn(ClaimId, &Entry) -> bool) -> Check {
    for (claim, entry) in ledger.living() {
        // A place that is kept stands by itself, and ends by itself.
        let is_kept = entry.is_away && entry.keep_us > 0;
        ensure(is_kept || is_stood_for(*claim, entry), "L7", || {
            format!("{claim:?} is {:?}, and all its callers left", entry.state)
        })?;
    }
    Ok(())
}

/// A waiter whose connection belonged to an earlier process has lost it.
pub(crate) fn on_grant(claim: ClaimId, entry: &Entry, epoch: u64) -> Check {
    let needs_caller = entry.wait_until != Time::NEVER && entry.keep_us == 0 && entry.wait_ttl_us == 0;
    let is_orphan = entry.state == EntryState::Waiting && needs_caller && entry.epoch < epoch;
    ensure(!is_orphan, "L7", || format!("{claim:?} was granted, its connection went with epoch {}", entry.epoch))
}

/// A place without a call that waits there gets no more than its own time: its caller may never come back.
pub(crate) fn on_grant_to_kept(claim: ClaimId, entry: &Entry, lease: Lease, moment: Moment) -> Check {
    // Its time may be over already, and the end of it not handled yet: then the lease has no length.
    let is_short = lease.deadline <= entry.wait_until.max(moment.at);
    ensure(is_short || !entry.is_away, "L7", || {
        format!("{claim:?} is kept until {:?} and was granted until {:?}", entry.wait_until, lease.deadline)
    })
}
