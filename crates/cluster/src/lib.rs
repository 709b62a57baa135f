//! Several nodes, one service: any node takes any request, each partition has one owner, and nothing acknowledged is
//! lost. Consensus and replication are the work of the store; ownership, proof, forwarding, following and moving are
//! done here.
//!
//! There is no IO in this crate, no clock, no thread and no randomness. [`store`] is the contract with etcd or a
//! database, as futures that any executor may run. docs/cluster.md has the rules and why they are safe.

#![warn(missing_docs)]

#[cfg(feature = "conformance")]
pub mod conformance;
mod follower;
pub mod format;
mod hash;
mod ids;
#[cfg(feature = "conformance")]
pub mod kit;
mod map;
mod message;
pub mod moving;
mod node;
mod placement;
pub mod record;
mod relay;
pub mod store;
pub mod wire;

pub use follower::{Broken, Follower};
pub use hash::{HASH_BITS, PARTITIONS_MAX, Partitions, claim_id, hash, realm};
pub use ids::{Link, NodeId, Sum};
pub use map::{Map, Mark, Meta, NodeRecord, Owner, Reign, Seen, Stage, Transfer};
pub use message::{AskAnswer, Bulletin, Done, Message, Op, Out, PeerAddress};
pub use node::{Config, Draw, MoveCause, Node, PartitionMove, To, restored};
pub use placement::{rank, targets};
pub use store::{
    Append, Birth, CheckpointId, Cursor, Fut, Landing, MemoryStore, Page, Piece, SharedError, SharedStore, Taking,
};
