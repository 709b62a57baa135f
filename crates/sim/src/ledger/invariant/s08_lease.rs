//! S8: no other caller is granted before the time of sending + ttl on the holder's own monotonic clock. A lease ends no
//! earlier than that, and in the journal never before its deadline; locks keep their grace.

use leasehold_engine::{ClaimId, Moment};

use super::{Check, ensure};
use crate::ledger::{Entry, EntryState};

pub(crate) fn on_expiry_in_journal(claim: ClaimId, entry: &Entry, moment: Moment) -> Check {
    let deadline = entry.deadline();
    ensure(entry.state == EntryState::Active, "S8", || format!("{claim:?} expired while {:?}", entry.state))?;
    ensure(moment.at >= deadline, "S8", || format!("{claim:?} expired at {:?}, it ends {deadline:?}", moment.at))
}

pub(crate) fn on_grace_over(claim: ClaimId, entry: &Entry, moment: Moment) -> Check {
    let until = entry.deadline().plus(entry.grace_us);
    ensure(entry.state == EntryState::Grace, "S8", || format!("the grace of {claim:?} ended while {:?}", entry.state))?;
    ensure(moment.at >= until, "S8", || format!("the grace of {claim:?} ended {:?}, not {until:?}", moment.at))
}

pub(crate) fn on_superseded(claim: ClaimId, entry: &Entry) -> Check {
    ensure(entry.state == EntryState::Lapsed, "S8", || {
        format!("the lock of {claim:?} was taken while {:?}", entry.state)
    })
}

/// By the holder's clock, turned into the world's: it was told that it holds until `until_us`, and lost it at
/// `lost_us`.
pub(crate) fn by_holders_clock(claim: ClaimId, until_us: u64, lost_us: u64, ttl_us: u64) -> Check {
    // Clocks differ by up to 400 millionths here; a lease cannot be more exact than that.
    let allowed_us = ttl_us / 1000 + 2;
    // A lease of no length may end in the same instant of a service time that stands still.
    ensure(ttl_us == 0 || lost_us + allowed_us >= until_us, "S8", || {
        format!("{claim:?} ended {} us before its holder's clock said so", until_us - lost_us)
    })
}
