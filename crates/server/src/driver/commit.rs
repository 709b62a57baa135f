//! The committer: takes what has gathered, makes it durable, and lets go of the answers that waited for it. The next
//! batch fills meanwhile. Between appends it works on the checkpoint under way, a slice at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_journal::{Batch, CheckpointStart, Room, Store, StoreError};

use super::checkpoint::Checkpointing;
use super::{Committing, Delivery, Inner, Leaving, Shared};
use crate::sync::{Instant, MutexGuard};

/// How often the room left in the store is looked at.
const ROOM_EVERY: Duration = Duration::from_secs(1);

/// Below this many callers every answer is worth a write of its own.
const GATHER_FROM: usize = 8;
/// The longest a change waits for others to join it. A fraction of a millisecond: less than the write it saves.
const GATHER_MAX: Duration = Duration::from_micros(500);

pub(super) struct Committer {
    shared: Arc<Shared>,
    store: Box<dyn Store>,
    checkpointing: Checkpointing,
    /// The store has housekeeping to do.
    has_upkeep: bool,
    /// Callers answered by the last append.
    answered: usize,
    room_seen_at: Instant,
    is_low: bool,
}

/// What the committer found to do.
enum Work {
    Append {
        batch: Batch,
        checkpoint: Option<CheckpointStart>,
    },
    /// Nobody waits: time for what is under way in the background.
    Upkeep,
    Done,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, store: Box<dyn Store>) -> Self {
        let checkpointing = Checkpointing::new(store.as_ref());
        Committer {
            shared,
            store,
            checkpointing,
            // An earlier process may have left a past that was replaced but not deleted.
            has_upkeep: true,
            answered: 0,
            room_seen_at: Instant::now(),
            is_low: false,
        }
    }

    pub(super) fn run(mut self) -> Result<(), StoreError> {
        self.look_at_room();
        loop {
            match self.next_work() {
                Work::Append { batch, checkpoint } => {
                    self.append(&batch)?;
                    self.checkpointing.appended(&batch, self.store.as_ref());
                    if let Some(start) = checkpoint {
                        self.checkpointing.begin(start, self.store.as_mut())?;
                    }
                }
                Work::Upkeep => {}
                Work::Done => return Ok(()),
            }
            self.checkpointing.step(&self.shared, self.store.as_mut())?;
            self.has_upkeep = self.store.maintain()?;
            if self.room_seen_at.elapsed() >= ROOM_EVERY {
                self.look_at_room();
            }
        }
    }

    fn next_work(&mut self) -> Work {
        let shared = Arc::clone(&self.shared);
        let mut inner = self.gather(shared.lock(), &shared);
        loop {
            if let Some(batch) = inner.partition.take_batch(shared.clock.read()) {
                // Only here is the batch empty, so that the checkpoint ends where this batch does.
                let checkpoint =
                    self.checkpointing.is_due().then(|| inner.partition.begin_checkpoint(shared.clock.read()));
                return Work::Append { batch, checkpoint };
            }
            if inner.is_closing && inner.deliveries == 0 {
                return Work::Done;
            }
            if self.checkpointing.is_under_way() || self.has_upkeep {
                return Work::Upkeep;
            }
            inner.committer = Committing::Idle;
            if self.is_low {
                // Nothing may come that wakes us, as new work is refused, so room is looked for by itself.
                let Ok((mut inner, _)) = shared.work.wait_timeout(inner, ROOM_EVERY) else { return Work::Done };
                inner.committer = Committing::Busy;
                return Work::Upkeep;
            }
            match shared.work.wait(inner) {
                Ok(woken) => inner = woken,
                Err(_) => return Work::Done,
            }
        }
    }

    /// Callers that were answered together are about to ask again together. A batch that waits for most of them is one
    /// write where there would be three, each small; nothing waits when few callers are there.
    fn gather<'a>(&mut self, mut inner: MutexGuard<'a, Inner>, shared: &'a Shared) -> MutexGuard<'a, Inner> {
        let about = std::mem::take(&mut self.answered) + inner.partition.callers().held;
        let callers = about * 3 / 4;
        if callers < GATHER_FROM {
            return inner;
        }
        let until = Instant::now() + GATHER_MAX;
        while inner.partition.callers().held < callers && !inner.is_closing {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            inner.committer = Committing::Gathering { callers };
            match shared.work.wait_timeout(inner, rest) {
                Ok((woken, _)) => inner = woken,
                Err(poisoned) => return poisoned.into_inner().0,
            }
        }
        inner.committer = Committing::Busy;
        inner
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let started = Instant::now();
        self.store.append(batch)?;
        let took = started.elapsed();
        self.shared.durable.store(batch.last.0, Ordering::Relaxed);
        let leaving = {
            let mut inner = self.shared.lock();
            inner.partition.append_done(self.shared.clock.read());
            let leaving = inner.leaving();
            inner.deliveries += usize::from(leaving.told.len() > 1);
            leaving
        };
        self.answer(leaving);
        self.shared.observer.appended(batch, took);
        Ok(())
    }

    /// Waking callers one by one from this thread costs a switch each; from a thread of the runtime they just queue up
    /// behind one another. Effects are told here, in order.
    fn answer(&mut self, mut leaving: Leaving) {
        self.answered = leaving.told.len();
        let effects = std::mem::take(&mut leaving.effects);
        if self.answered > 1 {
            let delivery = Delivery { shared: Arc::clone(&self.shared) };
            self.shared.runtime.spawn(async move { delivery.shared.deliver(leaving) });
        } else {
            self.shared.deliver(leaving);
        }
        self.shared.observer.happened(effects.into_iter());
    }

    fn look_at_room(&mut self) {
        self.room_seen_at = Instant::now();
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
        self.shared.observer.store(self.store.sizes(), self.store.syncs(), is_low);
    }
}
