//! S6: no answer, read or refusal shows a change that is not durable. `ledger::witness` knows what an answer shows.

use super::{Check, ensure};
use crate::ledger::Ledger;

pub(crate) fn on_answer(ledger: &Ledger, position: u64) -> Check {
    let durable = ledger.head;
    ensure(position <= durable, "S6", || format!("an answer of position {position} left, {durable} is durable"))
}
