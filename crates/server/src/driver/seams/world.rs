//! The world of a story: a driver on a store in memory, callers that speak to it the way the dialects do, and clocks
//! that move time on a thread of their own.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use leasehold_engine::{
    Acquire, ClaimId, Command, Engine, Fact, IdempotencyKey, Labeling, Limits, Options, Patience, Quota, Refusal,
    Reply, ResourceKey, Status, Totals, Wall,
};
use leasehold_journal::store::Opened;
use leasehold_journal::{
    Batch, Denial, Happened, MemoryOpener, Opener, PartitionLimits, Position, Room, Sizes, Store, StoreError, TICK_US,
    recover,
};
use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;

use crate::driver::{Answered, Beginning, Clock, Driver, Handle, Shared, Witness};
use crate::sync::{advance_time, reset_time};

const POOL: ResourceKey = ResourceKey::Pool(7);
const HOUR_US: u64 = 3_600_000_000;

/// A driver, and everything known of it from outside.
pub(super) struct Rig {
    driver: Driver,
    store: MemoryOpener,
    durable: Arc<AtomicU64>,
    ids: Arc<AtomicU64>,
    hanging: Hanging,
    is_kept: bool,
}

/// The knowledge of a caller at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Holds(ClaimId),
    /// It left, or was turned away.
    Nothing,
}

impl Told {
    pub(super) fn claim(&self) -> Option<ClaimId> {
        match self {
            Told::Holds(claim) => Some(*claim),
            Told::Nothing => None,
        }
    }
}

impl Rig {
    /// One pool with so many slots.
    pub(super) fn new(capacity: u32) -> Rig {
        Rig::with_store_failing_after(capacity, u64::MAX)
    }

    /// The same on a store that does so many appends, and then no more.
    pub(super) fn with_store_failing_after(capacity: u32, appends: u64) -> Rig {
        Rig::with_store(capacity, MemoryOpener::keeping(), appends, None)
    }

    /// The same on a store that does not come back from this call, once it is made.
    pub(super) fn with_store_hanging_in(capacity: u32, call: StoreCall) -> Rig {
        let is_of_checkpoint =
            matches!(call, StoreCall::BeginCheckpoint | StoreCall::PutChunk | StoreCall::FinishCheckpoint);
        // The first append leads to a checkpoint.
        let world = Rig::with_store(capacity, MemoryOpener::keeping(), u64::MAX, is_of_checkpoint.then_some(call));
        world.hanging.call.store(call as usize, Ordering::SeqCst);
        world
    }

    /// The same without a journal.
    pub(super) fn in_memory(capacity: u32) -> Rig {
        Rig::with_store(capacity, MemoryOpener::forgetful(), u64::MAX, None)
    }

    fn with_store(capacity: u32, store: MemoryOpener, appends: u64, hangs_in: Option<StoreCall>) -> Rig {
        reset_time();
        let durable = Arc::new(AtomicU64::new(0));
        let hanging = Hanging::default();
        if let Some(call) = hangs_in {
            hanging.call.store(call as usize, Ordering::SeqCst);
        }
        let opener =
            Watched { opener: store.clone(), durable: Arc::clone(&durable), appends, hanging: hanging.clone() };
        let recovery = recover(&opener, 0, Limits::default()).expect("there is nothing to read");
        let limits = PartitionLimits {
            callers_max: 100,
            store_timeout_us: HOUR_US,
            backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
        };
        let clock = Clock::manual(Wall(1_700_000_000_000_000));
        let is_kept = !recovery.store.is_forgetful();
        let driver = Driver::start(recovery, limits, Arc::new(Unwatched), clock);
        let world = Rig { driver, store, durable, ids: Arc::default(), hanging, is_kept };
        let configured = block_on(world.driver.handle().call(Command::Configure {
            resource: POOL,
            capacity,
            label: Labeling::Kept,
        }));
        assert!(matches!(configured.answer, Ok(Reply::Resource(_))), "{configured:?}");
        world
    }

    pub(super) fn caller(&self, number: u64) -> Caller {
        let (durable, ids) = (Arc::clone(&self.durable), Arc::clone(&self.ids));
        let (handle, is_kept) = (self.driver.handle(), self.is_kept);
        Caller { handle, durable, ids, number, ttl_us: HOUR_US, key: None, is_kept }
    }

