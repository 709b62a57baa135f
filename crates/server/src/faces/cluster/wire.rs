//! The cluster as JSON.

use leasehold_cluster::NodeId;
use leasehold_node::{ClusterStatus, NodeStatus, PartitionStatus};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::json::value::FloatSeconds;

/// The cluster as this node sees it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Cluster")]
pub(super) struct ClusterBody {
    /// This node's life; null while it has none.
    node: Option<String>,
    /// Where the other nodes reach it.
    address: String,
    /// How long ago its last beat succeeded; null while it is no part of the cluster.
    beat_age_s: Option<FloatSeconds>,
    /// Every node that is known, with those that are dead.
    nodes: Vec<NodeBody>,
    /// Every partition, in order.
    partitions: Vec<PartitionBody>,
    store: StoreBody,
}

/// A node of the cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClusterNode")]
pub(super) struct NodeBody {
    /// One life of a node: it is another after each start.
    node: String,
    address: String,
    state: NodeState,
    /// How long this node has not seen a new beat of it.
    silent_s: FloatSeconds,
    /// There is a link between it and this node.
    linked: bool,
    /// Nodes that it cannot reach.
    unreachable: Vec<String>,
    /// The partitions that it owns.
    partitions: Vec<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ClusterNodeState")]
pub(super) enum NodeState {
    Alive,
    /// It gives its partitions away.
    Draining,
    /// It was silent for too long, or ended: other nodes have its partitions.
    Dead,
}

/// A partition of the cluster.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClusterPartition")]
pub(super) struct PartitionBody {
    partition: u32,
    /// The node that owns it; null while none does.
    owner: Option<String>,
    epoch: u64,
    /// The last durable change that this node knows of.
    position: u64,
    /// This node serves it.
    here: bool,
}

/// The shared store.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClusterStore")]
pub(super) struct StoreBody {
    kind: &'static str,
    /// The last trouble with it, while it lasts.
    error: Option<String>,
    /// It has little room left.
    low: bool,
}

impl ClusterBody {
    pub(super) fn of(status: &ClusterStatus, store: &'static str) -> Self {
        ClusterBody {
            node: status.me.map(name),
            address: status.address.clone(),
            beat_age_s: status.beat_age_us.map(FloatSeconds),
            nodes: status.nodes.iter().map(NodeBody::of).collect(),
            partitions: status.partitions.iter().map(PartitionBody::of).collect(),
            store: StoreBody { kind: store, error: status.store_error.clone(), low: status.is_store_low },
        }
    }
}

impl NodeBody {
    fn of(status: &NodeStatus) -> Self {
        NodeBody {
            node: name(status.node),
            address: status.address.clone(),
            state: match (status.is_buried, status.is_draining) {
                (true, _) => NodeState::Dead,
                (false, true) => NodeState::Draining,
                (false, false) => NodeState::Alive,
            },
            silent_s: FloatSeconds(status.silent_us),
            linked: status.is_linked,
            unreachable: status.unreachable.iter().copied().map(name).collect(),
            partitions: status.partitions.clone(),
        }
    }
}

impl PartitionBody {
    fn of(status: &PartitionStatus) -> Self {
        PartitionBody {
            partition: status.partition,
            owner: status.owner.map(name),
            epoch: status.epoch.0,
            position: status.position.0,
            here: status.is_served_here,
        }
    }
}

fn name(node: NodeId) -> String {
    format!("{:032x}", node.0)
}
