//! S12: grant order is enqueue order among waiters still alive; positions order answers.

use leasehold_engine::ClaimId;

use super::{Check, ensure};
use crate::ledger::Row;

pub(crate) fn on_grant(row: &Row, claim: ClaimId) -> Check {
    let next = row.queue.first();
    ensure(next == Some(&claim), "S12", || format!("{claim:?} was granted, {next:?} is next"))
}

/// A process gave an answer at `before`, and now at `position`.
pub(crate) fn on_answer(before: u64, position: u64) -> Check {
    ensure(position >= before, "S12", || format!("an answer at {position} left after one at {before}"))
}