    /// Gives the committer something to do, and does not wait for it.
    pub(super) fn nudge(&self) {
        drop(self.driver.handle().call(Command::Mark));
    }

    /// Lets time pass, whatever is due.
    pub(super) fn pass(&self, by_us: u64) {
        {
            let _inner = self.driver.shared.lock();
            self.driver.shared.clock.advance(by_us);
            advance_time(by_us);
        }
        thread::yield_now();
    }

    /// Returns whether the store hangs now.
    pub(super) fn is_hanging(&self) -> bool {
        self.hanging.is_inside.load(Ordering::SeqCst)
    }

    pub(super) fn hang_no_more(&self) {
        self.hanging.call.store(usize::MAX, Ordering::SeqCst);
    }

    /// Ends the driver, whatever there is.
    pub(super) fn ends(self) {
        self.driver.close();
        block_on(self.driver.shut_down()).expect("the store is fine");
    }

    pub(super) fn still_holds(&self, claim: ClaimId) {
        let view = block_on(self.driver.handle().call(Command::ViewLease { resource: POOL, claim }));
        assert!(matches!(view.answer, Ok(Reply::Lease(_))), "{view:?}");
    }

    /// No caller is waiting and `held` slots are taken; the journal equals the state. Ends the driver.
    pub(super) fn comes_to_rest(self, held: usize) {
        let handle = self.driver.handle();
        // A grant that no caller took may still be on its way back. If it never comes, this goes on until the steps run
        // out.
        while self.in_use() != (held, 0) {
            thread::yield_now();
        }
        let callers = handle.callers();
        assert_eq!((callers.held, callers.parked), (0, 0));
        let totals = handle.totals();
        assert_eq!((totals.claims, totals.waiting), (held, 0));
        self.driver.close();
        block_on(self.driver.shut_down()).expect("the store is fine");
        assert_eq!(recovered(&self.store).totals(), totals, "the journal has something else");
    }

    /// Slots taken, and callers in the queue.
    fn in_use(&self) -> (usize, usize) {
        let view = block_on(self.driver.handle().call(Command::ViewResource { resource: POOL }));
        let Ok(Reply::Resource(view)) = view.answer else { panic!("the pool is there, but {view:?}") };
        (view.in_use as usize, view.waiting as usize)
    }

    /// How often the committer did something, so far.
    pub(super) fn turns(&self) -> u64 {
        self.driver.shared.lock().turns
    }

    pub(super) fn close(&self) {
        self.driver.close();
    }

    /// Ends the driver; exactly these claims are in the journal.
    pub(super) fn ends_with(self, held: &[ClaimId]) {
        block_on(self.driver.shut_down()).expect("the store is fine");
        assert_eq!(holders(recovered(&self.store)), sorted(held));
    }

    /// The store may have failed: then the journal may know more than the callers, and never less.
    pub(super) fn failed_or_ends_with(self, held: &[ClaimId]) {
        self.driver.close();
        let ended = block_on(self.driver.shut_down());
        let (holders, held) = (holders(recovered(&self.store)), sorted(held));
        match ended {
            Ok(()) => assert_eq!(holders, held),
            Err(_) => assert!(held.iter().all(|claim| holders.contains(claim)), "{held:?} were promised, {holders:?}"),
        }
    }

    /// Lets time pass up to the next deadline, and no further.
    pub(super) fn let_time_pass(&self) -> Ticking {
        Ticking::start(self, |until_due_us| until_due_us.min(TICK_US))
    }
}

fn recovered(store: &MemoryOpener) -> Engine {
    recover(store, 0, Limits::default()).expect("an appended batch can be read").engine
}

/// The holders, in the order of their ids.
fn holders(mut engine: Engine) -> Vec<ClaimId> {
    let mut facts = Vec::new();
    engine.begin_snapshot();
    while engine.step_snapshot(1_000, &mut facts) {}
    let mut holders: Vec<ClaimId> = facts
        .into_iter()
        .filter_map(|fact| match fact {
            Fact::Claim(claim) => (claim.status == Status::Active).then_some(claim.claim),
            Fact::Counters(_) | Fact::Resource(_) => None,
        })
        .collect();
    holders.sort_unstable();
    holders
}

fn sorted(claims: &[ClaimId]) -> Vec<ClaimId> {
    let mut claims = claims.to_vec();
    claims.sort_unstable();
    claims
}

