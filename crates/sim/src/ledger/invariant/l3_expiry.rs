//! L3: expiry fires in time, and a pause with an end ends. At the end of a batch nothing is overdue in the batch's own
//! time.

use leasehold_engine::Time;

use super::{Check, ensure};
use crate::ledger::{EntryState, Ledger};

/// Where one step does only so much, the rest follows in the next ones, within a few ticks.
const MANY_DUE_US: u64 = 250_000;

pub(crate) fn on_batch(ledger: &Ledger) -> Check {
    let at = ledger.at;
    let slack_us = if ledger.due_per_step < 256 { MANY_DUE_US } else { 0 };
    for (claim, entry) in ledger.living() {
        let due_at = match entry.state {
            EntryState::Waiting => entry.wait_until,
            EntryState::Active => entry.deadline(),
            EntryState::Grace => entry.deadline().plus(entry.grace_us),
            EntryState::Lapsed | EntryState::Ended(_) => Time::NEVER,
        };
        ensure(due_at.plus(slack_us) >= at, "L3", || {
            format!("{claim:?} is {:?} at {at:?}, it was due {due_at:?}", entry.state)
        })?;
    }
    for (key, row) in &ledger.rows {
        let until = row.fit.paused_until.unwrap_or(Time::NEVER);
        ensure(until.plus(slack_us) >= at, "L3", || {
            format!("{key:?} is paused at {at:?}, it was to be until {until:?}")
        })?;
    }
    Ok(())
}
