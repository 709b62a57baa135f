//! S21: a slot that is held keeps its name, every slot has a name or none has, and a holder is shown the name and data
//! that its slot has.

use std::sync::Arc;

use leasehold_engine::NamedSlot;

use super::{Check, ensure};
use crate::ledger::{Fit, Row};

pub(crate) fn on_named(row: &Row, slots: Option<&Arc<[NamedSlot]>>) -> Check {
    let count = slots.map_or(row.capacity as usize, |slots| slots.len());
    ensure(count == row.capacity as usize, "S21", || format!("{count} names for {} slots", row.capacity))?;
    for (slot, claim) in &row.holders {
        let had = row.fit.name(*slot);
        let gets = slots.and_then(|slots| slots.get(*slot as usize)).map(|slot| &slot.name);
        let is_kept = had.is_none() || had == gets;
        ensure(is_kept, "S21", || format!("slot {slot} goes from {had:?} to {gets:?} while {claim:?} holds it"))?;
    }
    Ok(())
}

/// A holder was shown its slot.
pub(crate) fn on_answer(fit: &Fit, slot: u32, shown: Option<&NamedSlot>) -> Check {
    let is = fit.slots.as_ref().and_then(|slots| slots.get(slot as usize));
    ensure(shown == is, "S21", || format!("slot {slot} was shown as {shown:?}, it is {is:?}"))
}
