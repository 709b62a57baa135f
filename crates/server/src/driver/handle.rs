//! Calls to the partitions from async code: a command goes to the partition of its resource. A caller that goes away
//! while it waits is an ordered command like any other.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use leasehold_cluster::Partitions;
use leasehold_engine::{ClaimId, Command, Owned, Quota, Reply, ResourceKey, Time, Totals, Wall};
use leasehold_journal::{Callers, Clocks, Denial, Epoch, Position, Request, Ticket};
use leasehold_node::{Calling, ClusterStatus, Heard, NodeCounts};

use super::inside::{ClaimOwner, Inside};
use super::route::{self, Whose};
use super::{Clock, Shared};
use crate::sync::oneshot;

/// An answer, with its place in the order of things.
#[derive(Debug)]
pub struct Answered {
    pub answer: Result<Reply, Denial>,
    /// The place of the answer in the order of its partition.
    pub stamp: Stamp,
    /// Service time when its caller asked, to compute how long it waited.
    pub(crate) asked_at: Time,
    /// The claim that this answer tells its caller of: if the answer cannot be delivered, hand it back.
    pub(crate) untold: Option<ClaimId>,
}

/// A place in the order of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub partition: u32,
    pub epoch: Epoch,
    pub position: Position,
}

/// The entrance for requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Handle(Served);

