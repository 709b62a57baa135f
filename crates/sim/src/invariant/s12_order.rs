//! S12: grant order is enqueue order among waiters still alive.

use leasehold_engine::ClaimId;

use super::{Check, ensure};
use crate::ledger::Row;

pub(crate) fn on_grant(row: &Row, claim: ClaimId) -> Check {
    let next = row.queue.first();
    ensure(next == Some(&claim), "S12", || format!("{claim:?} was granted, {next:?} is next"))
}