/// A caller. Every answer must be durable when it comes.
pub(super) struct Caller {
    handle: Handle,
    durable: Arc<AtomicU64>,
    ids: Arc<AtomicU64>,
    number: u64,
    ttl_us: u64,
    key: Option<&'static str>,
    /// `true` if there is a journal.
    is_kept: bool,
}

impl Caller {
    pub(super) fn with_key(mut self, key: &'static str) -> Self {
        self.key = Some(key);
        self
    }

    pub(super) fn with_ttl_us(mut self, ttl_us: u64) -> Self {
        self.ttl_us = ttl_us;
        self
    }

    /// Where there is room.
    pub(super) fn borrow_now(&self) -> ClaimId {
        let told = self.hear(block_on(self.ask(0)));
        told.claim().expect("there is room")
    }

    pub(super) fn borrow_waiting(&self) -> Told {
        self.hear(block_on(self.ask(HOUR_US)))
    }

    /// Hangs up after so many looks whether an answer is there; it may well be there before.
    pub(super) fn borrow_and_maybe_leave(&self) -> Told {
        let mut looks = thread_rng().gen_range(0..12);
        let answered = block_on(async {
            let mut asking = pin!(self.ask(HOUR_US));
            poll_fn(|cx| match asking.as_mut().poll(cx) {
                Poll::Ready(answered) => Poll::Ready(Some(answered)),
                Poll::Pending if looks == 0 => Poll::Ready(None),
                Poll::Pending => {
                    looks -= 1;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await
        });
        answered.map_or(Told::Nothing, |answered| self.hear(answered))
    }

    /// Returns whether it was held until now.
    pub(super) fn give_back(&self, claim: ClaimId) -> bool {
        let answered = block_on(self.handle.call(Command::Return { resource: POOL, claim }));
        self.is_durable(&answered);
        match answered.answer {
            Ok(Reply::Returned(was_held)) => was_held,
            other => panic!("{other:?}"),
        }
    }

    fn ask(&self, wait_us: u64) -> impl Future<Output = Box<Answered>> {
        let id = u128::from(self.number) << 64 | u128::from(self.ids.fetch_add(1, Ordering::Relaxed) + 1);
        self.handle.call(Command::Acquire(Box::new(Acquire {
            resource: POOL,
            id: ClaimId(id),
            ttl_us: self.ttl_us,
            patience: Patience::For { wait_us },
            client: None,
            principal: None,
            key: self.key.map(|name| IdempotencyKey { name: name.into(), fingerprint: 1 }),
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        })))
    }

    fn hear(&self, answered: Box<Answered>) -> Told {
        self.is_durable(&answered);
        match answered.answer {
            Ok(Reply::Lease(lease)) => Told::Holds(lease.claim),
            Err(Denial::ShuttingDown | Denial::Refused(Refusal::NoneFree { .. })) => Told::Nothing,
            other => panic!("{other:?}"),
        }
    }

    fn is_durable(&self, answered: &Answered) {
        let position = answered.stamp.position;
        let durable = Position(self.durable.load(Ordering::SeqCst));
        assert!(position <= durable || !self.is_kept, "answered at {position:?}, durable up to {durable:?}");
        // A later answer that does not involve the partition gets this position, so it is not placed before this one.
        let placed = self.handle.durable().expect("there is one partition").position;
        assert!(position <= placed, "answered at {position:?}, the next refusal of bad input at {placed:?}");
    }
}

/// A thread that moves time.
pub(super) struct Ticking {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Ticking {
    /// `step` says how far to go, given the distance to the next deadline.
    fn start(world: &Rig, step: impl Fn(u64) -> u64 + Send + 'static) -> Ticking {
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = thread::spawn({
            let (shared, is_over) = (Arc::clone(&world.driver.shared), Arc::clone(&is_over));
            move || {
                while !is_over.load(Ordering::Relaxed) {
                    tick(&shared, &step);
                    thread::yield_now();
                }
            }
        });
        Ticking { is_over, thread }
    }

    pub(super) fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("a clock does not panic");
    }
}

fn tick(shared: &Shared, step: impl Fn(u64) -> u64) {
    let inner = shared.lock();
    let now_us = shared.clock.mono_us();
    let until_due_us = inner.partition.next_wake().map_or(0, |wake_us| wake_us.saturating_sub(now_us));
    let step_us = step(until_due_us);
    shared.clock.advance(step_us);
    advance_time(step_us);
}

/// The calls of a store beside opening it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreCall {
    Append,
    BeginCheckpoint,
    PutChunk,
    FinishCheckpoint,
    Maintain,
    Room,
    Sizes,
}

impl StoreCall {
    pub(super) const ALL: [StoreCall; 7] = [
        StoreCall::Append,
        StoreCall::BeginCheckpoint,
        StoreCall::PutChunk,
        StoreCall::FinishCheckpoint,
        StoreCall::Maintain,
        StoreCall::Room,
        StoreCall::Sizes,
    ];
}

/// Where a store hangs, if anywhere.
#[derive(Clone, Debug)]
struct Hanging {
    call: Arc<AtomicUsize>,
    is_inside: Arc<AtomicBool>,
}

impl Default for Hanging {
    fn default() -> Self {
        Hanging { call: Arc::new(AtomicUsize::new(usize::MAX)), is_inside: Arc::default() }
    }
}

impl Hanging {
    fn at(&self, call: StoreCall) {
        while self.call.load(Ordering::SeqCst) == call as usize {
            self.is_inside.store(true, Ordering::SeqCst);
            thread::yield_now();
        }
        self.is_inside.store(false, Ordering::SeqCst);
    }
}

/// A store that reports its progress, lets others run while it writes, and may fail or hang.
struct Watched {
    opener: MemoryOpener,
    durable: Arc<AtomicU64>,
    appends: u64,
    hanging: Hanging,
}

impl Opener for Watched {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(leasehold_journal::store::Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        let opened = self.opener.open(partition, visit)?;
        let store = WatchedStore {
            store: opened.store,
            durable: Arc::clone(&self.durable),
            appends_left: self.appends,
            hanging: self.hanging.clone(),
        };
        Ok(Opened { store: Box::new(store), ..opened })
    }
}

struct WatchedStore {
    store: Box<dyn Store>,
    durable: Arc<AtomicU64>,
    appends_left: u64,
    hanging: Hanging,
}

impl WatchedStore {
    fn store(&mut self) -> &mut dyn Store {
        self.store.as_mut()
    }
}

impl Store for WatchedStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        thread::yield_now();
        self.hanging.at(StoreCall::Append);
        if self.appends_left == 0 {
            return Err(StoreError::Misused("this store was to fail"));
        }
        self.appends_left -= 1;
        self.store().append(batch)?;
        self.durable.store(batch.last.0, Ordering::SeqCst);
        thread::yield_now();
        Ok(())
    }

    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError> {
        self.hanging.at(StoreCall::BeginCheckpoint);
        self.store().begin_checkpoint(upto)
    }

    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.hanging.at(StoreCall::PutChunk);
        self.store().put_chunk(chunk)
    }

    fn finish_checkpoint(&mut self) -> Result<(), StoreError> {
        self.hanging.at(StoreCall::FinishCheckpoint);
        self.store().finish_checkpoint()
    }

    fn maintain(&mut self) -> Result<bool, StoreError> {
        self.hanging.at(StoreCall::Maintain);
        self.store().maintain()
    }

    fn room(&self) -> Room {
        self.hanging.at(StoreCall::Room);
        Room::Enough
    }

    /// A tail that is worth a checkpoint while one is wanted.
    fn sizes(&self) -> Sizes {
        self.hanging.at(StoreCall::Sizes);
        let is_wanted = matches!(self.hanging.call.load(Ordering::SeqCst), 1..=3);
        Sizes { tail_bytes: if is_wanted { 1 << 30 } else { 0 }, ..Sizes::default() }
    }

    fn is_forgetful(&self) -> bool {
        self.store.is_forgetful()
    }
}

/// A witness that keeps nothing: the seams are about the driver below it.
#[derive(Debug)]
struct Unwatched;

impl Witness for Unwatched {
    fn begin(&self, _: Beginning) {}
    fn happened(&self, _: &[Happened]) {}
    fn record(&self, _: u32, _: &[Happened], _: &Totals) {}
    fn join(&self, _: u32, _: [u8; 32], _: Wall) {}
    fn gap(&self, _: u32, _: Position, _: Wall) {}
    fn appended(&self, _: u64, _: usize, _: Duration) {}
    fn store(&self, _: u32, _: Sizes, _: u64, _: bool) {}
    fn checkpointed(&self) {}
    fn close(&self) {}
}
