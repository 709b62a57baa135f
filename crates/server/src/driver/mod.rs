//! The partition's driver: the threads, clocks and store around `leasehold_journal::Partition`.
//!
//! ```text
//!  tasks of callers         the committer's task                   pulse thread
//!  ────────────────         ────────────────────                   ────────────
//!  lock, submit, unlock ──▶ let others go first                    lock, tick, unlock
//!  await the answer         lock, take batch, unlock               sleep until the next deadline
//!        ▲                  append (blocks, durable)
//!        │                  lock, append_done, unlock
//!        └───────────────── send the answers
//! ```
//!
//! Requests run the engine on the thread they arrive on, under one short lock, so the next batch fills while the last
//! is being written. No lock is held across IO or while answers are sent. The driver alone reads the clocks
//! that decide about leases (`clock`).
//!
//! The committer runs among the tasks of callers and not on a thread of its own, so that a lone caller is answered by
//! the thread that took its request, and many callers are answered without waking another thread. Its append blocks
//! that thread. That does no harm while it takes a fraction of a millisecond, as all active callers wait for it anyway.
//! When it takes longer the pulse calls another thread, so that callers are still heard and told that the store is
//! late. That is another thread of the runtime where it has several; where it has one, see `lead`.

mod checkpoint;
mod clock;
mod commit;
mod handle;
mod inside;
mod lead;
mod many;
mod member;
mod pulse;
mod route;
#[cfg(test)]
mod seams;
mod witness;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use leasehold_engine::{ClaimId, Time};
use leasehold_journal::{Epoch, Happened, Partition, PartitionLimits, Position, Recovery, StoreError, Told};
use tokio::sync::watch;

pub use clock::Clock;
pub(crate) use handle::Readings;
pub use handle::{Answered, Handle, Listening, Stamp};
pub(crate) use inside::ClaimOwner;
pub use lead::{Lead, default_threads};
pub use many::Drivers;
pub use member::{Member, Membership};
pub(crate) use route::fresh_claim_id;
pub use witness::{Beginning, Witness};

use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard, Runtime, oneshot, timeout};

/// How long the end waits for appends under way.
const FLUSH_MAX: Duration = Duration::from_secs(5);

/// A running partition. Dropping it without `shut_down` loses changes that were not yet appended.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    pulse: JoinHandle<()>,
    failed: watch::Receiver<Option<Arc<StoreError>>>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// A deadline comes sooner than the pulse wakes up; the pulse waits here.
    pulse: Condvar,
    number: u32,
    /// The same for all partitions of a service.
    clock: Arc<Clock>,
    witness: Arc<dyn Witness>,
    relief: Relief,
    epoch: Epoch,
    /// The last durable position, for readers that do not need the lock.
    durable: AtomicU64,
}

/// How a caller is answered.
type Caller = oneshot::Sender<Box<Answered>>;

#[derive(Debug)]
struct Inner {
    partition: Partition<Caller>,
    committer: Committing,
    /// When the pulse will run by itself, on the monotonic clock.
    pulse_at_us: u64,
    /// How often the committer found work, so far.
    turns: u64,
    /// The committer blocks its thread.
    is_blocking: bool,
    /// The committer is to end when everything is written. The pulse no longer acts by itself.
    is_closing: bool,
    /// The pulse is to end. Until then it looks after a committer that blocks its thread, also while closing.
    is_over: bool,
}

/// The state of the committer, which says whether to wake it.
#[derive(Debug)]
enum Committing {
    Busy,
    /// It waits for the first change.
    Idle(Waker),
}

/// The thread that attends to callers while the committer blocks its own for long.
#[derive(Debug)]
enum Relief {
    /// Another thread of the runtime, which must have two of them.
    Worker(Runtime),
    StandIn(Arc<Lead>),
}

impl Relief {
    fn call(&self) {
        match self {
            Relief::Worker(runtime) => {
                // Any task will do: its thread looks for more to do afterwards, and goes on to wait for sockets.
                runtime.spawn(async {});
            }
            Relief::StandIn(lead) => lead.call_stand_in(),
        }
    }
}

impl Driver {
    /// Goes on from the recovered partition and starts serving callers on the runtime it is called from, which has two
    /// threads at least.
    pub fn start(
        recovery: Recovery,
        limits: PartitionLimits,
        witness: Arc<impl Witness + 'static>,
        clock: impl Into<Arc<Clock>>,
    ) -> Driver {
        let runtime = Runtime::current();
        let relief = Relief::Worker(runtime.clone());
        let (driver, mut committer, fail) = Driver::prepare(recovery, limits, witness, clock.into(), relief);
        runtime.spawn(async move {
            if let Err(error) = committer.run().await {
                fail.send_replace(Some(Arc::new(error)));
            }
            // Closing the store may hang. The failure has been reported; dropping `fail`, last, reports the end.
            drop(committer);
        });
        driver
    }

