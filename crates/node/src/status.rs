//! The cluster as this node sees it, for people and their tools.

use std::sync::atomic::Ordering;

use leasehold_cluster::{NodeId, PartitionMove};
use leasehold_journal::{Epoch, Position, Room};

use crate::entrance::Entrance;

/// The cluster as one node sees it.
#[derive(Clone, Debug)]
pub struct ClusterStatus {
    /// The life of this node, if it has one.
    pub me: Option<NodeId>,
    /// Where the others reach it.
    pub address: String,
    /// All nodes that are known, the buried ones included.
    pub nodes: Vec<NodeStatus>,
    /// All partitions, in order.
    pub partitions: Vec<PartitionStatus>,
    /// The format that the cluster uses; zero while this node has not seen it.
    pub format: u16,
    /// The last trouble with the shared store, while it lasts.
    pub store_error: Option<String>,
    /// The shared store has little room left.
    pub is_store_low: bool,
    /// How long the last beat took that succeeded, in microseconds: a round trip to the store with a write.
    pub store_took_us: u64,
    /// How often the store showed less than before.
    pub store_went_back: u64,
    /// How long ago a beat of this node succeeded, in microseconds.
    pub beat_age_us: Option<u64>,
    /// The last moves of partitions that this node saw, newest first.
    pub moves: Vec<PartitionMove>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// Its life.
    pub node: NodeId,
    /// Where the others reach it.
    pub address: String,
    /// It gives its partitions away.
    pub is_draining: bool,
    /// It is dead for the cluster.
    pub is_buried: bool,
    /// There is a link between it and this node.
    pub is_linked: bool,
    /// How long it has been silent, as far as this node saw, in microseconds.
    pub silent_us: u64,
    /// Nodes that it says it cannot reach.
    pub unreachable: Vec<NodeId>,
    /// The partitions that it owns.
    pub partitions: Vec<u32>,
    /// A digest of its configuration.
    pub policy: u64,
    /// The highest format of a cluster that it understands.
    pub speaks: u16,
}

/// A partition.
#[derive(Clone, Copy, Debug)]
pub struct PartitionStatus {
    /// Its number.
    pub partition: u32,
    /// Its owner.
    pub owner: Option<NodeId>,
    /// The epoch of its owner.
    pub epoch: Epoch,
    /// The last durable change that this node knows of.
    pub position: Position,
    /// This node serves it.
    pub is_served_here: bool,
    /// How long ago what this node knows of it was all there was, in microseconds; nothing while it reads the first
    /// time.
    pub behind_us: Option<u64>,
}

impl Entrance {
    /// The cluster as this node sees it now.
    pub fn status(&self) -> ClusterStatus {
        let shared = &self.0;
        let inner = shared.lock();
        let clocks = shared.clock.read();
        let node = &inner.node;
        let me = node.life();
        let map = node.map();
        let owned_by = |owner: NodeId| {
            let owners = map.into_iter().flat_map(|map| map.owners.iter().zip(0..));
            owners.filter(|(seen, _)| seen.value.node == Some(owner)).map(|(_, number)| number).collect()
        };
        let nodes = map.into_iter().flat_map(|map| &map.nodes).map(|seen| {
            let record = &seen.value;
            let is_drained = map.is_some_and(|map| map.drained.contains(&record.node));
            NodeStatus {
                node: record.node,
                address: record.address.clone(),
                is_draining: record.is_draining || is_drained,
                is_buried: record.is_buried,
                is_linked: Some(record.node) == me || inner.links.contains_key(record.address.as_str()),
                silent_us: node.silent_us(record.node),
                unreachable: record.unreachable.clone(),
                partitions: owned_by(record.node),
                policy: record.policy,
                speaks: record.speaks.1,
            }
        });
        let nodes = nodes.collect();
        let partitions = map.into_iter().flat_map(|map| map.owners.iter().zip(0..)).map(|(seen, partition)| {
            let position = node.head(partition).map_or(Position::START, |(_, position)| position);
            let is_served_here = node.is_serving(partition);
            let behind_us = node.behind_us(clocks, partition);
            let (owner, epoch) = (seen.value.node, seen.value.epoch);
            PartitionStatus { partition, owner, epoch, position, is_served_here, behind_us }
        });
        ClusterStatus {
            me,
            address: shared.address.to_string(),
            nodes,
            partitions: partitions.collect(),
            format: map.map_or(0, |map| map.meta.format),
            store_error: shared.error(),
            is_store_low: matches!(shared.store.room(), Room::Low { .. }),
            store_took_us: shared.beat_took_us.load(Ordering::Relaxed),
            store_went_back: shared.counts.went_back.get(),
            beat_age_us: node.beat_age_us(clocks),
            moves: node.moves().copied().collect(),
        }
    }

    /// Returns whether this node is a living part of the cluster that takes requests. Nothing is written for that.
    pub fn is_ready(&self, ttl_us: u64) -> bool {
        let inner = self.0.lock();
        let clocks = self.0.clock.read();
        inner.node.beat_age_us(clocks).is_some_and(|age_us| age_us < ttl_us) && !inner.node.is_draining()
    }
}
