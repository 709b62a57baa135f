//! The partitions of a server while it runs: all of them here, on a journal of their own, or as a node of a cluster on
//! a shared store.

use std::future::pending;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use leasehold_cluster::format::FORMAT;
use leasehold_cluster::{Birth, Config as ClusterConfig, SharedStore};
use leasehold_engine::Limits;
use leasehold_etcd::EtcdStore;
use leasehold_journal::{
    MemoryOpener, Opener, PartitionLimits, Recovery, SqliteOpener, StoreError, recover_with_history,
};
use leasehold_node::LinkTls;
use leasehold_postgres::PostgresStore;
use leasehold_server::{Clock, Driver, Drivers, Handle, Lead, Member, Membership, Observer, Partitions, http};

use crate::config::{Config, ConfigError, ListenAddress, SharedAddress, Store};
use crate::memory;
use crate::tls::Keeper;

/// Calls that may be on their way through the store at once, beside those that wait in queues.
const CALLERS_BESIDE_WAITERS: usize = 65_536;
const S_US: u64 = 1_000_000;

/// The partitions of a server while it runs.
pub(crate) enum Driving {
    Embedded(Drivers),
    Node(Box<Member>, Arc<dyn SharedStore>),
}

impl Driving {
    /// Reads the journals and goes on where they end, or joins the cluster.
    pub(crate) async fn start(
        config: &Config,
        observer: &Arc<Observer>,
        lead: Option<&Arc<Lead>>,
        tls: Option<&Arc<Keeper>>,
    ) -> anyhow::Result<Driving> {
        match &config.store {
            Store::Shared(address) => {
                let store = open_shared(address)?;
                let member = join(config, &store, observer, tls).await?;
                Ok(Driving::Node(Box::new(member), store))
            }
            Store::Memory | Store::Directory(_) => embedded(config, observer, lead).map(Driving::Embedded),
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        match self {
            Driving::Embedded(drivers) => drivers.handle(),
            Driving::Node(member, _) => member.handle(),
        }
    }

    /// The secret that the nodes of a cluster share, so that a session holds on each of them.
    pub(crate) fn secret(&self) -> Option<[u8; 32]> {
        match self {
            Driving::Embedded(_) => None,
            Driving::Node(member, _) => Some(member.secret()),
        }
    }

    /// The store that the nodes of a cluster share.
    pub(crate) fn shared_store(&self) -> Option<Arc<dyn SharedStore>> {
        match self {
            Driving::Embedded(_) => None,
            Driving::Node(_, store) => Some(Arc::clone(store)),
        }
    }

    /// Waits until the store fails for good. A shared store that is away comes back.
    pub(crate) async fn failure(&self) -> Arc<StoreError> {
        match self {
            Driving::Embedded(drivers) => drivers.failure().await,
            Driving::Node(..) => pending().await,
        }
    }

    /// Turns new callers away, answers the parked ones and ends event streams; a node begins to give its partitions
    /// away.
    pub(crate) fn close(&self) {
        match self {
            Driving::Embedded(drivers) => drivers.close(),
            Driving::Node(member, _) => member.close(),
        }
    }

    /// Flushes and ends. `close` comes first.
    pub(crate) async fn shut_down(self) -> anyhow::Result<()> {
        match self {
            Driving::Embedded(drivers) => drivers.shut_down().await.map_err(Stopped)?,
            Driving::Node(member, _) => {
                if !member.shut_down().await {
                    tracing::warn!(
                        "partitions could not be given away in time; other nodes take them over in a moment"
                    );
                }
            }
        }
        Ok(())
    }
}

/// The store failed while serving.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) Arc<StoreError>);

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopping, since nothing can be made durable any more: {}", self.0)?;
        match *self.0 {
            StoreError::Disturbed { .. } => Ok(()),
            _ => write!(f, "; start again to recover"),
        }
    }
}

impl std::error::Error for Stopped {}

fn limits(config: &Config, partitions: Partitions) -> (Limits, PartitionLimits) {
    let settings = &config.settings;
    let limits = Limits {
        grace_us: settings.grace_us,
        retain_us: settings.retain_finished_us,
        retained_max: settings.retain_max,
        state_bytes_max: config.state_max.unwrap_or_else(memory::default_state_max),
        waiting_max: settings.waiters_max,
        ..Limits::default()
    };
    let of_partition = PartitionLimits {
        callers_max: settings.waiters_max + CALLERS_BESIDE_WAITERS,
        store_timeout_us: settings.store_timeout_us,
        backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX / partitions.number() as usize,
    };
    (limits.share(partitions.number()), of_partition)
}

fn embedded(config: &Config, observer: &Arc<Observer>, lead: Option<&Arc<Lead>>) -> anyhow::Result<Drivers> {
    let partitions = config.partitions.unwrap_or(Partitions::ONE);
    let (limits, of_partition) = limits(config, partitions);
    let clock = Arc::new(Clock::system());
    let mut drivers = Vec::new();
    for partition in partitions.all() {
        let opener: Box<dyn Opener> = match &config.store {
            Store::Directory(path) => Box::new(SqliteOpener::new(path)),
            Store::Memory | Store::Shared(_) => Box::new(MemoryOpener::forgetful()),
        };
        let recovery = recover(opener.as_ref(), partition, limits.clone(), config.settings.events_kept)?;
        let (observer, clock, limits) = (Arc::clone(observer), Arc::clone(&clock), of_partition.clone());
        drivers.push(match lead {
            Some(lead) => Driver::start_led(recovery, limits, observer, clock, Arc::clone(lead)),
            None => Driver::start(recovery, limits, observer, clock),
        });
    }
    Ok(Drivers::of(drivers))
}

