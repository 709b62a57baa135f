//! The node behind its lock: what comes in is handed to it, and what it wants is carried out. Messages and news leave
//! under the lock, since their order counts; answers and calls to the store leave after it.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use leasehold_cluster::{AskAnswer, Message, Meta, Node, Op, Out, Partitions, PeerAddress, SharedStore};
use leasehold_engine::{ClaimId, Reply, Time};
use leasehold_journal::{Clocks, Denial, Epoch, Position, Request};
use tokio::runtime::Handle as Runtime;
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::counts::NodeCounts;
use crate::outgoing::Outgoing;
use crate::surroundings::{Observers, TimeSource};

/// The entrance to the cluster for callers of this process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Entrance(pub(crate) Arc<Shared>);

/// An answer, as its caller hears it.
#[derive(Debug)]
pub struct Heard {
    /// The reply, or why there is none.
    pub answer: Result<Reply, Denial>,
    /// The partition that it comes from.
    pub partition: u32,
    /// The epoch in which it was decided.
    pub epoch: Epoch,
    /// The last change that it saw.
    pub position: Position,
    /// Service time when the caller asked, reckoned back from when the answer left.
    pub asked_at: Time,
    /// The claim that it tells its caller of: to be handed back if the caller cannot be told.
    pub untold: Option<ClaimId>,
}

/// Begins a call to the store, whose result comes in by itself.
pub(crate) type CallStore = fn(Arc<Shared>, u64, Op);

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    pub(crate) address: PeerAddress,
    pub(crate) clock: TimeSource,
    pub(crate) store: Arc<dyn SharedStore>,
    pub(crate) counts: NodeCounts,
    pub(crate) runtime: Runtime,
    pub(crate) observers: Arc<dyn Observers>,
    /// Since the first join.
    pub(crate) meta: OnceLock<Meta>,
    /// Drawn at the start: tells two processes at one address apart.
    pub(crate) instance: u64,
    /// Links with many bytes that their peer has not taken yet.
    pub(crate) slow_links: Arc<AtomicUsize>,
    callers_max: usize,
    call_store: CallStore,
    pub(crate) state: watch::Sender<State>,
    /// The last trouble with the store, while it lasts.
    error: Mutex<Option<String>>,
    /// How long the last beat took that succeeded; zero before the first.
    pub(crate) beat_took_us: AtomicU64,
}

/// How far the node has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) has_joined: bool,
    pub(crate) has_ended: bool,
    /// The store refuses this node for good.
    pub(crate) refused: Option<String>,
}

pub(crate) struct Inner {
    pub(crate) node: Node,
    callers: HashMap<u64, Caller>,
    next_caller: u64,
    pub(crate) links: BTreeMap<PeerAddress, Arc<Outgoing>>,
    /// The last time that the node was promised to be woken at.
    wakes_at_us: u64,
    /// The number of the last link with each peer.
    pub(crate) link_numbers: BTreeMap<PeerAddress, u64>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("address", &self.address).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Caller {
    to: oneshot::Sender<Box<Heard>>,
    partition: u32,
    asked_us: u64,
}

/// Things to carry out when the lock is free.
#[derive(Default)]
struct Wants {
    answers: Vec<(Caller, AskAnswer)>,
    ops: Vec<(u64, Op)>,
    /// The node is to be woken after so long.
    wake_us: Option<u64>,
    has_ended: bool,
}

impl Shared {
    pub(crate) fn new(
        node: Node,
        address: PeerAddress,
        parts: (Arc<dyn SharedStore>, TimeSource, Arc<dyn Observers>),
        callers_max: usize,
        call_store: CallStore,
    ) -> Shared {
        let (store, clock, observers) = parts;
        let mut instance = [0; 8];
        getrandom::fill(&mut instance).expect("the system has randomness");
        Shared {
            inner: Mutex::new(Inner {
                node,
                callers: HashMap::new(),
                next_caller: 0,
                links: BTreeMap::new(),
                wakes_at_us: 0,
                link_numbers: BTreeMap::new(),
            }),
            address,
            clock,
            store,
            counts: NodeCounts::default(),
            runtime: Runtime::current(),
            observers,
            meta: OnceLock::new(),
            instance: u64::from_be_bytes(instance),
            slow_links: Arc::default(),
            callers_max,
            call_store,
            state: watch::channel(State::default()).0,
            error: Mutex::default(),
            beat_took_us: AtomicU64::new(0),
        }
    }

