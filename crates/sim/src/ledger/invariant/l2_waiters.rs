//! L2: a dead waiter leaves within its poll slice, and a live one stays until it gives up.

use leasehold_engine::{ClaimId, Moment, Time};

use super::{Check, ensure};
use crate::ledger::{Entry, EntryState, Ledger};

pub(crate) fn on_timeout(claim: ClaimId, entry: &Entry, moment: Moment) -> Check {
    ensure(entry.state == EntryState::Waiting, "L2", || format!("{claim:?} timed out while {:?}", entry.state))?;
    let until = entry.wait_until;
    ensure(moment.at >= until, "L2", || format!("{claim:?} timed out at {:?}, it waits until {until:?}", moment.at))
}

/// A claim that stands by itself was withdrawn.
pub(crate) fn on_withdrawal_of_standing(claim: ClaimId, was_asked: bool) -> Check {
    ensure(was_asked, "S4", || format!("{claim:?} stands by itself and was withdrawn; no caller asked for that"))
}

pub(crate) fn on_withdrawal(claim: ClaimId, has_caller: bool, was_asked: bool) -> Check {
    ensure(was_asked || !has_caller, "L2", || format!("{claim:?} was withdrawn while its caller waits"))
}

/// The last call that waited left: the place stays for as long as it was asked to be kept, from now on.
pub(crate) fn on_kept(claim: ClaimId, entry: &Entry, until: Time, moment: Moment) -> Check {
    let expected = moment.at.plus(entry.keep_us);
    let is_right = entry.state == EntryState::Waiting && entry.keep_us > 0 && until == expected;
    ensure(is_right, "L2", || format!("{claim:?} is kept until {until:?}, not {expected:?}: {entry:?}"))
}

/// A kept place goes when its time is over, or a caller asked for that, and not with its last call.
pub(crate) fn on_loss_of_kept(claim: ClaimId, was_asked: bool) -> Check {
    ensure(was_asked, "L2", || format!("the place of {claim:?} is kept, and it was given away"))
}

/// At rest: each waiter that needs a connection has one. `callers` counts callers parked at the owner.
pub(crate) fn at_rest(ledger: &Ledger, callers: usize) -> Check {
    let needs_caller = |entry: &Entry| entry.wait_until != Time::NEVER && entry.keep_us == 0 && entry.wait_ttl_us == 0;
    let waiting = ledger.living().filter(|(_, entry)| entry.state == EntryState::Waiting && needs_caller(entry));
    let waiting = waiting.count();
    ensure(waiting <= callers, "L2", || format!("{waiting} claims wait with a connection, {callers} callers do"))
}