/// The service that most people run has one partition, and pays nothing for the others.
#[derive(Clone, Debug)]
enum Served {
    One(Arc<Shared>),
    /// By number.
    Many(Partitions, Arc<[Arc<Shared>]>),
    /// A node of a cluster: partitions are with other nodes, too.
    Node(Arc<Inside>),
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Handle(Served::One(shared))
    }

    pub(super) fn of_node(inside: Arc<Inside>) -> Self {
        Handle(Served::Node(inside))
    }

    /// One entrance to all partitions of a service, in the order of their numbers.
    pub(super) fn many(handles: impl Iterator<Item = Handle>) -> Self {
        let mut shared: Vec<Arc<Shared>> = handles.flat_map(|handle| handle.shared().to_vec()).collect();
        assert!(
            shared.iter().zip(0..).all(|(shared, number)| shared.number == number),
            "in the order of their numbers"
        );
        if shared.len() == 1 {
            return Handle(Served::One(shared.remove(0)));
        }
        let number = u32::try_from(shared.len()).ok().and_then(Partitions::new);
        Handle(Served::Many(number.expect("a service has as many partitions as it may"), shared.into()))
    }

    /// With several partitions an answer names the one it comes from.
    pub(crate) fn has_many(&self) -> bool {
        matches!(self.0, Served::Many(..) | Served::Node(_))
    }

    /// The node, where this process is one of a cluster.
    fn node(&self) -> Option<&Inside> {
        match &self.0 {
            Served::Node(node) => Some(node),
            Served::One(_) | Served::Many(..) => None,
        }
    }

    /// The cluster as this node sees it.
    pub(crate) fn cluster(&self) -> Option<ClusterStatus> {
        self.node().map(Inside::status)
    }

    /// Things that this node counted.
    pub(crate) fn cluster_counts(&self) -> Option<&NodeCounts> {
        self.node().map(Inside::counts)
    }

    /// Submits the request at once, to the partition of its resource. The returned future waits for the durable answer,
    /// and withdraws the request if it is dropped before. It holds nothing else: an `async fn` would keep the request
    /// for as long as its caller is parked.
    pub fn call(&self, request: impl Into<Request>) -> Listening<'_> {
        let mut request = request.into();
        match &self.0 {
            Served::One(shared) => submit(shared, request),
            Served::Many(partitions, all) => {
                let number = match route::whose(&request.command) {
                    Whose::Resource(resource) => partitions.of(resource),
                    Whose::Claim(claim) => partition_of_claim(*partitions, all, claim),
                    Whose::Everything => 0,
                };
                self.share_quota(&mut request.command, number);
                submit(&all[number as usize], request)
            }
            Served::Node(node) => Listening::far(node.call(request)),
        }
    }

    /// Submits a request to this partition: lists and surveys go to all of them.
    pub(crate) fn call_in(&self, partition: u32, request: impl Into<Request>) -> Listening<'_> {
        match self.node() {
            None => submit(&self.shared()[partition as usize], request.into()),
            Some(node) => Listening::far(node.call_in(partition, request.into())),
        }
    }

    /// The partitions that something is put together from: that of the resource it is about, or all of them.
    pub(crate) fn partitions_of(&self, resource: Option<&ResourceKey>) -> std::ops::Range<u32> {
        let partitions = match &self.0 {
            Served::One(_) => return 0..1,
            Served::Many(partitions, _) => *partitions,
            Served::Node(node) => node.partitions,
        };
        match resource.map(|resource| partitions.of(resource)) {
            Some(number) => number..number + 1,
            None => 0..partitions.number(),
        }
    }

    /// A principal's quota is for all partitions: the claims that it has in the others count.
    fn share_quota(&self, command: &mut Command, partition: u32) {
        let Command::Acquire(acquire) = command else { return };
        let Some(owner) = acquire.owner().filter(|_| acquire.quota != Quota::NONE) else { return };
        let others = self.shared().iter().filter(|shared| shared.number != partition);
        let claims = others.map(|shared| shared.lock().partition.engine().owned_by(owner));
        acquire.quota.elsewhere = claims.fold(Owned::NOTHING, |sum, claims| sum + claims);
    }

    /// An answer was made and could not be delivered: its claim is handed back, unless another caller knows of it.
    pub(crate) fn hand_back(&self, partition: u32, untold: ClaimId) {
        if let Some(node) = self.node() {
            return node.hand_back(partition, untold);
        }
        let shared = &self.shared()[partition as usize];
        let leaving = shared.hand_back(&[untold]);
        shared.deliver(leaving);
    }

    /// Returns whether changes become durable: makes one in each partition, of the smallest kind, and waits for them. A
    /// node of a cluster shows it with every beat, and writes nothing for this.
    pub async fn is_ready(&self) -> bool {
        if let Some(node) = self.node() {
            return node.is_ready();
        }
        let marks: Vec<Listening<'_>> =
            self.shared().iter().map(|shared| submit(shared, Command::Mark.into())).collect();
        let mut is_ready = true;
        for mark in marks {
            is_ready &= mark.await.answer.is_ok();
        }
        is_ready
    }

    /// Everything up to here is durable: the place of an answer that depends on nothing. With several partitions such
    /// an answer has none.
    pub fn durable(&self) -> Option<Stamp> {
        match &self.0 {
            Served::One(shared) => Some(shared.durable_stamp()),
            Served::Many(..) | Served::Node(_) => None,
        }
    }

    /// The same in the partition of a resource, or in all of them.
    pub(crate) fn heads_of(&self, resource: Option<&ResourceKey>) -> impl Iterator<Item = Stamp> + '_ {
        self.partitions_of(resource).map(|partition| match self.node() {
            None => self.shared()[partition as usize].durable_stamp(),
            Some(node) => {
                let (epoch, position) = node.head_of(partition);
                Stamp { partition, epoch, position }
            }
        })
    }

    /// The wall clock's reading, for people.
    pub fn wall(&self) -> Wall {
        self.clock().read().wall
    }

    /// With a manual clock: lets this much time pass while the service runs, handling all deadlines on the way.
    pub fn advance(&self, duration_us: u64) {
        let mut left_us = duration_us;
        loop {
            let mut step_us = left_us;
            for shared in self.shared() {
                let leaving = {
                    let mut inner = shared.lock();
                    let clocks = shared.clock.read();
                    inner.partition.tick(clocks);
                    let wake_us = inner.partition.next_wake().unwrap_or(u64::MAX);
                    step_us = step_us.min(wake_us.saturating_sub(clocks.mono_us));
                    shared.after_change(&mut inner)
                };
                shared.deliver(leaving);
            }
            if left_us == 0 {
                return;
            }
            self.clock().advance(step_us);
            left_us -= step_us;
        }
    }

    /// The resource and the owner of a claim. Neither changes in its life, so a command may be authorised by them; but
    /// an answer about the claim has to come through the gate.
    pub(crate) async fn owner_of(&self, claim: ClaimId) -> Result<Option<ClaimOwner>, Denial> {
        let shared = match &self.0 {
            Served::One(shared) => shared,
            Served::Many(partitions, all) => &all[partition_of_claim(*partitions, all, claim) as usize],
            Served::Node(node) => return node.owner_of(claim).await,
        };
        Ok(shared.lock().partition.engine().owner_of(claim))
    }

    /// For modules that do not deal with leases.
    pub(crate) fn now(&self) -> leasehold_auth::Now {
        let Clocks { mono_us, wall } = self.clock().read();
        leasehold_auth::Now { unix_s: wall.0 / 1_000_000, mono_us }
    }

    /// Returns whether no append is under way or due, and every answer that could leave has left.
    pub fn is_at_rest(&self) -> bool {
        match self.node() {
            None => self.shared().iter().all(|shared| shared.lock().partition.is_at_rest()),
            Some(node) => node.callers() == 0,
        }
    }

    /// Totals over all partitions; on a node of a cluster, over the partitions that it owns.
    pub fn totals(&self) -> Totals {
        if let Some(node) = self.node() {
            return node.totals();
        }
        self.shared().iter().map(|shared| shared.lock().partition.totals()).sum()
    }

    pub fn callers(&self) -> Callers {
        if let Some(node) = self.node() {
            // A node does not tell those that wait for the store from those that wait in a queue.
            return Callers { held: 0, parked: node.callers() };
        }
        let mut sum = Callers { held: 0, parked: 0 };
        for shared in self.shared() {
            let Callers { held, parked } = shared.lock().partition.callers();
            sum = Callers { held: sum.held + held, parked: sum.parked + parked };
        }
        sum
    }

    /// The figures of all partitions for metrics, in one look at each.
    pub(crate) fn readings(&self) -> Readings {
        let now_us = self.clock().mono_us();
        let mut oldest_held_us = 0;
        let mut uncharged_us = 0;
        let mut epoch = Epoch(0);
        if let Some(node) = self.node() {
            uncharged_us = node.uncharged_us();
            epoch = node.partitions.all().map(|partition| node.head_of(partition).0).max().unwrap_or(epoch);
        }
        for shared in self.shared() {
            let inner = shared.lock();
            let oldest_us = inner.partition.oldest_held_mono_us();
            oldest_held_us = oldest_us.map_or(0, |oldest_us| now_us.saturating_sub(oldest_us)).max(oldest_held_us);
            uncharged_us = inner.partition.uncharged_us().max(uncharged_us);
            epoch = epoch.max(shared.epoch);
        }
        Readings { totals: self.totals(), callers: self.callers(), oldest_held_us, uncharged_us, epoch }
    }

    /// The partitions that are driven here; none by a node, which has them inside.
    fn shared(&self) -> &[Arc<Shared>] {
        match &self.0 {
            Served::One(shared) => std::slice::from_ref(shared),
            Served::Many(_, all) => all,
            Served::Node(_) => &[],
        }
    }

    /// All partitions have the same.
    fn clock(&self) -> &Clock {
        match &self.0 {
            Served::One(shared) => &shared.clock,
            Served::Many(_, all) => &all[0].clock,
            Served::Node(node) => &node.clock,
        }
    }
}

