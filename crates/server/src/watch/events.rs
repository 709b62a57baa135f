//! The latest events and their readers.
//!
//! ```text
//!  committer ─ push ─▶ Ring ─ bell ─▶ EventReader (a cursor, a filter) ─ frames ─▶ socket
//! ```
//!
//! A partition has a ring. The rings are every reader's queue: a reader takes as many events as its socket has room
//! for, and is cut when the ring has moved on past its cursor. So a slow reader costs nothing, and a new event costs
//! the same for any number of readers.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_engine::{Totals, Wall};
use leasehold_journal::{Epoch, Happened, Position, Retold};
use tokio::sync::{Notify, Semaphore};

use super::bookmark::EventPlace;
use super::lookouts::Lookouts;
use super::ring::{EventId, Ring};
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
    /// Callers that are rung when something happened to their lock.
    pub(crate) lookouts: Lookouts,
    is_closed: AtomicBool,
}

/// All kept events, under one lock: it is taken for every batch.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The most events of all partitions together.
    events_max: usize,
    /// By partition.
    pub(crate) rings: Vec<Ring>,
    /// The last totals of each partition.
    totals: Vec<Totals>,
    series: Series,
    counts: Counts,
}

/// Something that happened, and in which partition.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    /// Named where there are several.
    pub(crate) partition: Option<u32>,
    pub(crate) happened: Happened,
}

impl Placed {
    /// Its own id.
    pub(crate) fn mark(&self) -> EventPlace {
        EventPlace { partition: self.partition, id: EventId::of(&self.happened) }
    }
}

/// The events of a resource, as far back as requested and known.
#[derive(Debug)]
pub(crate) struct Past {
    /// Oldest first.
    pub(crate) events: Vec<Placed>,
    /// No later event is missing.
    pub(crate) complete_since: Wall,
}

