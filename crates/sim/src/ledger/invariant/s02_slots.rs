//! S2: no two live holders share a slot; a granted slot is below the capacity, and the lowest that is free.

use super::{Check, ensure};
use crate::ledger::Row;

pub(crate) fn on_grant(row: &Row, slot: u32) -> Check {
    let taken = row.holders.iter().any(|(held, _)| *held == slot);
    ensure(!taken, "S2", || format!("slot {slot} was granted while it is held"))?;
    ensure(slot < row.capacity, "S2", || format!("slot {slot} was granted of {}", row.capacity))?;
    ensure(slot == row.lowest_free(), "S2", || format!("slot {slot} was granted, {} is free", row.lowest_free()))
}