/// The partition of a claim. Its id names it, except for ids that were minted while there was one partition only: those
/// are looked up in each. An id that no partition knows goes to the first one, which refuses it.
fn partition_of_claim(partitions: Partitions, all: &[Arc<Shared>], claim: ClaimId) -> u32 {
    let knows = |shared: &&Arc<Shared>| shared.lock().partition.engine().owner_of(claim).is_some();
    partitions.of_claim(claim).or_else(|| Some(all.iter().find(knows)?.number)).unwrap_or(0)
}

fn submit(shared: &Shared, request: Request) -> Listening<'_> {
    let (to, answered) = oneshot::channel();
    let (ticket, asked_at, leaving) = {
        let mut inner = shared.lock();
        let clocks = shared.clock.read();
        let ticket = inner.partition.submit(clocks, request, to);
        let asked_at = inner.partition.service_time();
        (ticket, asked_at, shared.after_change(&mut inner))
    };
    let listening = Listening(Line::Here { shared, ticket, asked_at, answered, is_over: false });
    shared.deliver(leaving);
    listening
}

/// The partitions in figures, as metrics show them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readings {
    pub(crate) totals: Totals,
    pub(crate) callers: Callers,
    /// How long the oldest answer has been waiting for the store.
    pub(crate) oldest_held_us: u64,
    /// How far service time fell behind the clock.
    pub(crate) uncharged_us: u64,
    pub(crate) epoch: Epoch,
}

