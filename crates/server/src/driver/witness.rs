//! The driver's only word upwards: it tells a witness about changes, and knows nothing of events, metrics or logs.

use std::fmt::Debug;
use std::time::Duration;

use leasehold_engine::{Totals, Wall};
use leasehold_journal::{Batch, Epoch, Happened, Position, Retold, Sizes};

/// Called for every change, mostly on the committer's thread: an implementation is brief and never waits.
pub trait Witness: Debug + Send + Sync {
    /// Once for each partition, before anything is served.
    fn begin(&self, beginning: Beginning);

    /// Changes that are durable, to be counted and logged, in any order.
    fn happened(&self, happened: &[Happened]);

    /// The same changes, to be kept, in the order of their partition's journal.
    fn record(&self, partition: u32, happened: &[Happened], totals: &Totals);

    /// A batch was written.
    fn appended(&self, batch: &Batch, took: Duration);

    /// The store as it was just looked at.
    fn store(&self, partition: u32, sizes: Sizes, syncs: u64, is_low: bool);

    /// A checkpoint was written.
    fn checkpointed(&self);

    /// The service is about to end: streams end with it.
    fn close(&self);
}

/// The state when a partition starts.
#[derive(Debug)]
pub struct Beginning {
    pub partition: u32,
    pub epoch: Epoch,
    pub head: Position,
    pub history: Retold,
    /// Where the data has one, so that digests stay the same.
    pub secret: Option<[u8; 32]>,
    pub wall: Wall,
}
