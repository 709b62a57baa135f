//! L3: expiry fires in time. At the end of a batch nothing is overdue in the batch's own time.

use leasehold_engine::Time;

use super::{Check, ensure};
use crate::ledger::{Ledger, State};

pub(crate) fn on_batch(ledger: &Ledger) -> Check {
    let at = ledger.at;
    for (claim, entry) in ledger.living() {
        let due_at = match entry.state {
            State::Waiting => entry.wait_until,
            State::Active => entry.deadline(),
            State::Grace => entry.deadline().plus(entry.grace_us),
            State::Lapsed | State::Ended(_) => Time::NEVER,
        };
        ensure(due_at >= at, "L3", || format!("{claim:?} is {:?} at {at:?}, it was due {due_at:?}", entry.state))?;
    }
    Ok(())
}
