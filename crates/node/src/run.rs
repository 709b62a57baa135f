//! A node from its start to its end: its tasks, and the calls to the shared store.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_cluster::{Config, Done, Draw, Node, Op, SharedError, SharedStore};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::entrance::{Entrance, Shared};
use crate::hello::LinkKey;
use crate::peers::{self, Peers};
use crate::surroundings::{Observers, TimeSource};
use crate::tls::LinkTls;

/// How often time is let pass: so late an expiry may be.
const TICK_EVERY: Duration = Duration::from_millis(10);
/// After a call to a store that is away.
const AWAY_PAUSE: Duration = Duration::from_millis(50);
/// After a join that came to nothing.
const JOIN_PAUSE: Duration = Duration::from_millis(500);
/// The first join may take this long, as the store may start at the same time.
const JOIN_MAX: Duration = Duration::from_secs(30);
/// Calls that are answered without waiting end within this time; the rest are parked, and told that the service stops.
const DISMISS_AFTER: Duration = Duration::from_millis(200);
/// A node that is told to end and cannot is not waited for.
const END_MAX: Duration = Duration::from_secs(5);

/// Everything that a node is started with.
#[derive(Debug)]
pub struct Start {
    /// Its settings.
    pub config: Config,
    /// Where the other nodes connect to.
    pub listener: TcpListener,
    /// With it, links are encrypted.
    pub tls: Option<LinkTls>,
    /// Calls of this node that may be open at once.
    pub callers_max: usize,
    /// The only source of time.
    pub clock: TimeSource,
    /// Told of what happens.
    pub observers: Arc<dyn Observers>,
}

/// Why a node does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The store refuses it.
    #[error("{0}")]
    Refused(String),
    /// The store cannot be reached.
    #[error("the shared store did not let this node join within {max} s: {0}", max = JOIN_MAX.as_secs())]
    Away(String),
    /// Another process answers at the address that this node is to be reached at.
    #[error(
        "another node answers at {0}, the address that this one advertises: every node needs an address of its own"
    )]
    AddressTaken(String),
}

/// A node that has joined. Dropping it ends its tasks at once, as a crash would.
#[derive(Debug)]
pub struct RunningNode {
    entrance: Entrance,
    tasks: JoinSet<()>,
}

/// Starts a node and waits until it has joined.
pub async fn start(store: Arc<dyn SharedStore>, start: Start) -> Result<RunningNode, StartError> {
    let Start { config, listener, tls, callers_max, clock, observers } = start;
    let address = Arc::clone(&config.address);
    let node = Node::new(config, Draw(Box::new(draw)));
    let shared = Arc::new(Shared::new(node, address, (store, clock, observers), callers_max, spawn_call));
    let mut tasks = JoinSet::new();
    tasks.spawn(tick(Arc::clone(&shared)));
    let mut state = shared.state.subscribe();
    let settled = state.wait_for(|state| state.has_joined || state.refused.is_some());
    let is_settled = timeout(JOIN_MAX, settled).await.is_ok();
    if let Some(why) = shared.state.borrow().refused.clone() {
        return Err(StartError::Refused(why));
    }
    if !is_settled {
        return Err(StartError::Away(shared.last_error()));
    }
    let secret = shared.meta.get().expect("it has joined").secret;
    let peers = Arc::new(Peers { shared: Arc::clone(&shared), key: LinkKey::new(&secret), tls });
    tasks.spawn(peers::accept(Arc::clone(&peers), listener));
    match peers.is_reached_at_own_address().await {
        Ok(true) => {}
        Ok(false) => {
            // It has joined: the others are not to wait for it, nor for what it may have taken.
            let taken = StartError::AddressTaken(shared.address.to_string());
            let node = RunningNode { entrance: Entrance(shared), tasks };
            node.drain();
            node.end().await;
            return Err(taken);
        }
        Err(error) => tracing::warn!(
            target: "leasehold::cluster",
            "this node cannot reach itself at {}, the address that it advertises ({error}): \
             unless other nodes can, it serves no partition well; set --advertise",
            shared.address
        ),
    }
    tasks.spawn(peers::dial(peers));
    tasks.spawn(watch(Arc::clone(&shared)));
    Ok(RunningNode { entrance: Entrance(shared), tasks })
}

impl RunningNode {
    /// The entrance for callers.
    pub fn entrance(&self) -> Entrance {
        self.entrance.clone()
    }

