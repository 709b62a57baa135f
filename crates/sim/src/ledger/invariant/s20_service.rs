//! S20: a slot that is out of service is not granted; only slots below the capacity are taken out of service.

use super::{Check, ensure};
use crate::ledger::Row;

pub(crate) fn on_grant(row: &Row, slot: u32) -> Check {
    ensure(!row.fit.out.contains(&slot), "S20", || format!("slot {slot} was granted while it is out of service"))
}

pub(crate) fn on_served(row: &Row, slot: u32) -> Check {
    ensure(slot < row.capacity, "S20", || format!("slot {slot} of {} was taken out of service", row.capacity))
}
