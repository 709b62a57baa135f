//! L1: at rest, no free slot together with a waiter that fits. Every batch ends at rest.

use super::{Check, ensure};
use crate::ledger::{EntryState, Ledger};

pub(crate) fn check(ledger: &Ledger) -> Check {
    for (key, row) in &ledger.rows {
        if row.queue.is_empty() {
            continue;
        }
        let lapsed =
            row.holders.iter().any(|(_, id)| ledger.claims.get(id).is_some_and(|e| e.state == EntryState::Lapsed));
        let is_free = row.holders.len() < row.capacity as usize || lapsed;
        ensure(!is_free, "L1", || {
            format!("{} wait for {key:?}, and {} of {} are held", row.queue.len(), row.holders.len(), row.capacity)
        })?;
    }
    Ok(())
}