    /// The same in a service that `Lead::run` runs.
    pub fn start_led(
        recovery: Recovery,
        limits: PartitionLimits,
        witness: Arc<impl Witness + 'static>,
        clock: impl Into<Arc<Clock>>,
        lead: Arc<Lead>,
    ) -> Driver {
        let relief = Relief::StandIn(Arc::clone(&lead));
        let (driver, mut committer, fail) = Driver::prepare(recovery, limits, witness, clock.into(), relief);
        spawn("leasehold-lead", move || {
            let outcome = committer.lead(&lead);
            // From here on the stand-in drives: the lead only reports and ends.
            lead.call_stand_in();
            if let Err(error) = outcome {
                fail.send_replace(Some(Arc::new(error)));
            }
            // As above: closing the store may hang.
            drop(committer);
        });
        driver
    }

    fn prepare(
        recovery: Recovery,
        limits: PartitionLimits,
        witness: Arc<dyn Witness>,
        clock: Arc<Clock>,
        relief: Relief,
    ) -> (Driver, commit::Committer, watch::Sender<Option<Arc<StoreError>>>) {
        let Recovery { engine, store, epoch, head, at, partition: number, history, .. } = recovery;
        let clocks = clock.read();
        witness.begin(Beginning { partition: number, epoch, head, history, secret: store.secret(), wall: clocks.wall });
        let mut partition = Partition::new(engine, number, epoch, head, at, limits, clocks);
        if store.is_forgetful() {
            partition.stop_journaling();
        }
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                partition,
                committer: Committing::Busy,
                pulse_at_us: 0,
                turns: 0,
                is_blocking: false,
                is_closing: false,
                is_over: false,
            }),
            pulse: Condvar::new(),
            number,
            clock,
            witness,
            relief,
            epoch,
            durable: AtomicU64::new(head.0),
        });
        let (fail, failed) = watch::channel(None);
        let committer = commit::Committer::new(Arc::clone(&shared), store);
        let pulse = spawn("leasehold-pulse", {
            let shared = Arc::clone(&shared);
            move || pulse::run(&shared)
        });
        (Driver { shared, pulse, failed }, committer, fail)
    }

    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Waits until the store fails for good. Nothing is acknowledged from then on; the process is to end.
    pub async fn failure(&self) -> Arc<StoreError> {
        let mut failed = self.failed.clone();
        loop {
            if let Some(error) = failed.borrow_and_update().as_ref() {
                return Arc::clone(error);
            }
            if failed.changed().await.is_err() {
                // The committer ended without an error: shutting down.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Turns new callers away, answers the parked ones and ends event streams. Earlier commands are still appended and
    /// answered.
    pub fn close(&self) {
        self.shared.witness.close();
        let leaving = {
            let mut inner = self.shared.lock();
            let clocks = self.shared.clock.read();
            inner.partition.shut_down(clocks);
            self.shared.after_change(&mut inner)
        };
        self.shared.deliver(leaving);
    }

    /// Flushes, and ends the committer and the pulse. `close` comes first. A store that does not come to an end is not
    /// waited for: its thread goes with the process.
    pub async fn shut_down(mut self) -> Result<(), Arc<StoreError>> {
        let waker = {
            let mut inner = self.shared.lock();
            inner.is_closing = true;
            self.shared.pulse.notify_all();
            inner.wake_committer()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        // It only reports that it failed, and ends.
        let over = async { while self.failed.borrow_and_update().is_none() && self.failed.changed().await.is_ok() {} };
        let is_over = timeout(FLUSH_MAX, over).await.is_ok();
        self.shared.lock().is_over = true;
        self.shared.pulse.notify_all();
        if self.pulse.join().is_err() {
            tracing::error!("the pulse of the partition panicked");
        }
        if !is_over {
            let why = format!("the store did not finish within {} s", FLUSH_MAX.as_secs());
            return Err(Arc::new(StoreError::Unknown(why)));
        }
        match self.failed.borrow().as_ref() {
            Some(error) => Err(Arc::clone(error)),
            None => Ok(()),
        }
    }
}

impl Shared {
    /// A thread that panicked in here may have left half a step behind: stopping is better than two holders.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|_| {
            tracing::error!("a step of the engine failed; stopping, the journal has what was acknowledged");
            std::process::abort()
        })
    }

    /// Everything up to here is durable.
    fn durable_stamp(&self) -> Stamp {
        let position = Position(self.durable.load(Ordering::Relaxed));
        Stamp { partition: self.number, epoch: self.epoch, position }
    }

    /// Wakes the pulse if something is due sooner than it wakes up by itself.
    fn rouse_pulse(&self, inner: &Inner) {
        if inner.partition.next_wake().is_some_and(|wake_us| wake_us < inner.pulse_at_us) {
            self.pulse.notify_one();
        }
    }

    /// After a call of the partition: wakes the threads that have to act on it, and takes out the answers that may
    /// leave.
    fn after_change(&self, inner: &mut Inner) -> Leaving {
        self.rouse_pulse(inner);
        if !inner.partition.is_journaled() {
            // There is no committer that would update it.
            self.durable.store(inner.partition.durable().0, Ordering::Relaxed);
        }
        let wake = if inner.partition.has_batch() { inner.wake_committer() } else { None };
        let leaving = Leaving { wake, ..inner.leaving() };
        if !leaving.happened.is_empty() {
            // Without a journal the thread that made a change also tells of it. Under the lock they are recorded in
            // order.
            self.witness.record(self.number, &leaving.happened, &inner.partition.totals());
        }
        leaving
    }

    /// Wakes the committer, sends answers and tells the witness. An answer that tells of a new claim and finds no
    /// caller is handed back, and the next holder is answered in turn.
    fn deliver(&self, mut leaving: Leaving) {
        loop {
            if let Some(waker) = leaving.wake.take() {
                waker.wake();
            }
            self.witness.happened(&leaving.happened);
            leaving.happened.clear();
            let mut untold = Vec::new();
            for Told { to, answer, epoch, position, untold: told_of, .. } in leaving.told.drain(..) {
                let stamp = Stamp { partition: self.number, epoch, position };
                if let Err(answered) =
                    to.send(Box::new(Answered { answer, stamp, asked_at: Time::default(), untold: told_of }))
                {
                    untold.extend(answered.untold);
                }
            }
            if untold.is_empty() {
                return leaving.recycle();
            }
            leaving = self.hand_back(&untold);
        }
    }

    fn hand_back(&self, claims: &[ClaimId]) -> Leaving {
        let mut inner = self.lock();
        let clocks = self.clock.read();
        for &claim in claims {
            inner.partition.hand_back(clocks, claim);
        }
        self.after_change(&mut inner)
    }
}

