//! S3: tokens strictly increase per resource, across everything. The row of the ledger outlives the resource.

use super::{Check, ensure};
use crate::ledger::Row;

pub(crate) fn on_grant(row: &Row, last_of_all: u64, token: u64) -> Check {
    let last = row.last_token.max(last_of_all);
    ensure(token > last, "S3", || format!("token {token} was granted after {last}"))
}

/// Tokens jump over those that a store lost, and never back.
pub(crate) fn on_jump(last_of_all: u64, token: u64) -> Check {
    ensure(token > last_of_all, "S3", || format!("tokens jumped to {token} after {last_of_all}"))
}
