//! The partition's driver: the threads, clocks and store around `leasehold_journal::Partition`.
//!
//! ```text
//!  tokio workers            committer thread                       pulse thread
//!  ─────────────            ────────────────                       ────────────
//!  lock, submit, unlock ──▶ lock, take batch, unlock               lock, tick, unlock
//!  await the answer         append (blocks, durable)               sleep until the next deadline
//!        ▲                  lock, append_done, unlock
//!        └───────────────── send the answers
//! ```
//!
//! Requests run the engine on the thread they arrive on, under one short lock, so the next batch fills while the last
//! is being written. No lock is held across IO or while answers are sent. The driver is the only reader of clocks (`clock`).

mod checkpoint;
mod clock;
mod commit;
mod handle;
mod pulse;
#[cfg(test)]
mod seams;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use leasehold_engine::{ClaimId, Effect};
use leasehold_journal::{Epoch, Partition, PartitionLimits, Recovery, StoreError, Told};
use tokio::sync::watch;

pub use clock::Clock;
pub use handle::{Answered, Handle};

use crate::observe::Observer;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, MutexGuard, Runtime, oneshot};

/// A running partition. Dropping it without `shut_down` leaves what was not yet appended unwritten.
#[derive(Debug)]
pub struct Driver {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    failed: watch::Receiver<Option<Arc<StoreError>>>,
}

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    /// There is something to append; the committer waits here.
    work: Condvar,
    /// A deadline came nearer than the pulse sleeps; the pulse waits here.
    pulse: Condvar,
    clock: Clock,
    observer: Arc<Observer>,
    runtime: Runtime,
    epoch: Epoch,
    /// The last durable position, for whoever does not need the lock to know.
    durable: AtomicU64,
}

/// How a caller is answered.
type Caller = oneshot::Sender<Answered>;

#[derive(Debug)]
struct Inner {
    partition: Partition<Caller>,
    committer: Committing,
    /// When the pulse will run by itself, on the monotonic clock.
    pulse_at_us: u64,
    /// Tasks of the runtime that are handing answers out. What they find nobody to take has to be handed back, so the
    /// committer does not end before them.
    deliveries: usize,
    is_closing: bool,
}

/// What the committer does, and so when to wake it.
#[derive(Clone, Copy, Debug)]
enum Committing {
    Busy,
    /// It waits for the first change.
    Idle,
    /// It gives the callers it just answered a moment to ask again: so many of them.
    Gathering {
        callers: usize,
    },
}

impl Driver {
    /// Goes on from what was recovered and starts serving callers on the runtime it is called from.
    pub fn start(recovery: Recovery, limits: PartitionLimits, observer: Arc<Observer>, clock: Clock) -> Driver {
        let Recovery { engine, store, epoch, head, at, partition: number, .. } = recovery;
        let mut partition = Partition::new(engine, number, epoch, head, at, limits, clock.read());
        if store.is_forgetful() {
            partition.stop_journaling();
        }
        let shared = Arc::new(Shared {
            inner: Mutex::new(Inner {
                partition,
                committer: Committing::Busy,
                pulse_at_us: 0,
                deliveries: 0,
                is_closing: false,
            }),
            work: Condvar::new(),
            pulse: Condvar::new(),
            clock,
            observer,
            runtime: Runtime::current(),
            epoch,
            durable: AtomicU64::new(head.0),
        });
        let (fail, failed) = watch::channel(None);
        let committer = commit::Committer::new(Arc::clone(&shared), store);
        let threads = vec![
            spawn("leasehold-commit", move || {
                if let Err(error) = committer.run() {
                    fail.send_replace(Some(Arc::new(error)));
                }
            }),
            spawn("leasehold-pulse", {
                let shared = Arc::clone(&shared);
                move || pulse::run(&shared)
            }),
        ];
        Driver { shared, threads, failed }
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

    /// Turns new callers away and answers the parked ones. What was said before is still appended and answered.
    pub fn close(&self) {
        let leaving = {
            let mut inner = self.shared.lock();
            let clocks = self.shared.clock.read();
            inner.partition.shut_down(clocks);
            self.shared.after_change(&mut inner)
        };
        self.shared.deliver(leaving);
    }

    /// Flushes and ends the threads. `close` comes first.
    pub fn shut_down(self) -> Result<(), Arc<StoreError>> {
        {
            let mut inner = self.shared.lock();
            inner.is_closing = true;
            self.shared.work.notify_all();
            self.shared.pulse.notify_all();
        }
        for thread in self.threads {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a thread of the partition panicked");
            }
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

    /// After anything was asked of the partition: wakes whoever has to act on it, and takes out what may leave.
    fn after_change(&self, inner: &mut Inner) -> Leaving {
        let is_wanted = match inner.committer {
            Committing::Busy => false,
            Committing::Idle => inner.partition.has_batch(),
            Committing::Gathering { callers } => inner.partition.callers().held >= callers,
        };
        if is_wanted {
            inner.committer = Committing::Busy;
            self.work.notify_one();
        }
        if inner.partition.next_wake().is_some_and(|wake_us| wake_us < inner.pulse_at_us) {
            self.pulse.notify_one();
        }
        inner.leaving()
    }

    /// Sends answers and tells of what happened. An answer that tells of a new claim and finds nobody is handed back,
    /// and whoever gets it then is answered in turn.
    fn deliver(&self, mut leaving: Leaving) {
        loop {
            self.observer.happened(leaving.effects.drain(..));
            let mut untold = Vec::new();
            for Told { to, answer, epoch, position, untold: told_of } in leaving.told.drain(..) {
                if let Err(answered) = to.send(Answered { answer, epoch, position, untold: told_of }) {
                    untold.extend(answered.untold);
                }
            }
            if untold.is_empty() {
                return;
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
    /// What may leave now.
    fn leaving(&mut self) -> Leaving {
        let mut leaving = Leaving::default();
        self.partition.poll_told(&mut leaving.told);
        self.partition.poll_effects(&mut leaving.effects);
        leaving
    }
}

/// Counted while a task hands answers out, and also if the runtime drops it.
#[derive(Debug)]
struct Delivery {
    shared: Arc<Shared>,
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        inner.deliveries -= 1;
        if inner.is_closing {
            self.shared.work.notify_one();
        }
    }
}

/// Answers and effects on their way out of the lock.
#[derive(Debug, Default)]
struct Leaving {
    told: Vec<Told<Caller>>,
    effects: Vec<Effect>,
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).expect("a thread can be started")
}