    /// Begins to give everything away. Parked callers are told that the service stops.
    pub fn drain(&self) {
        let shared = Arc::clone(&self.entrance.0);
        shared.act(|inner, clocks| inner.node.drain(clocks));
        shared.runtime.clone().spawn(async move {
            sleep(DISMISS_AFTER).await;
            shared.dismiss_callers();
        });
    }

    /// Waits until everything is given away, and ends the node. `drain` comes first. Returns whether it came to an end
    /// in time.
    pub async fn end(mut self) -> bool {
        let mut state = self.entrance.0.state.subscribe();
        let has_ended = matches!(timeout(END_MAX, state.wait_for(|state| state.has_ended)).await, Ok(Ok(_)));
        self.entrance.0.dismiss_callers();
        self.tasks.shutdown().await;
        has_ended
    }
}

impl Drop for RunningNode {
    fn drop(&mut self) {
        // Links end with it.
        self.entrance.0.state.send_modify(|state| state.has_ended = true);
    }
}

fn draw() -> u128 {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has randomness");
    u128::from_be_bytes(bytes)
}

async fn tick(shared: Arc<Shared>) {
    let mut every = interval(TICK_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        every.tick().await;
        shared.act(|inner, clocks| inner.node.tick(clocks));
    }
}

/// The store says when the map may have changed.
async fn watch(shared: Arc<Shared>) {
    loop {
        match shared.store.changed().await {
            Ok(()) => shared.act(|inner, clocks| {
                inner.node.handle_changed();
                inner.node.tick(clocks);
            }),
            Err(_) => sleep(JOIN_PAUSE).await,
        }
    }
}

fn spawn_call(shared: Arc<Shared>, number: u64, op: Op) {
    let runtime = shared.runtime.clone();
    runtime.spawn(call_store(shared, number, op));
}

/// Carries out a call to the store and hands its result in.
async fn call_store(shared: Arc<Shared>, number: u64, op: Op) {
    let kind = Kind::of(&op);
    let began_us = shared.clock.read().mono_us;
    let result = ask(shared.store.as_ref(), op).await;
    let took = Duration::from_micros(shared.clock.read().mono_us.saturating_sub(began_us));
    shared.note(&kind, &result, took);
    match &result {
        Err(SharedError::Away(_)) if kind != Kind::Join => sleep(AWAY_PAUSE).await,
        Err(_) if kind == Kind::Join => sleep(JOIN_PAUSE).await,
        _ => {}
    }
    shared.act(|inner, clocks| inner.node.handle_store(clocks, number, result));
    if kind == Kind::Join {
        shared.state.send_modify(|state| state.has_joined |= shared.meta.get().is_some());
    }
}

async fn ask(store: &dyn SharedStore, op: Op) -> Result<Done, SharedError> {
    let yes = |()| Done::Yes;
    match op {
        Op::Join(me, birth) => store.join(me, birth).await.map(Done::Map),
        Op::Beat(me) => store.beat(me).await.map(yes),
        Op::Confirm => store.confirm().await.map(yes),
        Op::Map => store.map().await.map(Done::Map),
        Op::Bury(seen) => store.bury(seen).await.map(yes),
        Op::Forget(seen) => store.forget(seen).await.map(yes),
        Op::Take(taking) => store.take(taking).await.map(Done::Reign),
        Op::LetGo(reign, at) => store.let_go(reign, at).await.map(yes),
        Op::Append(appends) => store.append(appends).await.map(Done::Landings),
        Op::Read(partition, from) => store.read(partition, from).await.map(Done::Page),
        Op::PutChunk(reign, checkpoint, nth, chunk) => store.put_chunk(reign, checkpoint, nth, chunk).await.map(yes),
        Op::FinishCheckpoint(reign, checkpoint, chunks) => {
            store.finish_checkpoint(reign, checkpoint, chunks).await.map(yes)
        }
        Op::Sweep(reign) => store.sweep(reign).await.map(Done::More),
        Op::RaiseFormat(format) => store.raise_format(format).await.map(yes),
    }
}

/// The subject of a call to the store, for counts and the log.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Join,
    Beat,
    Confirm,
    Bury { address: String, node: String },
    Take { partition: u32, from_dead: bool },
    LetGo { partition: u32 },
    Append { changes: u64, bytes: usize },
    FinishCheckpoint,
    RaiseFormat(u16),
    Other,
}

