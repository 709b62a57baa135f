//! Names: of a node, of a peer, of the batch at the end of a stream.

use std::fmt;

use leasehold_journal::{Batch, Position};
use serde::{Deserialize, Serialize};

/// One life of a node. It is drawn at random at every join, so a node that was buried comes back as another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u128);

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {self}")
    }
}

/// The first eight of its hexadecimal digits: enough for people to tell nodes apart.
impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0 >> 96)
    }
}

/// Another node, or this one, by a number that means something in this process only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Peer(pub(crate) u32);

impl Peer {
    /// This node itself.
    pub(crate) const ME: Peer = Peer(0);
}

/// The checksum of a batch, by which the next one names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sum(pub u32);

impl Sum {
    /// The checksum at the end of a record, which covers all of it.
    pub fn of(record: &[u8]) -> Sum {
        Sum(record.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }
}

/// The batch at the end of a stream. Every batch carries that of the batch before it, so that a reader notices a gap,
/// and a batch of another history in its place. The default is the end of an empty stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Link {
    /// The position of its first change; zero when there is no batch.
    pub first: Position,
    /// Its checksum.
    pub sum: Sum,
}

impl Link {
    /// The link that the batch after this one carries.
    pub fn to(batch: &Batch) -> Link {
        Link { first: batch.first, sum: Sum::of(&batch.record) }
    }
}
