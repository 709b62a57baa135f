//! L2: a dead waiter leaves within its poll slice, and a live one stays until it gives up.

use leasehold_engine::{ClaimId, Moment, Time};

use super::{Check, ensure};
use crate::ledger::{Entry, Ledger, State};

pub(crate) fn on_timeout(claim: ClaimId, entry: &Entry, moment: Moment) -> Check {
    ensure(entry.state == State::Waiting, "L2", || format!("{claim:?} timed out while {:?}", entry.state))?;
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

/// At rest: each waiter that needs a connection has one. `callers` counts callers parked at the owner.
pub(crate) fn at_rest(ledger: &Ledger, callers: usize) -> Check {
    let waiting = ledger.living().filter(|(_, entry)| entry.state == State::Waiting && entry.wait_until != Time::NEVER);
    let waiting = waiting.count();
    ensure(waiting <= callers, "L2", || format!("{waiting} claims wait with a connection, {callers} callers do"))
}
