//! The latest events and their readers.
//!
//! ```text
//!  committer ─ push ─▶ Ring ─ bell ─▶ Reader (a cursor, a filter) ─ frames ─▶ socket
//! ```
//!
//! The ring is every reader's queue: a reader takes as many events as its socket has room for, and is cut when the ring
//! has moved on past its cursor. So a slow reader costs nothing, and a new event costs the same for any number of
//! readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_engine::{Totals, Wall};
use leasehold_journal::{Epoch, Happened, History, Position};
use tokio::sync::{Notify, Semaphore};

use super::ring::Ring;
use super::series::{Series, Window};
use crate::http::Shares;
use crate::limits::PAGE_BYTES_MAX;
use crate::limits::READERS_MAX;
use crate::metrics::Counts;

/// Events looked at under the ring's lock in one go: a fraction of a millisecond.
pub(crate) const SCAN_MAX: usize = 2_048;

#[derive(Debug)]
pub(crate) struct Events {
    kept: Mutex<Kept>,
    /// Rung when something was pushed, or the end has come.
    pub(crate) bell: Notify,
    /// One permit a reader.
    pub(crate) readers: Arc<Semaphore>,
    /// How many of them one address may have.
    pub(crate) shares: Shares,
    is_closed: AtomicBool,
}

/// All kept events, under one lock: it is taken for every batch.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) ring: Ring,
    series: Series,
    counts: Counts,
}

/// The events of a resource, as far back as requested and known.
#[derive(Debug)]
pub(crate) struct Past {
    /// Oldest first.
    pub(crate) events: Vec<Happened>,
    /// No later event is missing.
    pub(crate) complete_since: Wall,
}

impl Events {
    pub(crate) fn new(events_kept: usize) -> Self {
        Events {
            kept: Mutex::new(Kept { ring: Ring::new(events_kept), series: Series::new(), counts: Counts::default() }),
            bell: Notify::new(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            shares: Shares::of(u32::try_from(READERS_MAX).expect("a thousand fits")),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn begin(&self, epoch: Epoch, head: Position, history: History, wall: Wall) {
        self.kept().ring.begin(epoch, head, history, wall);
    }

    /// In the order of the journal.
    pub(crate) fn push(&self, happened: &[Happened], totals: &Totals) {
        {
            let mut kept = self.kept();
            kept.series.push(happened, totals);
            let dropped: u64 = happened.iter().map(|one| kept.ring.push(one.clone())).sum();
            kept.counts.told += happened.len() as u64;
            kept.counts.dropped += dropped;
        }
        // A reader that comes now has not looked yet.
        if self.readers() > 0 {
            self.bell.notify_waiters();
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.kept().counts
    }

    pub(crate) fn window(&self, now: Wall, totals: &Totals) -> Window {
        self.kept().series.window(now, totals)
    }

    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    /// Returns whether the service is about to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The number of readers.
    pub(crate) fn readers(&self) -> usize {
        READERS_MAX - self.readers.available_permits()
    }

    /// Since when nothing is missing.
    pub(crate) fn complete_since(&self) -> Wall {
        self.kept().ring.complete_since()
    }

    /// The newest of those that are `wanted` and not older than `since`, at most `limit` and as many as fit on a page.
    pub(crate) fn past(&self, since: Wall, limit: usize, wanted: impl Fn(&Happened) -> bool) -> Past {
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut before = Position(u64::MAX);
        let mut complete_since = self.complete_since().max(since);
        // In slices, as the committer needs the ring in between.
        'slices: loop {
            let kept = self.kept();
            let Some(slice) = kept.ring.read_back(before, SCAN_MAX) else { break };
            for happened in slice {
                before = happened.position;
                if happened.wall < since {
                    break 'slices;
                }
                if wanted(happened) {
                    bytes += len_of(happened);
                    if events.len() == limit || bytes > PAGE_BYTES_MAX {
                        complete_since = events.last().map_or(since, |oldest: &Happened| oldest.wall);
                        break 'slices;
                    }
                    events.push(happened.clone());
                }
            }
        }
        events.reverse();
        Past { events, complete_since }
    }

    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        // Every step under this lock is whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how long an event is.
fn len_of(happened: &Happened) -> usize {
    let name_len = happened.effect.resource.name().map_or(32, |name| name.len());
    let client_len = happened.effect.client.as_ref().map_or(0, |client| client.len());
    // In a key and a name; a lock that changes hands tells of two clients.
    400 + 2 * name_len + 2 * client_len
}
