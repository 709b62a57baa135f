//! L1: at rest, no free slot together with a waiter that fits, unless the resource is paused or the slot is out of
//! service. Every batch ends at rest.

use super::{Check, ensure};
use crate::ledger::{EntryState, Ledger};

pub(crate) fn check(ledger: &Ledger) -> Check {
    for (key, row) in &ledger.rows {
        if row.queue.is_empty() {
            continue;
        }
        let is_lapsed = |id| ledger.claims.get(id).is_some_and(|entry| entry.state == EntryState::Lapsed);
        let held = row.holders.iter().filter(|(_, id)| !is_lapsed(id)).map(|(slot, _)| *slot);
        let is_free = row.has_room(&held.collect::<Vec<_>>());
        ensure(!is_free, "L1", || {
            format!("{} wait for {key:?}, and {} of {} are held", row.queue.len(), row.holders.len(), row.capacity)
        })?;
    }
    Ok(())
}
