//! Durable changes and their observers: the log, metrics, events, and the endpoints that show the state of the service.
//! Changes come in on the committer's thread, so that part is brief, and words are made there only if a reader wants
//! them.
//!
//! ```text
//!  committer ── happened ──▶ log, metrics            GET /v1/observe/…  ─▶ `list`, `detail`: the engine, slice by slice
//!            └─ record ────▶ events::Ring, Series    GET /v1/events     ─▶ events::Reader, a cursor in the ring
//! ```
//!
//! Pools appear nowhere here under their id, which is a credential: they have a digest (`digest`) or no name at all.

mod detail;
pub(crate) mod digest;
mod frozen;
pub(crate) mod key;
mod label;
mod list;
mod log;
pub(crate) mod openapi;
mod routes;
pub(crate) mod series;

use std::sync::OnceLock;
use std::time::Duration;

use leasehold_engine::{Kind, Totals};
use leasehold_journal::{Batch, Happened, Sizes};
use tokio::sync::Semaphore;

use crate::driver::{Beginning, Witness};
use crate::events::Events;
use crate::metrics::Metrics;
use digest::Digester;
pub(crate) use routes::{Action, Asked, answer, endpoints, parse};

#[derive(Debug)]
pub struct Observer {
    pub(crate) metrics: Metrics,
    pub(crate) events: Events,
    /// Permits to go over all resources.
    surveys: Semaphore,
    /// Orders of lists that are paged through.
    frozen: frozen::Frozen<list::Wanted>,
    digester: OnceLock<Digester>,
}

impl Default for Observer {
    fn default() -> Self {
        Observer::new(crate::Settings::default().events_kept)
    }
}

impl Observer {
    /// Keeps the last `events_kept` events for readers that come later.
    pub fn new(events_kept: usize) -> Self {
        Observer {
            metrics: Metrics::default(),
            events: Events::new(events_kept),
            surveys: Semaphore::new(list::SURVEYS_MAX),
            frozen: frozen::Frozen::new(),
            digester: OnceLock::new(),
        }
    }

    pub(crate) fn digester(&self) -> &Digester {
        self.digester.get().expect("nobody is served before the partition has started")
    }

    /// Until when the certificate in use is valid, in seconds since 1970.
    pub fn certificate_ends(&self, not_after_s: u64) {
        self.metrics.connections.certificate_ends.set(not_after_s);
    }

    /// Updates the metrics that are counted elsewhere.
    pub(crate) fn count_events(&self) {
        self.metrics.events.count(self.events.readers(), self.events.counts());
    }
}

impl Witness for Observer {
    fn begin(&self, beginning: Beginning) {
        let Beginning { epoch, head, history, secret, wall } = beginning;
        self.digester.get_or_init(|| Digester::new(secret.unwrap_or_else(rand::random)));
        self.events.begin(epoch, head, history, wall);
    }

    /// Streams end, so that none holds up the end.
    fn close(&self) {
        self.events.close();
    }

    fn appended(&self, batch: &Batch, took: Duration) {
        let changes = batch.last.0 - batch.first.0 + 1;
        self.metrics.batch(changes, batch.record.len(), took);
    }

    /// The store as it was just looked at.
    fn store(&self, sizes: Sizes, syncs: u64, is_low: bool) {
        self.metrics.store(sizes, syncs, is_low);
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
                Kind::Lock => log::lock(effect),
                Kind::Pool | Kind::Claim => log::quietly(effect),
            }
        }
    }

    /// Kept for observers. To be called in the order of the journal.
    fn record(&self, happened: &[Happened], totals: &Totals) {
        if !happened.is_empty() {
            self.events.push(happened, totals);
        }
    }
}
