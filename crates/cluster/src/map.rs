//! The map of a cluster: its nodes, and the owner of each partition, as the store shows them at one instant.

use leasehold_engine::Time;
use leasehold_journal::Epoch;

use crate::hash::Partitions;
use crate::ids::NodeId;

/// A value as it was read from the store, with its version there. A version is never used twice for one key, so
/// comparing versions compares everything; zero means that there is no such key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Seen<T> {
    /// The value.
    pub value: T,
    /// Its version.
    pub version: u64,
}

/// The record of a node: one life of it. Only the node itself writes it, except that any node may bury it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeRecord {
    /// Its name.
    pub node: NodeId,
    /// Where the other nodes reach it.
    pub address: String,
    /// The lowest and the highest format of a cluster that it understands: see [`crate::format`].
    pub speaks: (u16, u16),
    /// It rises with every beat.
    pub beat: u64,
    /// The service time of the partitions it owns.
    pub marks: Vec<Mark>,
    /// It gives its partitions away, and gets none.
    pub is_draining: bool,
    /// Nodes that it cannot reach.
    pub unreachable: Vec<NodeId>,
    /// A digest of its configuration, to show where nodes differ.
    pub policy: u64,
    /// The store went back to an earlier state, and this node or another has noticed: owners of an earlier epoch serve
    /// no more, and takers begin at this one. Zero while no store went back.
    pub epoch_floor: Epoch,
    /// For ever: nothing of this life counts any more.
    pub is_buried: bool,
}

impl NodeRecord {
    /// The most characters of an address.
    pub const ADDRESS_MAX: usize = 255;

    /// A record before its first beat.
    pub fn new(node: NodeId, address: &str) -> Self {
        NodeRecord {
            node,
            address: address.to_owned(),
            speaks: (1, 1),
            beat: 0,
            marks: Vec::new(),
            is_draining: false,
            unreachable: Vec::new(),
            policy: 0,
            epoch_floor: Epoch(0),
            is_buried: false,
        }
    }

    /// The service time that it last wrote down for this partition in this epoch.
    pub fn mark_of(&self, partition: u32, epoch: Epoch) -> Option<Time> {
        self.marks.iter().find(|mark| mark.partition == partition && mark.epoch == epoch).map(|mark| mark.at)
    }
}

/// The service time of a partition, as its owner wrote it down with a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// The partition.
    pub partition: u32,
    /// The owner's epoch: a mark of another one counts for nothing.
    pub epoch: Epoch,
    /// Service time.
    pub at: Time,
}

/// The owner record of a partition. The default is that of a partition that never had an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Owner {
    /// It rises with every taking and every letting go.
    pub epoch: Epoch,
    /// `None` after a letting go.
    pub node: Option<NodeId>,
    /// Service time goes on from here at the earliest.
    pub at: Time,
}

/// An ownership: what an owner's transactions compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reign {
    /// The partition.
    pub partition: u32,
    /// Its owner record.
    pub owner: Owner,
    /// The version of that record.
    pub version: u64,
}

impl Reign {
    /// The epoch of this ownership.
    pub fn epoch(&self) -> Epoch {
        self.owner.epoch
    }
}

/// Where the data of a cluster is: here, on its way in, or elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Here: nodes may join.
    #[default]
    Serving,
    /// On its way into this store, and not all of it is here yet: no node may join.
    MovingIn(Transfer),
    /// On its way out of this store, or gone: no node may join.
    MovedOut(Transfer),
}

/// One move of all data between stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Drawn for each move, so that one that is begun again is told from another.
    pub id: u128,
    /// The other side, as a sentence for people names it.
    pub other: String,
}

impl Transfer {
    /// The most bytes of the name of the other side.
    pub const OTHER_MAX: usize = 1024;
}

impl Stage {
    /// Why no node may join the cluster at `place`, if none may.
    pub fn refusal(&self, place: &str) -> Option<String> {
        match self {
            Stage::Serving => None,
            Stage::MovingIn(Transfer { other, .. }) => Some(format!(
                "the data in {place} is not whole: a move from {other} was begun and has not come to its end; run it \
                 again"
            )),
            Stage::MovedOut(Transfer { other, .. }) => Some(format!(
                "the data in {place} was moved to {other}, or is on its way there; serve it from there, or run \
                 leasehold migrate again if that did not come to its end"
            )),
        }
    }
}

/// Facts about the whole cluster, fixed when it is born but for its format and its stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// How many partitions there are.
    pub partitions: Partitions,
    /// The format that the cluster uses: a node has to understand it. It only rises.
    pub format: u16,
    /// Random bytes that every node knows: for digests, sessions, and the proof that a peer is a node.
    pub secret: [u8; 32],
    /// Where the data is.
    pub stage: Stage,
}

/// Everything about ownership, read at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// It rises with every transaction of the store. A lower one than before means that the store went back.
    pub revision: u64,
    /// Facts about the whole cluster.
    pub meta: Meta,
    /// By id. Buried ones are here until they are forgotten.
    pub nodes: Vec<Seen<NodeRecord>>,
    /// One for each partition, in order.
    pub owners: Vec<Seen<Owner>>,
    /// Nodes that the operator drains.
    pub drained: Vec<NodeId>,
}

impl Map {
    /// The record of a node, buried or not.
    pub fn node(&self, node: NodeId) -> Option<&Seen<NodeRecord>> {
        self.nodes.iter().find(|seen| seen.value.node == node)
    }

    /// Returns whether a node is there and not buried.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.node(node).is_some_and(|seen| !seen.value.is_buried)
    }

    /// The epoch that every owner has to have reached, after a store went back.
    pub fn epoch_floor(&self) -> Epoch {
        self.nodes.iter().map(|seen| seen.value.epoch_floor).max().unwrap_or_default()
    }

    /// The nodes that are not buried.
    pub fn living(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.iter().map(|seen| &seen.value).filter(|record| !record.is_buried)
    }
}