/// A caller on the line. Dropping it early tells the partition that the caller left.
#[derive(Debug)]
#[must_use = "dropping it withdraws what was asked"]
pub struct Listening<'a>(Line<'a>);

#[derive(Debug)]
enum Line<'a> {
    /// To a partition that is driven here.
    Here {
        shared: &'a Shared,
        ticket: Option<Ticket>,
        /// Service time when it called.
        asked_at: Time,
        answered: oneshot::Receiver<Box<Answered>>,
        is_over: bool,
    },
    /// To a partition of the cluster, wherever it is.
    Far(Calling),
}

impl Listening<'_> {
    fn far(calling: Calling) -> Self {
        Listening(Line::Far(calling))
    }
}

impl Future for Listening<'_> {
    /// On the heap: it is moved often on its way, and a parked caller need not have room for it.
    type Output = Box<Answered>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Box<Answered>> {
        match &mut self.0 {
            Line::Here { shared, asked_at, answered, is_over, .. } => {
                let answered = ready!(Pin::new(answered).poll(cx));
                *is_over = true;
                // The sender is dropped unanswered only when the store failed; the process is about to end.
                let mut answered = answered.unwrap_or_else(|_| {
                    let stamp = Stamp { partition: shared.number, epoch: Epoch(0), position: Position(0) };
                    let answer = Err(Denial::ShuttingDown);
                    Box::new(Answered { answer, stamp, asked_at: *asked_at, untold: None })
                });
                answered.asked_at = *asked_at;
                Poll::Ready(answered)
            }
            Line::Far(calling) => {
                let Heard { answer, partition, epoch, position, asked_at, untold } =
                    *ready!(Pin::new(calling).poll(cx));
                let stamp = Stamp { partition, epoch, position };
                Poll::Ready(Box::new(Answered { answer, stamp, asked_at, untold }))
            }
        }
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        // A call to another node withdraws itself.
        let Line::Here { shared, ticket, answered, is_over: false, .. } = &mut self.0 else { return };
        // Close first: from here on a late answer cannot be sent, and the sender hands it back.
        answered.close();
        match (answered.try_recv(), *ticket) {
            (Ok(answered), _) => {
                if let Some(claim) = answered.untold {
                    let leaving = shared.hand_back(&[claim]);
                    shared.deliver(leaving);
                }
            }
            (Err(_), Some(ticket)) => {
                let leaving = {
                    let mut inner = shared.lock();
                    let clocks = shared.clock.read();
                    inner.partition.leave(clocks, ticket);
                    shared.after_change(&mut inner)
                };
                shared.deliver(leaving);
            }
            (Err(_), None) => {}
        }
    }
}