impl Kind {
    fn of(op: &Op) -> Kind {
        match op {
            Op::Join(..) => Kind::Join,
            Op::Beat(_) => Kind::Beat,
            Op::Confirm => Kind::Confirm,
            Op::Bury(seen) => Kind::Bury { address: seen.value.address.clone(), node: seen.value.node.to_string() },
            Op::Take(taking) => Kind::Take { partition: taking.partition, from_dead: taking.seen.value.node.is_some() },
            Op::LetGo(reign, _) => Kind::LetGo { partition: reign.partition },
            Op::Append(appends) => Kind::Append {
                changes: appends.iter().map(|append| append.batch.last.0 - append.batch.first.0 + 1).sum(),
                bytes: appends.iter().map(|append| append.batch.record.len()).sum(),
            },
            Op::FinishCheckpoint(..) => Kind::FinishCheckpoint,
            Op::RaiseFormat(format) => Kind::RaiseFormat(*format),
            Op::Map | Op::Forget(_) | Op::Read(..) | Op::PutChunk(..) | Op::Sweep(_) => Kind::Other,
        }
    }
}

impl Shared {
    /// Counts and logs what a call to the store came to.
    fn note(&self, kind: &Kind, result: &Result<Done, SharedError>, took: Duration) {
        self.note_store(kind, result);
        match (kind, result) {
            (Kind::Join, Ok(Done::Map(map))) => {
                self.meta.get_or_init(|| {
                    self.observers.joined(&map.meta);
                    map.meta.clone()
                });
                self.counts.joined.one_more();
                let living = map.living().count();
                tracing::info!(target: "leasehold::cluster", living, address = &*self.address, "joined the cluster");
            }
            (Kind::Beat, Ok(_)) => {
                let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                self.beat_took_us.store(took_us, Ordering::Relaxed);
            }
            (Kind::Confirm, Ok(_)) => self.counts.proofs.one_more(),
            (Kind::Bury { address, node }, Ok(_)) => {
                self.counts.buried.one_more();
                if **address != *self.address {
                    tracing::warn!(target: "leasehold::cluster", node, address, "a node is silent: it is taken for dead");
                }
            }
            (Kind::Take { partition, from_dead }, Ok(_)) => {
                if *from_dead { &self.counts.taken_from_dead } else { &self.counts.taken_free }.one_more();
                tracing::info!(target: "leasehold::cluster", partition, from_dead, "partition taken");
            }
            (Kind::LetGo { partition }, Ok(_)) => {
                self.counts.let_go.one_more();
                tracing::info!(target: "leasehold::cluster", partition, "partition let go");
            }
            (Kind::Append { changes, bytes }, Ok(_)) => {
                self.counts.appends.one_more();
                self.observers.appended(*changes, *bytes, took);
            }
            (Kind::FinishCheckpoint, Ok(_)) => self.observers.checkpointed(),
            (Kind::RaiseFormat(format), Ok(_)) => tracing::info!(
                target: "leasehold::cluster",
                format,
                "the cluster uses a later format from now on: nodes of earlier versions cannot join any more"
            ),
            _ => {}
        }
    }

    /// The store went away, came back, or refuses this node.
    fn note_store(&self, kind: &Kind, result: &Result<Done, SharedError>) {
        match result {
            Err(SharedError::Away(why)) => {
                self.counts.store_away.one_more();
                if self.set_error(Some(why)) {
                    tracing::warn!(target: "leasehold::cluster", why, "the shared store is away: answers wait for it");
                }
            }
            Err(SharedError::Refused(why)) if *kind == Kind::Join => {
                if self.meta.get().is_some() {
                    tracing::error!(target: "leasehold::cluster", why, "the shared store does not let this node join");
                } else {
                    self.state.send_modify(|state| state.refused = Some(why.clone()));
                }
            }
            // Without a record it cannot begin, and waiting makes no room.
            Err(error @ SharedError::Full(_)) if *kind == Kind::Join && self.meta.get().is_none() => {
                self.state.send_modify(|state| state.refused = Some(error.to_string()));
            }
            Err(error @ (SharedError::Full(_) | SharedError::Damaged { .. })) => {
                if self.set_error(Some(&error.to_string())) {
                    tracing::error!(target: "leasehold::cluster", %error, "the shared store fails");
                }
            }
            Ok(_) => {
                if self.set_error(None) {
                    tracing::info!(target: "leasehold::cluster", "the shared store is there again");
                }
            }
            Err(SharedError::Fenced(_) | SharedError::Refused(_) | SharedError::Gone) => {}
        }
    }
}
