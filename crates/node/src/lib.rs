//! A node of a cluster with its sockets: everything around [`leasehold_cluster::Node`] that does IO.
//!
//! ```text
//! callers ─ call ─▶ Entrance ─┐                        ┌─▶ store    one task for each call to the shared store
//!                             ├─ lock ─ Node ─ unlock ─┼─▶ links    frames to and from the other nodes
//! links, store, ticks ────────┘                        ├─▶ callers  answers
//!                                                      └─▶ Observers
//! ```
//!
//! The node decides; this crate carries out. It reads no clock: readings come from the function that it is given. All
//! of it runs on the runtime that [`start`] is called on, and nothing here blocks a thread.

#![warn(missing_docs)]

mod counts;
mod entrance;
mod hello;
mod link;
mod peers;
mod run;
mod status;
mod tls;

use std::fmt;
use std::sync::Arc;

use leasehold_cluster::{Bulletin, Meta};
use leasehold_engine::Totals;
use leasehold_journal::Clocks;

pub use counts::Counts;
pub use entrance::{Calling, Entrance, Heard};
pub use run::{RunningNode, Start, StartError, start};
pub use status::{ClusterStatus, NodeStatus, PartitionStatus};
pub use tls::LinkTls;

/// The only source of time.
#[derive(Clone)]
pub struct Clock(pub Arc<dyn Fn() -> Clocks + Send + Sync>);

impl Clock {
    fn read(&self) -> Clocks {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
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