impl Inner {
    /// How to wake the committer if it sleeps. The caller of this function wakes it, once the lock is free.
    fn wake_committer(&mut self) -> Option<Waker> {
        match std::mem::replace(&mut self.committer, Committing::Busy) {
            Committing::Idle(waker) => Some(waker),
            Committing::Busy => None,
        }
    }

    /// The answers and effects that may leave now.
    fn leaving(&mut self) -> Leaving {
        let mut leaving = SPARE.take();
        self.partition.poll_told(&mut leaving.told);
        self.partition.poll_effects(&mut leaving.happened);
        leaving
    }
}

/// Answers and effects, on their way out of the lock.
#[derive(Debug)]
struct Leaving {
    told: Vec<Told<Caller>>,
    happened: Vec<Happened>,
    /// The committer, if there is something for it to do and it sleeps.
    wake: Option<Waker>,
}

impl Default for Leaving {
    fn default() -> Self {
        Leaving::EMPTY
    }
}

thread_local! {
    /// Empty, with the room that the last answers of this thread took.
    static SPARE: Cell<Leaving> = const { Cell::new(Leaving::EMPTY) };
}

/// The most answers or effects that a thread keeps room for.
const SPARE_MAX: usize = 256;

impl Leaving {
    const EMPTY: Leaving = Leaving { told: Vec::new(), happened: Vec::new(), wake: None };

    /// All of it has left. Its room is used again: without a journal every call has one answer and some effects.
    fn recycle(self) {
        if self.told.capacity() <= SPARE_MAX && self.happened.capacity() <= SPARE_MAX {
            SPARE.set(self);
        }
    }

    /// The same for effects that were told after their answers had left.
    fn recycle_effects(mut happened: Vec<Happened>) {
        happened.clear();
        if happened.capacity() <= SPARE_MAX {
            SPARE.set(Leaving { happened, ..SPARE.take() });
        }
    }

    fn is_empty(&self) -> bool {
        self.told.is_empty() && self.happened.is_empty() && self.wake.is_none()
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can be started")
}
