//! Durable changes, kept for observers: the ring of events, series, surveys, digests; and counted and logged. Changes
//! come in on the committer's thread, so that part is brief, and words are made there only if a reader wants them. The
//! face (`faces/watch`) parses the requests of observers and shows the data.
//!
//! ```text
//!  committer ── happened ──▶ log, metrics
//!            └─ record ────▶ events: Ring, Series ──▶ readers, each with a cursor in the ring
//! ```
//!
//! Pools appear nowhere here under their id, which is a credential: they have a digest (`digest`) or no name at all.

pub(crate) mod bookmark;
pub(crate) mod digest;
mod events;
pub(crate) mod frozen;
pub(crate) mod key;
pub(crate) mod label;
mod log;
pub(crate) mod lookouts;
pub(crate) mod ring;
pub(crate) mod series;
pub(crate) mod survey;

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_engine::{Kind, Totals, Wall};
use leasehold_journal::{Happened, Position, Sizes};
use tokio::sync::Semaphore;

use crate::driver::{Beginning, Witness};
use crate::limits::SURVEYS_MAX;
use crate::metrics::Metrics;
use digest::Digester;
pub(crate) use events::{Events, Past, Placed, SCAN_MAX, in_time};

#[derive(Debug)]
pub struct Observer {
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    /// Permits to go over all resources.
    pub(crate) surveys: Semaphore,
    /// Orders of lists that are paged through.
    pub(crate) frozen: frozen::Frozen<survey::Wanted>,
    digester: OnceLock<Digester>,
    /// Renewals of locks are logged like their other changes, and not only at `debug`.
    logs_renewals: bool,
}

impl Default for Observer {
    fn default() -> Self {
        Observer::new(crate::Settings::default().events_kept)
    }
}

impl Observer {
    /// Keeps the last `events_kept` events for readers that come later.
    pub fn new(events_kept: usize) -> Self {
        Observer::of_many(events_kept, 1)
    }

    /// The same for a service with so many partitions, which share the room for events.
    pub fn of_many(events_kept: usize, partitions: u32) -> Self {
        Observer {
            metrics: Metrics::of_many(partitions),
            events: Events::new(events_kept, partitions),
            surveys: Semaphore::new(SURVEYS_MAX),
            frozen: frozen::Frozen::new(),
            digester: OnceLock::new(),
            logs_renewals: false,
        }
    }

    /// The same, with a line at `info` also for every renewal of a lock.
    #[must_use]
    pub fn logging_renewals(self, logs_renewals: bool) -> Self {
        Observer { logs_renewals, ..self }
    }

    pub(crate) fn digester(&self) -> &Digester {
        self.digester.get().expect("no caller is served before the partition has started")
    }

    /// Until when the certificate in use is valid, in seconds since 1970.
    pub fn certificate_ends(&self, not_after_s: u64) {
        self.metrics.connections.certificate_ends.set(not_after_s);
    }

    /// The callers that sleep until something happens to a lock.
    pub fn lookouts(&self) -> usize {
        self.events.lookouts.parked()
    }

    /// Updates the metrics that are counted elsewhere.
    pub(crate) fn count_events(&self) {
        self.metrics.events.count(self.events.readers(), self.lookouts(), self.events.counts());
    }
}

impl Witness for Observer {
    fn begin(&self, beginning: Beginning) {
        let Beginning { partition, epoch, head, history, secret, wall } = beginning;
        self.digester.get_or_init(|| Digester::new(secret.unwrap_or_else(rand::random)));
        self.metrics.process.begin(wall);
        self.events.begin(partition, epoch, head, history, wall);
    }

    /// Streams end, so that none holds up the end.
    fn close(&self) {
        self.events.close();
    }

    fn join(&self, partitions: u32, secret: [u8; 32], wall: Wall) {
        self.events.follow(partitions);
        self.digester.get_or_init(|| Digester::new(secret));
        self.metrics.process.begin(wall);
    }

    fn gap(&self, partition: u32, upto: Position, wall: Wall) {
        self.events.gap(partition, upto, wall);
    }

    fn appended(&self, changes: u64, bytes: usize, took: Duration) {
        self.metrics.batch(changes, bytes, took);
    }

    /// The store as it was just looked at.
    fn store(&self, partition: u32, sizes: Sizes, syncs: u64, is_low: bool) {
        self.metrics.store(partition, sizes, syncs, is_low);
    }

    fn checkpointed(&self) {
        self.metrics.checkpointed();
    }

    /// Counted and logged, in any order.
    fn happened(&self, happened: &[Happened]) {
        for Happened { effect, .. } in happened {
            self.metrics.effect(effect);
            match effect.resource.kind() {
                // Few and precious: people follow these in the log.
                Kind::Lock => log::lock(effect, self.logs_renewals),
                Kind::Pool | Kind::Claim => log::quietly(effect),
            }
        }
    }

    /// Kept for observers. To be called in the order of each partition's journal.
    fn record(&self, partition: u32, happened: &[Happened], totals: &Totals) {
        if !happened.is_empty() {
            self.events.push(partition, happened, totals);
        }
    }
}
