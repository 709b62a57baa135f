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
mod outgoing;
mod peers;
mod run;
mod status;
mod surroundings;
mod tls;

pub use counts::NodeCounts;
pub use entrance::{Calling, Entrance, Heard};
pub use leasehold_cluster::{MoveCause, PartitionMove};
pub use run::{RunningNode, Start, StartError, start};
pub use status::{ClusterStatus, NodeStatus, PartitionStatus};
pub use surroundings::{Observers, TimeSource};
pub use tls::{AnyCertificate, LinkTls};