    /// Keeps the last trouble with the store. Returns whether it begins or ends.
    pub(crate) fn set_error(&self, error: Option<&str>) -> bool {
        let mut last = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = last.is_some() != error.is_some();
        if is_news || error.is_some() {
            *last = error.map(str::to_owned);
        }
        is_news
    }

    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn last_error(&self) -> String {
        self.error().unwrap_or_else(|| "it did not answer".to_owned())
    }

    /// A thread that panicked in here may have left half a step behind: stopping is better than two holders.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|_| {
            tracing::error!("a step of the node failed; stopping, the store has what was acknowledged");
            std::process::abort()
        })
    }

    /// Does something with the node, and carries out what it wants.
    pub(crate) fn act<T>(self: &Arc<Self>, act: impl FnOnce(&mut Inner, Clocks) -> T) -> T {
        let (done, wants) = {
            let mut inner = self.lock();
            let clocks = self.clock.read();
            let done = act(&mut inner, clocks);
            (done, self.gather(&mut inner, clocks))
        };
        self.carry_out(wants);
        done
    }

    fn gather(&self, inner: &mut Inner, clocks: Clocks) -> Wants {
        let mut wants = Wants::default();
        if let Some(at_us) = inner.node.gathers_until_us().filter(|at_us| *at_us != inner.wakes_at_us) {
            inner.wakes_at_us = at_us;
            wants.wake_us = Some(at_us.saturating_sub(clocks.mono_us));
        }
        while let Some(out) = inner.node.poll() {
            match out {
                Out::Store(number, op) => wants.ops.push((number, op)),
                Out::Send(to, message) => self.send(inner, &to, &message),
                Out::Answer(caller, answered) => {
                    wants.answers.extend(inner.callers.remove(&caller).map(|caller| (caller, answered)));
                }
                Out::Happened(news) => {
                    if let Some(engine) = inner.node.engine(news.partition) {
                        self.observers.news(&news, &engine.totals());
                    }
                }
                Out::WentBack { what, epoch } => {
                    self.counts.went_back.one_more();
                    tracing::error!(
                        epoch = epoch.0,
                        "the store went back to an earlier state, and writes that it had confirmed are gone: {what}; epochs \
                         and tokens jump"
                    );
                }
                Out::Ended => wants.has_ended = true,
            }
        }
        wants
    }

    /// Without a link a message is lost, which its sender reckons with.
    fn send(&self, inner: &Inner, to: &PeerAddress, message: &Message) {
        if let Message::Ask { sending, .. } = message {
            if *sending > 1 { &self.counts.asked_again } else { &self.counts.asked }.one_more();
        }
        if let Some(link) = inner.links.get(to) {
            link.push(message);
        }
    }

    fn carry_out(self: &Arc<Self>, mut wants: Wants) {
        loop {
            for (number, op) in wants.ops.drain(..) {
                (self.call_store)(Arc::clone(self), number, op);
            }
            if let Some(after_us) = wants.wake_us {
                let shared = Arc::clone(self);
                self.runtime.spawn(async move {
                    sleep(Duration::from_micros(after_us)).await;
                    shared.act(|inner, clocks| inner.node.wake(clocks));
                });
            }
            if wants.has_ended {
                self.state.send_modify(|state| state.has_ended = true);
            }
            let mut untold = Vec::new();
            for (caller, answered) in wants.answers.drain(..) {
                let partition = caller.partition;
                if let Err(heard) = caller.answer(&self.clock, answered) {
                    untold.extend(heard.untold.map(|claim| (partition, claim)));
                }
            }
            if untold.is_empty() {
                return;
            }
            wants = {
                let mut inner = self.lock();
                let clocks = self.clock.read();
                for (partition, claim) in untold {
                    inner.node.undelivered(clocks, partition, claim);
                }
                self.gather(&mut inner, clocks)
            };
        }
    }

    /// Ends all calls that are still open: the service stops.
    pub(crate) fn dismiss_callers(self: &Arc<Self>) {
        let dismissed = self.act(|inner, clocks| {
            let callers: Vec<(u64, Caller)> = inner.callers.drain().collect();
            for (number, _) in &callers {
                inner.node.leave(clocks, *number);
            }
            callers
        });
        for (_, caller) in dismissed {
            let _ = caller.answer(&self.clock, denied(Denial::ShuttingDown));
        }
    }
}

