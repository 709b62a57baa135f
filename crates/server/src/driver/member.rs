//! This process as a node of a cluster: `leasehold_node` with the driver's clock and witness. The partitions that it
//! owns and those that other nodes own have one entrance, the `Handle`.

use std::sync::Arc;
use std::time::Duration;

use leasehold_cluster::{Bulletin, Meta, SharedStore};
use leasehold_engine::Totals;
use leasehold_node::{LinkTls, Observers, RunningNode, Start, StartError};
use tokio::net::TcpListener;

use super::handle::Handle;
use super::inside::Inside;
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
            clock: leasehold_node::TimeSource(Arc::new(move || reading.read())),
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
