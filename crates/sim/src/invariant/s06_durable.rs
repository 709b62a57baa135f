//! S6: no answer shows what is not durable: reads and refusals included. What it shows is in `ledger::witness`.

use super::{Check, ensure};
use crate::ledger::Ledger;

pub(crate) fn on_answer(ledger: &Ledger, position: u64) -> Check {
    let durable = ledger.head;
    ensure(position <= durable, "S6", || format!("an answer of position {position} left, {durable} is durable"))
}