impl Caller {
    fn answer(self, clock: &TimeSource, answered: AskAnswer) -> Result<(), Box<Heard>> {
        let AskAnswer { answer, epoch, position, at, untold } = answered;
        let waited_us = clock.read().mono_us.saturating_sub(self.asked_us);
        let asked_at = Time(at.0.saturating_sub(waited_us));
        self.to.send(Box::new(Heard { answer, partition: self.partition, epoch, position, asked_at, untold }))
    }
}

fn denied(denial: Denial) -> AskAnswer {
    AskAnswer { answer: Err(denial), epoch: Epoch(0), position: Position::START, at: Time::default(), untold: None }
}

impl Entrance {
    /// Asks the owner of a partition, wherever it is. The returned future waits for the answer, and gives the call up
    /// if it is dropped before.
    pub fn call(&self, partition: u32, request: Request) -> Calling {
        let (to, heard) = oneshot::channel();
        let shared = &self.0;
        let caller = shared.act(|inner, clocks| {
            let is_full = inner.callers.len() >= shared.callers_max || shared.is_slow(inner, partition);
            let caller = Caller { to, partition, asked_us: clocks.mono_us };
            if is_full {
                let _ = caller.answer(&shared.clock, denied(Denial::Overloaded));
                return None;
            }
            inner.next_caller += 1;
            let number = inner.next_caller;
            inner.callers.insert(number, caller);
            inner.node.call(clocks, number, partition, request);
            Some(number)
        });
        Calling { shared: Arc::clone(shared), caller, partition, heard, is_over: false }
    }

    /// An answer was made and could not be delivered: its claim is handed back.
    pub fn hand_back(&self, partition: u32, claim: ClaimId) {
        self.0.act(|inner, clocks| inner.node.undelivered(clocks, partition, claim));
    }

    /// Looks at the node, briefly: it stands still meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&Node) -> T) -> T {
        look(&self.0.lock().node)
    }

    /// The number of partitions.
    pub fn partitions(&self) -> Partitions {
        self.meta().partitions
    }

    /// The cluster's secret.
    pub fn secret(&self) -> [u8; 32] {
        self.meta().secret
    }

    fn meta(&self) -> &Meta {
        self.0.meta.get().expect("a node is started when it has joined")
    }

    /// Calls without an answer.
    pub fn callers(&self) -> usize {
        self.0.lock().callers.len()
    }

    /// Things counted since the process began.
    pub fn counts(&self) -> &NodeCounts {
        &self.0.counts
    }
}

impl Shared {
    /// Returns whether the owner of this partition takes messages too slowly to send it more.
    fn is_slow(&self, inner: &Inner, partition: u32) -> bool {
        if self.slow_links.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let owner = inner.node.map().and_then(|map| {
            let node = map.owners.get(partition as usize)?.value.node?;
            Some(map.node(node)?.value.address.as_str())
        });
        owner.and_then(|address| inner.links.get(address)).is_some_and(|link| link.is_slow())
    }
}

/// A caller on the line. Dropping it early gives the call up.
#[derive(Debug)]
#[must_use = "dropping it withdraws what was asked"]
pub struct Calling {
    shared: Arc<Shared>,
    /// `None` when it was turned away at once.
    caller: Option<u64>,
    partition: u32,
    heard: oneshot::Receiver<Box<Heard>>,
    is_over: bool,
}

impl Future for Calling {
    type Output = Box<Heard>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Box<Heard>> {
        let heard = ready!(Pin::new(&mut self.heard).poll(cx));
        self.is_over = true;
        let partition = self.partition;
        // The sender is dropped unanswered only when the process is about to end.
        Poll::Ready(heard.unwrap_or_else(|_| {
            let (epoch, position, asked_at) = (Epoch(0), Position::START, Time::default());
            Box::new(Heard { answer: Err(Denial::ShuttingDown), partition, epoch, position, asked_at, untold: None })
        }))
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // Close first: from here on a late answer cannot be sent, and the sender hands it back.
        self.heard.close();
        match (self.heard.try_recv(), self.caller) {
            (Ok(heard), _) => {
                if let Some(claim) = heard.untold {
                    let partition = self.partition;
                    self.shared.act(|inner, clocks| inner.node.undelivered(clocks, partition, claim));
                }
            }
            (Err(_), Some(caller)) => {
                self.shared.act(|inner, clocks| {
                    // It may have been answered in this very moment: then its sender found it gone.
                    if inner.callers.remove(&caller).is_some() {
                        inner.node.leave(clocks, caller);
                    }
                });
            }
            (Err(_), None) => {}
        }
    }
}
