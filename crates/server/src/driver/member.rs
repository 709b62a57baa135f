//! This process as a node of a cluster: `leasehold_node` with the driver's clock and witness. The partitions that it
//! owns and those that other nodes own have one entrance, the `Handle`.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Bulletin, Meta, Partitions, SharedStore};
use leasehold_engine::{ClaimId, Command, Owned, Quota, Reply, Totals};
use leasehold_journal::{Denial, Epoch, Position, Request};
use leasehold_node::{Calling, ClusterStatus, Counts, Entrance, LinkTls, Observers, RunningNode, Start, StartError};
use tokio::net::TcpListener;

use super::handle::{Claimed, Handle, Stamp};
use super::route::{self, Whose};
use super::{Clock, Witness};

/// How a node is to be started.
#[derive(Debug)]
pub struct Membership {
    pub config: leasehold_cluster::Config,
    /// Where the other nodes connect to.
    pub listener: TcpListener,
    /// With it, links to other nodes are encrypted.
    pub tls: Option<LinkTls>,
    /// Calls of this node that may be open at once.
    pub callers_max: usize,
}

/// A running node. Dropping it ends it as a crash would.
#[derive(Debug)]
pub struct Member {
    running: RunningNode,
    inside: Arc<Inside>,
    witness: Arc<dyn Witness>,
}

/// What requests need of it.
#[derive(Debug)]
pub(super) struct Inside {
    entrance: Entrance,
    pub(super) clock: Arc<Clock>,
    pub(super) partitions: Partitions,
    node_ttl_us: u64,
}

impl Member {
    /// Joins the cluster, and returns when that is done.
    pub async fn start(
        store: Arc<dyn SharedStore>,
        membership: Membership,
        witness: Arc<impl Witness + 'static>,
        clock: Arc<Clock>,
    ) -> Result<Member, StartError> {
        let Membership { config, listener, tls, callers_max } = membership;
        let node_ttl_us = config.node_ttl_us;
        let witness: Arc<dyn Witness> = witness;
        let reading = Arc::clone(&clock);
        let start = Start {
            config,
            listener,
            tls,
            callers_max,
            clock: leasehold_node::Clock(Arc::new(move || reading.read())),
            observers: Arc::new(Telling { witness: Arc::clone(&witness), clock: Arc::clone(&clock) }),
        };
        let running = leasehold_node::start(store, start).await?;
        let entrance = running.entrance();
        let partitions = entrance.partitions();
        let inside = Arc::new(Inside { entrance, clock, partitions, node_ttl_us });
        Ok(Member { running, inside, witness })
    }

    /// The entrance for requests.
    pub fn handle(&self) -> Handle {
        Handle::of_node(Arc::clone(&self.inside))
    }

    /// The cluster's secret, for keys that all nodes share.
    pub fn secret(&self) -> [u8; 32] {
        self.inside.entrance.secret()
    }

    /// Begins to give its partitions away, answers parked callers and ends event streams.
    pub fn close(&self) {
        self.witness.close();
        self.running.drain();
    }

    /// Waits until everything is given away. `close` comes first. Returns whether it came to an end in time.
    pub async fn shut_down(self) -> bool {
        self.running.end().await
    }
}

/// Tells the witness what the node hears.
#[derive(Debug)]
struct Telling {
    witness: Arc<dyn Witness>,
    clock: Arc<Clock>,
}

impl Observers for Telling {
    fn joined(&self, meta: &Meta) {
        self.witness.join(meta.partitions.number(), meta.secret, self.clock.read().wall);
    }

    fn news(&self, bulletin: &Bulletin, totals: &Totals) {
        if let Some(upto) = bulletin.gap {
            self.witness.gap(bulletin.partition, upto, self.clock.read().wall);
        }
        if bulletin.is_owner {
            self.witness.happened(&bulletin.happened);
        }
        self.witness.record(bulletin.partition, &bulletin.happened, totals);
    }

    fn appended(&self, changes: u64, bytes: usize, took: Duration) {
        self.witness.appended(changes, bytes, took);
    }

    fn checkpointed(&self) {
        self.witness.checkpointed();
    }
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
    pub(super) async fn owner_of(&self, claim: ClaimId) -> Result<Option<Claimed>, Denial> {
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
    pub(super) fn head_of(&self, partition: u32) -> Stamp {
        let head = self.entrance.look(|node| node.head(partition));
        let (epoch, position) = head.unwrap_or((Epoch(0), Position::START));
        Stamp { partition, epoch, position }
    }

    /// The totals of what this node owns: the sums over all nodes are those of the cluster.
    pub(super) fn totals(&self) -> Totals {
        self.entrance.look(|node| {
            let owned = self.partitions.all().filter_map(|partition| node.owned(partition));
            owned.map(|owned| owned.totals()).sum()
        })
    }

    pub(super) fn uncharged_us(&self) -> u64 {
        self.entrance.look(|node| {
            let owned = self.partitions.all().filter_map(|partition| node.owned(partition));
            owned.map(|owned| owned.uncharged_us()).max().unwrap_or(0)
        })
    }

    pub(super) fn callers(&self) -> usize {
        self.entrance.callers()
    }

    pub(super) fn status(&self) -> ClusterStatus {
        self.entrance.status()
    }

    pub(super) fn counts(&self) -> &Counts {
        self.entrance.counts()
    }
}
