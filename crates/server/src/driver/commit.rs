//! The committer: takes the batch that has gathered, makes it durable, and releases the answers that waited for it.
//! Between appends it works on the checkpoint under way, a slice at a time.
//!
//! Before an append it yields to all other tasks on its thread, and again as long as many more callers join: callers
//! that were answered together ask again together, so a busy service writes once for many. A lone caller waits for no
//! other.
//!
//! Waiting is async and blocking is not, so that the committer can be a task among others (`run`) or the thread that
//! drives the runtime and leaves it to block (`lead`).

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use leasehold_journal::{Batch, CheckpointStart, Room, Store, StoreError};

use super::checkpoint::Checkpointing;
use super::lead::Lead;
use super::pulse::LOOK_EVERY_US;
use super::{Committing, Leaving, Shared};
use crate::sync::{Instant, timeout, yield_now};
use crate::trace;

/// How often the room left in the store is looked at.
const ROOM_EVERY: Duration = Duration::from_secs(1);

/// The longest a change waits for others to join it. Hundreds of callers that were answered together need as long to
/// ask again: with half a millisecond, 256 of them get an eighth less done.
const GATHER_MAX: Duration = Duration::from_millis(2);

/// A turn that adds less than this part of the waiting callers is the last one: they would wait for few others.
const GATHER_PART: usize = 8;

pub(super) struct Committer {
    shared: Arc<Shared>,
    store: Box<dyn Store>,
    checkpointing: Checkpointing,
    /// A checkpoint that is to begin after the append under way.
    starting: Option<CheckpointStart>,
    /// The store has housekeeping to do.
    has_upkeep: bool,
    /// Callers answered by the last append.
    answered: usize,
    /// `None` before the first look, which is the first thing that the upkeep does.
    room_seen_at: Option<Instant>,
    is_low: bool,
}

/// The committer's next work.
enum Work {
    Append(Batch),
    /// No caller waits: time for work in the background.
    Upkeep,
    Done,
}

