//! The cluster as JSON.

use leasehold_cluster::NodeId;
use leasehold_node::{ClusterStatus, MoveCause, NodeStatus, PartitionMove, PartitionStatus};
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
    /// The format that the cluster uses: nodes that do not understand it cannot join.
    format: u16,
    /// Every node that is known, with those that are dead.
    nodes: Vec<NodeBody>,
    /// Every partition, in order.
    partitions: Vec<PartitionBody>,
    store: StoreBody,
    /// The last moves of partitions that this node saw since its start, newest first; at most 64.
    moves: Vec<MoveBody>,
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
    /// The highest format that it understands: lower than that of another node where it is of an earlier version.
    speaks: u16,
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
    /// How long ago what this node knows of the partition was all there was: 0 where it is the owner, null while it
    /// reads the partition for the first time.
    behind_s: Option<FloatSeconds>,
}

/// A partition that got another owner.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClusterMove")]
pub(super) struct MoveBody {
    partition: u32,
    /// The owner before; null when it had none.
    from: Option<String>,
    to: String,
    /// The epoch of the new owner.
    epoch: u64,
    why: MoveWhy,
    at_unix: FloatSeconds,
    /// How long the partition had no owner that showed signs of life, as far as this node saw.
    pause_s: FloatSeconds,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ClusterMoveWhy")]
pub(super) enum MoveWhy {
    /// It had no owner before.
    First,
    /// Its owner let it go.
    LetGo,
    /// Its owner died.
    Died,
    /// The store went back to an earlier state.
    WentBack,
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
    /// How long the last beat of this node took: a write there and back.
    round_trip_s: FloatSeconds,
    /// How often the store showed this node less than before: writes that it had confirmed were gone.
    went_back: u64,
}

impl ClusterBody {
    pub(super) fn of(status: &ClusterStatus, store: &'static str) -> Self {
        ClusterBody {
            node: status.me.map(name),
            address: status.address.clone(),
            beat_age_s: status.beat_age_us.map(FloatSeconds),
            format: status.format,
            nodes: status.nodes.iter().map(NodeBody::of).collect(),
            partitions: status.partitions.iter().map(PartitionBody::of).collect(),
            store: StoreBody {
                kind: store,
                error: status.store_error.clone(),
                low: status.is_store_low,
                round_trip_s: FloatSeconds(status.store_took_us),
                went_back: status.store_went_back,
            },
            moves: status.moves.iter().map(MoveBody::of).collect(),
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
            speaks: status.speaks,
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
            behind_s: status.behind_us.map(FloatSeconds),
        }
    }
}

impl MoveBody {
    fn of(moved: &PartitionMove) -> Self {
        MoveBody {
            partition: moved.partition,
            from: moved.from.map(name),
            to: name(moved.to),
            epoch: moved.epoch.0,
            why: match moved.why {
                MoveCause::First => MoveWhy::First,
                MoveCause::LetGo => MoveWhy::LetGo,
                MoveCause::Died => MoveWhy::Died,
                MoveCause::WentBack => MoveWhy::WentBack,
            },
            at_unix: FloatSeconds(moved.at.0),
            pause_s: FloatSeconds(moved.pause_us),
        }
    }
}

fn name(node: NodeId) -> String {
    format!("{:032x}", node.0)
}
