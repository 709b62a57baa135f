//! The surroundings that a node is given: the time, and observers that it tells of changes.

use std::fmt;
use std::sync::Arc;

use leasehold_cluster::{Bulletin, Meta};
use leasehold_engine::Totals;
use leasehold_journal::Clocks;

/// The only source of time.
#[derive(Clone)]
pub struct TimeSource(pub Arc<dyn Fn() -> Clocks + Send + Sync>);

impl TimeSource {
    pub(crate) fn read(&self) -> Clocks {
        (self.0)()
    }
}

impl fmt::Debug for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeSource")
    }
}

/// Told of durable changes in every partition, in the order of each, under the node's lock: an implementation is brief
/// and never waits.
pub trait Observers: fmt::Debug + Send + Sync {
    /// The node joins for the first time: nothing is told before.
    fn joined(&self, meta: &Meta);

    /// Changes became durable.
    fn news(&self, news: &Bulletin, totals: &Totals);

    /// A transaction with so many changes and bytes became durable.
    fn appended(&self, changes: u64, bytes: usize, took: std::time::Duration);

    /// A checkpoint was written.
    fn checkpointed(&self);
}