impl Events {
    pub(crate) fn new(events_kept: usize, partitions: u32) -> Self {
        let kept = Kept {
            events_max: events_kept,
            rings: (0..partitions).map(|_| Ring::new(share(events_kept, partitions))).collect(),
            totals: vec![Totals::default(); partitions as usize],
            series: Series::new(),
            counts: Counts::default(),
        };
        Events {
            kept: Mutex::new(kept),
            bell: Notify::new(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
            shares: Shares::of(u32::try_from(READERS_MAX).expect("a thousand fits")),
            lookouts: Lookouts::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn begin(&self, partition: u32, epoch: Epoch, head: Position, history: Retold, wall: Wall) {
        self.kept().rings[partition as usize].begin(epoch, head, history, wall);
    }

    /// The events of so many partitions follow, whose owners may change.
    pub(crate) fn follow(&self, partitions: u32) {
        let mut kept = self.kept();
        let events_max = share(kept.events_max, partitions);
        kept.rings = (0..partitions).map(|_| Ring::following(events_max)).collect();
        kept.totals = vec![Totals::default(); partitions as usize];
    }

    /// Nothing is known of this partition up to here.
    pub(crate) fn gap(&self, partition: u32, upto: Position, wall: Wall) {
        self.kept().rings[partition as usize].skip(upto, wall);
        self.bell.notify_waiters();
        self.lookouts.tell_all();
    }

    /// In the order of the partition's journal.
    pub(crate) fn push(&self, partition: u32, happened: &[Happened], totals: &Totals) {
        {
            let mut kept = self.kept();
            kept.count(partition, happened, totals);
            let ring = &mut kept.rings[partition as usize];
            let dropped: u64 = happened.iter().map(|one| ring.push(one.clone())).sum();
            kept.counts.told += happened.len() as u64;
            kept.counts.dropped += dropped;
        }
        // A reader that comes now has not looked yet.
        if self.readers() > 0 {
            self.bell.notify_waiters();
        }
        self.lookouts.tell(happened);
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
        self.lookouts.tell_all();
    }

    /// Returns whether the service is about to end.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// The number of readers.
    pub(crate) fn readers(&self) -> usize {
        READERS_MAX - self.readers.available_permits()
    }

    /// Since when nothing of this partition is missing.
    pub(crate) fn complete_since(&self, partition: u32) -> Wall {
        self.kept().rings[partition as usize].complete_since()
    }

    /// The newest of those that are `wanted` and not older than `since`, at most `limit` and as many as fit on a page.
    pub(crate) fn past(
        &self,
        partitions: Range<u32>,
        since: Wall,
        limit: usize,
        wanted: impl Fn(&Happened) -> bool,
    ) -> Past {
        let pasts = partitions.map(|partition| self.past_of(partition as usize, since, limit, &wanted));
        let pasts: Vec<Past> = pasts.collect();
        pasts.into_iter().reduce(|one, other| one.beside(other, limit)).expect("a service has a partition")
    }

    fn past_of(&self, partition: usize, since: Wall, limit: usize, wanted: &impl Fn(&Happened) -> bool) -> Past {
        let mut events = Vec::new();
        let mut bytes = 0;
        let mut before = Position(u64::MAX);
        let mut complete_since = self.kept().rings[partition].complete_since().max(since);
        // In slices, as the committer needs the ring in between.
        'slices: loop {
            let kept = self.kept();
            let name = kept.name(partition);
            let Some(slice) = kept.rings[partition].read_back(before, SCAN_MAX) else { break };
            for happened in slice {
                before = happened.position;
                if happened.wall < since {
                    break 'slices;
                }
                if wanted(happened) {
                    bytes += len_of(happened);
                    if events.len() == limit || bytes > PAGE_BYTES_MAX {
                        complete_since = events.last().map_or(since, |oldest: &Placed| oldest.happened.wall);
                        break 'slices;
                    }
                    events.push(Placed { partition: name, happened: happened.clone() });
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

impl Kept {
    /// A partition is named where there are several.
    pub(crate) fn name(&self, partition: usize) -> Option<u32> {
        (self.rings.len() > 1).then(|| u32::try_from(partition).expect("there are at most 4096"))
    }

    fn count(&mut self, partition: u32, happened: &[Happened], totals: &Totals) {
        if self.rings.len() == 1 {
            self.series.push(happened, totals);
            return;
        }
        self.totals[partition as usize] = *totals;
        self.series.push(happened, &self.totals.iter().copied().sum());
    }
}

impl Past {
    /// Two pasts as one, with the newest events of both: the rest of a page may be missing, which the time says.
    fn beside(self, other: Past, limit: usize) -> Past {
        let mut complete_since = self.complete_since.max(other.complete_since);
        let mut events = in_time(vec![self.events.into(), other.events.into()]);
        let mut bytes = 0;
        let fitting = events.iter().rev().take(limit).take_while(|event| {
            bytes += len_of(&event.happened);
            bytes <= PAGE_BYTES_MAX
        });
        let gone = events.len() - fitting.count();
        if gone > 0 {
            events.drain(..gone);
            complete_since = events.first().map_or(complete_since, |oldest| oldest.happened.wall.max(complete_since));
        }
        Past { events, complete_since }
    }
}

/// The events of several partitions as one sequence: each partition's in its own order, and between partitions by the
/// wall clock.
pub(crate) fn in_time(mut partitions: Vec<VecDeque<Placed>>) -> Vec<Placed> {
    let mut all = Vec::with_capacity(partitions.iter().map(VecDeque::len).sum());
    loop {
        let next = partitions.iter_mut().filter(|events| !events.is_empty());
        let Some(events) = next.min_by_key(|events| events[0].happened.wall) else { return all };
        all.extend(events.pop_front());
    }
}

/// The events that each of so many partitions may keep.
fn share(events_kept: usize, partitions: u32) -> usize {
    (events_kept / partitions as usize).max(1)
}

/// About how long an event is.
fn len_of(happened: &Happened) -> usize {
    let name_len = happened.effect.resource.name().map_or(32, |name| name.len());
    let client_len = happened.effect.client.as_ref().map_or(0, |client| client.len());
    // In a key and a name; a lock that changes hands tells of two clients.
    400 + 2 * name_len + 2 * client_len
}