/// Reads the journal of a partition.
fn recover(opener: &dyn Opener, partition: u32, limits: Limits, events_kept: usize) -> anyhow::Result<Recovery> {
    let state_bytes_max = limits.state_bytes_max;
    let started = Instant::now();
    let recovery = recover_with_history(opener, partition, limits, events_kept)?;
    for note in &recovery.notes {
        tracing::warn!("{note}");
    }
    let totals = recovery.engine.totals();
    tracing::debug!(
        epoch = recovery.epoch.0,
        position = recovery.head.0,
        claims = totals.claims,
        replayed = recovery.replayed,
        state_bytes = totals.state_bytes,
        state_bytes_max,
        took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "journal read"
    );
    if totals.state_bytes > state_bytes_max {
        tracing::warn!("{}", memory::too_large(totals.state_bytes, state_bytes_max));
    }
    Ok(recovery)
}

/// Opens a shared store. Connects to nothing yet.
pub(crate) fn open_shared(address: &SharedAddress) -> anyhow::Result<Arc<dyn SharedStore>> {
    match address {
        SharedAddress::Etcd(address) => Ok(Arc::new(EtcdStore::new(address)?)),
        SharedAddress::Postgres(address) => Ok(Arc::new(PostgresStore::new(address)?)),
    }
}

/// Becomes a node of the cluster.
async fn join(
    config: &Config,
    store: &Arc<dyn SharedStore>,
    observer: &Arc<Observer>,
    tls: Option<&Arc<Keeper>>,
) -> anyhow::Result<Member> {
    let node = &config.node;
    let listener = resolve(&node.peer_listen)
        .and_then(http::bind)
        .with_context(|| format!("cannot listen for other nodes on {}", node.peer_listen))?;
    let listening = listener.local_addr().context("a listening socket has an address")?;
    let advertised = match &node.advertise {
        Some(ListenAddress { port: 0, .. }) => {
            return Err(ConfigError::new("advertise must name a port, not 0".to_owned()).into());
        }
        Some(advertise) => advertise.to_string(),
        None if listening.ip().is_unspecified() => {
            let reason = format!(
                "advertise must be set: other nodes cannot connect to {}, which is every address of this machine",
                node.peer_listen
            );
            return Err(ConfigError::new(reason).into());
        }
        None => listening.to_string(),
    };
    if tls.is_none() && !listening.ip().to_canonical().is_loopback() {
        tracing::warn!(
            "links between nodes are not encrypted: any machine on the network can read the names, holders and data \
             of leases; set tls_cert and tls_key, or let nodes speak over a network of their own"
        );
    }
    // The limits of a partition are a share of the whole, so its number is needed first; a join checks it again.
    let existing = store.map().await.ok().map(|map| map.meta.partitions);
    let partitions = existing.or(config.partitions).unwrap_or(Partitions::DEFAULT);
    let (limits, partition_limits) = limits(config, partitions);
    let callers_max = partition_limits.callers_max;
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).expect("the operating system has randomness");
    let cluster = ClusterConfig {
        address: advertised.into(),
        birth: Birth { partitions: config.partitions, format: FORMAT, secret },
        limits,
        partition_limits,
        node_ttl_us: node.node_ttl_us,
        settle_us: 5 * S_US,
        beat_us: S_US.min(node.node_ttl_us / 3),
        look_us: S_US / 5,
        checkpoint_every: 8_192,
        forget_us: 3_600 * S_US,
    };
    let tls = tls.map(|keeper| {
        let tls = Arc::clone(keeper.tls());
        LinkTls::new(Arc::new(move || tls.bare()))
    });
    let membership = Membership {
        config: cluster,
        listener,
        tls: tls.transpose().context("links cannot be encrypted")?,
        callers_max,
    };
    let clock = Arc::new(Clock::system());
    let member = Member::start(Arc::clone(store), membership, Arc::clone(observer), clock).await?;
    Ok(member)
}

/// The address a name stands for, IPv4 where it has both, as `localhost` does.
pub(crate) fn resolve(listen: &ListenAddress) -> io::Result<SocketAddr> {
    if let Ok(ip) = listen.host.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, listen.port));
    }
    let found: Vec<SocketAddr> = (&*listen.host, listen.port).to_socket_addrs()?.collect();
    let preferred = found.iter().find(|addr| addr.is_ipv4()).or(found.first());
    preferred.copied().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_resolve() {
        for (host, expected) in [("127.0.0.1", "127.0.0.1:80"), ("::1", "[::1]:80"), ("localhost", "127.0.0.1:80")] {
            let listen = ListenAddress { host: host.to_owned(), port: 80 };
            assert_eq!(resolve(&listen).unwrap().to_string(), expected);
        }
    }
}
