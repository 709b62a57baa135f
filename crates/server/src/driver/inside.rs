//! The inside of a node, as requests need it: the entrance to the partitions of the cluster, wherever they are, and
//! what this node knows of them by following.

use std::sync::Arc;

use leasehold_cluster::Partitions;
use leasehold_engine::{ClaimId, Command, Owned, Quota, Reply, Totals};
use leasehold_journal::{Denial, Epoch, Partition, Position, Request};
use leasehold_node::{Calling, ClusterStatus, Entrance, NodeCounts};

use super::Clock;
use super::route::{self, Whose};

/// The resource of a claim, and its owner.
pub(crate) type ClaimOwner = (Arc<str>, Option<Arc<str>>);

/// The part of a node that requests need.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) entrance: Entrance,
    pub(super) clock: Arc<Clock>,
    pub(super) partitions: Partitions,
    pub(super) node_ttl_us: u64,
}

impl Inside {
    /// Asks the owner of the partition that the command belongs to.
    pub(super) fn call(&self, mut request: Request) -> Calling {
        let partition = match route::whose(&request.command) {
            Whose::Resource(resource) => self.partitions.of(resource),
            Whose::Claim(claim) => self.partition_of(claim),
            Whose::Everything => 0,
        };
        self.share_quota(&mut request.command, partition);
        self.entrance.call(partition, request)
    }

    pub(super) fn call_in(&self, partition: u32, request: Request) -> Calling {
        self.entrance.call(partition, request)
    }

    pub(super) fn hand_back(&self, partition: u32, claim: ClaimId) {
        self.entrance.hand_back(partition, claim);
    }

    /// Ids from before there were several partitions name none: their claims are looked for in what this node follows.
    fn partition_of(&self, claim: ClaimId) -> u32 {
        let find = || {
            self.entrance.look(|node| {
                let knows = |partition: &u32| node.engine(*partition)?.owner_of(claim).map(|_| ());
                self.partitions.all().find(|partition| knows(partition).is_some())
            })
        };
        self.partitions.of_claim(claim).or_else(find).unwrap_or(0)
    }

    /// A principal's quota is for all partitions: claims that it has in others count, as far as this node follows them.
    fn share_quota(&self, command: &mut Command, partition: u32) {
        let Command::Acquire(acquire) = command else { return };
        let Some(owner) = acquire.owner().filter(|_| acquire.quota != Quota::NONE) else { return };
        let elsewhere = self.entrance.look(|node| {
            let others = self.partitions.all().filter(|other| *other != partition);
            let claims = others.filter_map(|other| Some(node.engine(other)?.owned_by(owner)));
            claims.fold(Owned::NOTHING, |sum, claims| sum + claims)
        });
        acquire.quota.elsewhere = elsewhere;
    }

    /// The resource and owner of a claim, from what this node follows, else from the partition's owner.
    pub(super) async fn owner_of(&self, claim: ClaimId) -> Result<Option<ClaimOwner>, Denial> {
        let partition = self.partition_of(claim);
        if let Some(known) = self.entrance.look(|node| node.engine(partition)?.owner_of(claim)) {
            return Ok(Some(known));
        }
        let heard = self.entrance.call(partition, Command::ViewClaim { claim }.into()).await;
        match heard.answer {
            Ok(Reply::Claim(view)) => Ok(Some((view.resource, view.owner))),
            Ok(_) | Err(Denial::Refused(_)) => Ok(None),
            Err(denial) => Err(denial),
        }
    }

    /// Returns whether the last beat is young enough and the node stays. Nothing is written for that.
    pub(super) fn is_ready(&self) -> bool {
        self.entrance.is_ready(self.node_ttl_us)
    }

    /// The last durable change of a partition that this node knows of.
    pub(super) fn head_of(&self, partition: u32) -> (Epoch, Position) {
        let head = self.entrance.look(|node| node.head(partition));
        head.unwrap_or((Epoch(0), Position::START))
    }

    /// The totals of what this node owns: the sums over all nodes are those of the cluster.
    pub(super) fn totals(&self) -> Totals {
        self.entrance.look(|node| {
            let owned = self.partitions.all().filter_map(|partition| node.owned(partition));
            owned.map(Partition::totals).sum()
        })
    }

    pub(super) fn uncharged_us(&self) -> u64 {
        self.entrance.look(|node| {
            let owned = self.partitions.all().filter_map(|partition| node.owned(partition));
            owned.map(Partition::uncharged_us).max().unwrap_or(0)
        })
    }

    pub(super) fn callers(&self) -> usize {
        self.entrance.callers()
    }

    pub(super) fn status(&self) -> ClusterStatus {
        self.entrance.status()
    }

    pub(super) fn counts(&self) -> &NodeCounts {
        self.entrance.counts()
    }
}