/// A batch that is durable, and how long that took.
struct Appended {
    batch: Batch,
    took: Duration,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, store: Box<dyn Store>) -> Self {
        let checkpointing = Checkpointing::new(store.as_ref());
        Committer {
            shared,
            store,
            checkpointing,
            starting: None,
            // An earlier process may have left a past that was replaced but not deleted.
            has_upkeep: true,
            answered: 0,
            room_seen_at: None,
            is_low: false,
        }
    }

    /// As a task: it blocks on the thread that runs it.
    pub(super) async fn run(&mut self) -> Result<(), StoreError> {
        let _fuse = Fuse;
        loop {
            match self.next_work().await {
                Work::Append(batch) => {
                    let appended = self.append(batch)?;
                    self.tell(appended).await;
                }
                Work::Upkeep => {}
                Work::Done => return Ok(()),
            }
            self.keep_up()?;
        }
    }

    /// As the thread that drives the runtime: it blocks outside of the runtime, where another thread can take over.
    pub(super) fn lead(&mut self, lead: &Lead) -> Result<(), StoreError> {
        let _fuse = Fuse;
        loop {
            match lead.inside(self.next_work()) {
                Work::Append(batch) => {
                    let appended = self.append(batch)?;
                    lead.inside(self.tell(appended));
                }
                Work::Upkeep => {}
                Work::Done => return Ok(()),
            }
            self.keep_up()?;
        }
    }

    async fn next_work(&mut self) -> Work {
        self.wait().await;
        self.gather().await;
        self.take_work()
    }

    fn has_background(&self) -> bool {
        self.checkpointing.is_under_way() || self.has_upkeep
    }

    /// Waits until there is work.
    async fn wait(&mut self) {
        if self.has_background() {
            // Background work is done in slices for the sake of callers, so they have their turn.
            yield_now().await;
            return;
        }
        let wanted = poll_fn(|cx| {
            let mut inner = self.shared.lock();
            if inner.partition.has_batch() || inner.is_closing {
                return Poll::Ready(());
            }
            inner.committer = Committing::Idle(cx.waker().clone());
            Poll::Pending
        });
        if self.is_low {
            // New work is refused, so nothing may wake the committer; it looks for room by itself.
            let _ = timeout(ROOM_EVERY, wanted).await;
        } else {
            wanted.await;
        }
    }

    /// Yields while each turn lets at least an eighth more callers join the batch. A turn takes as long as the other
    /// tasks have work, and a look at the sockets; the runtime wakes a second thread for it, which a lone caller need
    /// not pay for.
    async fn gather(&mut self) {
        let mut held = self.held();
        if held.max(self.answered) < 2 {
            return;
        }
        let began = Instant::now();
        loop {
            yield_now().await;
            let more = self.held();
            if more < held + (held / GATHER_PART).max(1) || began.elapsed() > GATHER_MAX {
                return;
            }
            held = more;
        }
    }

    fn held(&self) -> usize {
        self.shared.lock().partition.callers().held
    }

    fn take_work(&mut self) -> Work {
        let mut inner = self.shared.lock();
        inner.committer = Committing::Busy;
        let now = self.shared.clock.read();
        let batch = inner.partition.take_batch(now);
        // Closing the store may block as well as writing to it.
        inner.turns += 1;
        inner.is_blocking = true;
        if inner.pulse_at_us > now.mono_us + LOOK_EVERY_US {
            // Otherwise the pulse would notice too late that this takes long.
            inner.pulse_at_us = 0;
            self.shared.pulse.notify_one();
        }
        let Some(batch) = batch else { return if inner.is_closing { Work::Done } else { Work::Upkeep } };
        // Only here is the batch empty, so that the checkpoint ends where this batch does.
        self.starting = self.checkpointing.is_due().then(|| inner.partition.begin_checkpoint(now));
        Work::Append(batch)
    }

    fn append(&mut self, batch: Batch) -> Result<Appended, StoreError> {
        let started = Instant::now();
        trace::commit(batch.last.0 - batch.first.0 + 1, batch.record.len(), || self.store.append(&batch))?;
        let took = started.elapsed();
        self.shared.durable.store(batch.last.0, Ordering::Relaxed);
        self.checkpointing.appended(&batch, self.store.as_ref());
        Ok(Appended { batch, took })
    }

    /// Releases the answers that waited for an append.
    async fn tell(&mut self, Appended { batch, took }: Appended) {
        let (mut leaving, totals) = {
            let mut inner = self.shared.lock();
            inner.partition.append_done(self.shared.clock.read());
            // Time that stood still for the append goes on, so a deadline may come sooner than the pulse expects.
            self.shared.rouse_pulse(&inner);
            (inner.leaving(), inner.partition.totals())
        };
        self.answered = leaving.told.len();
        let happened = std::mem::take(&mut leaving.happened);
        // Callers come first, then the witness, in order: no other thread tells of this append.
        self.shared.deliver(leaving);
        self.shared.witness.happened(&happened);
        self.shared.witness.record(self.shared.number, &happened, &totals);
        self.shared.witness.appended(batch.last.0 - batch.first.0 + 1, batch.record.len(), took);
        Leaving::recycle_effects(happened);
        if self.has_background() || self.starting.is_some() {
            // Their answers leave before background work goes on.
            yield_now().await;
        }
    }

    /// A slice of background work.
    fn keep_up(&mut self) -> Result<(), StoreError> {
        if let Some(start) = self.starting.take() {
            self.checkpointing.begin(start, self.store.as_mut())?;
        }
        self.checkpointing.step(&self.shared, self.store.as_mut())?;
        self.has_upkeep = self.store.maintain()?;
        if self.room_seen_at.is_none_or(|seen_at| seen_at.elapsed() >= ROOM_EVERY) {
            self.look_at_room();
        }
        self.shared.lock().is_blocking = false;
        Ok(())
    }

    fn look_at_room(&mut self) {
        self.room_seen_at = Some(Instant::now());
        let is_low = match self.store.room() {
            Room::Enough => false,
            Room::Low { left_bytes } => {
                if !self.is_low {
                    let left_mib = left_bytes / (1024 * 1024);
                    tracing::error!(left_mib, "the store is nearly full: new claims are refused until there is room");
                }
                true
            }
        };
        if is_low != self.is_low {
            self.is_low = is_low;
            self.shared.lock().partition.set_store_full(is_low);
        }
        self.shared.witness.store(self.shared.number, self.store.sizes(), self.store.syncs(), is_low);
    }
}

/// A committer that panicked has left half a step behind, and no other thread would commit: stopping is better than
/// hanging.
struct Fuse;

impl Drop for Fuse {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!("the committer failed; stopping, the journal has what was acknowledged");
            std::process::abort();
        }
    }
}
