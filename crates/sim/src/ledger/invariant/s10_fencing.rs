//! S10: every append is conditional on (epoch, position). A fenced owner writes nothing.

use leasehold_journal::Batch;

use super::{Check, ensure};
use crate::ledger::Ledger;

pub(crate) fn on_open(before: u64, epoch: u64) -> Check {
    ensure(epoch > before, "S10", || format!("the stream was opened in epoch {epoch} after {before}"))
}

pub(crate) fn on_accept(ledger: &Ledger, batch: &Batch) -> Check {
    let (epoch, owner) = (batch.epoch.0, ledger.epoch);
    ensure(epoch == owner, "S10", || format!("a batch of epoch {epoch} got in, epoch {owner} owns the stream"))?;
    let (first, head) = (batch.first.0, ledger.head);
    ensure(first == head + 1, "S10", || format!("a batch got in at {first}, the head is {head}"))
}

/// A fenced owner answers nothing that depends on what it did after it was fenced.
pub(crate) fn on_answer(ledger: &Ledger, epoch: u64, position: u64) -> Check {
    let next = ledger.reigns.iter().find(|(later, _)| *later > epoch);
    let end = next.map_or(u64::MAX, |(_, head)| *head);
    ensure(position <= end, "S10", || format!("epoch {epoch} answered at {position}, its reign ended at {end}"))
}

/// Found at a restart and never reported durable: only a batch that was sent and not answered may be there.
pub(crate) fn on_found(sent: Option<&Batch>, record: &[u8]) -> Check {
    let was_sent = sent.is_some_and(|batch| batch.record == record);
    ensure(was_sent, "S10", || "the journal has a batch that was not the one being written".to_owned())
}
