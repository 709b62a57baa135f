//! S1: live holders never exceed the capacity; while they do after it was lowered, nothing is granted.

use super::{Check, ensure};
use crate::ledger::Row;

pub(crate) fn on_grant(row: &Row) -> Check {
    let (held, capacity) = (row.holders.len(), row.capacity);
    ensure(held < capacity as usize, "S1", || format!("a grant with {held} of {capacity} slots held"))
}
