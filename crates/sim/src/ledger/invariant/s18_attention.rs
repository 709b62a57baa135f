//! S18: a claim with a `wait_ttl` waits at least that long after it was asked about, and questions are written down at
//! most four times in that while. A grant that no caller saw is as short as its confirmation may take, until the claim
//! is asked about.

use leasehold_engine::{ClaimId, Moment, Time};

use super::{Check, ensure};
use crate::ledger::{Entry, EntryState, Ledger, When};

const NAME: &str = "S18";

pub(crate) fn on_kept(claim: ClaimId, entry: &Entry, moment: Moment, until: Time, epoch: u64) -> Check {
    let wait_ttl_us = entry.wait_ttl_us;
    if wait_ttl_us == 0 {
        return Ok(());
    }
    let (kept_at, kept_by) = entry.kept;
    // A restart is a question, whenever the last one was.
    let is_rare = kept_by < epoch || moment.at >= kept_at.plus(wait_ttl_us / 4);
    ensure(is_rare, NAME, || format!("{claim:?} was kept at {kept_at:?} and again at {:?}", moment.at))?;
    ensure(until.since(moment.at) >= wait_ttl_us, NAME, || format!("{claim:?} is kept until {until:?} only"))
}

/// Time withdrew the claim.
pub(crate) fn on_withdrawal(claim: ClaimId, entry: &Entry, moment: Moment, when: When, epoch: u64) -> Check {
    let at = moment.at;
    ensure(at >= entry.wait_until, NAME, || format!("{claim:?} was withdrawn at {at:?}, before its time"))?;
    // A process that is no longer the owner heeds no questions.
    let Some((asked, _)) = entry.asked.filter(|&(_, by)| by == epoch) else { return Ok(()) };
    let (passed_us, wait_ttl_us) = (when.fair_us.saturating_sub(asked.fair_us), entry.wait_ttl_us);
    ensure(passed_us + wait_ttl_us / 1000 + 2 >= wait_ttl_us, NAME, || {
        format!("{claim:?} was withdrawn {passed_us} us after it was asked about, not {wait_ttl_us}")
    })
}

/// A caller was parked on it when it was granted, in the same step.
pub(crate) fn on_confirmed(claim: ClaimId, entry: &Entry, position: u64) -> Check {
    let lease = entry.leases.last().filter(|lease| lease.position < position);
    let is_whole = entry.state == EntryState::Active && lease.is_some_and(|lease| lease.ttl_us == entry.ttl_us);
    ensure(is_whole, NAME, || format!("{claim:?} is confirmed with {lease:?} of {}", entry.ttl_us))
}

/// At the end of a batch, and so of a step.
pub(crate) fn on_batch(ledger: &Ledger) -> Check {
    for (claim, entry) in ledger.living().filter(|(_, entry)| entry.is_unconfirmed_at(ledger.head)) {
        let lease_us = entry.leases.last().map(|lease| lease.ttl_us);
        ensure(lease_us == Some(entry.confirm_us), NAME, || {
            format!("no caller knows that {claim:?} was granted, for {lease_us:?} us")
        })?;
    }
    Ok(())
}

/// A caller is told that the claim is active.
pub(crate) fn on_answer(claim: ClaimId, entry: &Entry, position: u64) -> Check {
    ensure(!entry.is_unconfirmed_at(position), NAME, || format!("{claim:?} is told of and not confirmed"))
}
