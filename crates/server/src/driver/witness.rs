//! The driver's only word upwards: it tells a witness about changes, and knows nothing of events, metrics or logs.

use std::fmt::Debug;
use std::time::Duration;

use leasehold_engine::{Totals, Wall};
use leasehold_journal::{Epoch, Happened, Position, Retold, Sizes};

/// Called for every change, mostly on the committer's thread: an implementation is brief and never waits.
pub trait Witness: Debug + Send + Sync {
    /// Once for each partition, before anything is served.
    fn begin(&self, beginning: Beginning);

    /// Changes that are durable, to be counted and logged, in any order.
    fn happened(&self, happened: &[Happened]);

    /// The same changes, to be kept, in the order of their partition's journal.
    fn record(&self, partition: u32, happened: &[Happened], totals: &Totals);

    /// Once for a node of a cluster, before it follows its partitions.
    fn join(&self, partitions: u32, secret: [u8; 32], wall: Wall);

    /// Changes of a partition up to this position are unknown to this node: what is known begins here.
    fn gap(&self, partition: u32, upto: Position, wall: Wall);

    /// So many changes and bytes were written in one go.
    fn appended(&self, changes: u64, bytes: usize, took: Duration);

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
