//! Numbers for machines to watch, in Prometheus' text formats. Labels are kinds, dialects, statuses and endings, never
//! names or ids, so their number is fixed when the program is written. `docs/operations.md` explains each one to an
//! operator; nothing on the path of a request takes a lock in here.

mod classic;
mod cluster;
mod grid;
mod histogram;
mod process;
mod requests;
mod sign_ins;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use leasehold_engine::{Effect, Ending, Kind, What};
use leasehold_journal::Sizes;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter as Counted;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge as Measured;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

pub(crate) use classic::{CLASSIC_TYPE, OPENMETRICS_TYPE, accepts_openmetrics, classic};
pub(crate) use cluster::cluster_lines;
use grid::Grid;
use histogram::Histogram;
pub(crate) use process::Process;
use requests::RequestFamilies;
pub(crate) use requests::{FaceLabels, Requests};
pub(crate) use sign_ins::SignIns;

use crate::driver::Readings;
use crate::http::Unsent;

type Counter = Counted<u64, AtomicU64>;
type Gauge = Measured<u64, AtomicU64>;
/// For seconds.
type FloatGauge = Measured<f64, AtomicU64>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndingLabels {
    kind: &'static str,
    how: &'static str,
}

#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// The store of each partition as it was last looked at: its sizes, its syncs, and whether it is nearly full.
    stores: Mutex<Vec<(Sizes, u64, bool)>>,
    pub(crate) process: Process,
    requests: RequestFamilies,
    pub(crate) sign_ins: SignIns,
    pub(crate) connections: Connections,
    pub(crate) events: EventMetrics,

    // The changes of claims.
    grants: PerKind<Counter>,
    waits: PerKind<Counter>,
    renewals: PerKind<Counter>,
    expiries: PerKind<Counter>,
    endings: Grid<EndingLabels, { Ending::ALL.len() }>,
    wait: PerKind<Histogram>,
    hold: PerKind<Histogram>,
    expiry_lateness: Histogram,

    // The store.
    commit: Histogram,
    batch_changes: Histogram,
    journal_bytes: Counter,
    fsyncs: Counter,
    checkpoints: Counter,
    tail_bytes: Gauge,
    checkpoint_bytes: Gauge,
    file_bytes: Gauge,
    store_low: Gauge,

    // Read when the metrics are scraped.
    holders: PerKind<Gauge>,
    waiters: PerKind<Gauge>,
    resources: PerKind<Gauge>,
    paused: PerKind<Gauge>,
    out_of_service: PerKind<Gauge>,
    oldest_waiter: PerKind<FloatGauge>,
    longest_queue: PerKind<Gauge>,
    retained: Gauge,
    state_bytes: Gauge,
    state_bytes_max: Gauge,
    unsent_bytes: Gauge,
    unsent_bytes_max: Gauge,
    held_answers: Gauge,
    oldest_held_seconds: FloatGauge,
    parked_callers: Gauge,
    uncharged_seconds: Counted<f64, AtomicU64>,
    epoch: Gauge,
    waiters_max: Gauge,
}

/// Connections of all listeners.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) open: Gauge,
    pub(crate) accepted: Counter,
    /// Turned away because there were too many.
    pub(crate) refused: Counter,
    pub(crate) max: Gauge,
    /// Those that came to nothing before TLS was agreed on.
    pub(crate) no_handshake: Counter,
    /// Until when our certificate is valid, in seconds since 1970.
    pub(crate) certificate_ends: Gauge,
}

/// The readers of the event stream.
#[derive(Debug)]
pub(crate) struct EventMetrics {
    pub(crate) readers: Gauge,
    /// Callers that sleep until something happens to a lock.
    pub(crate) lookouts: Gauge,
    /// Events put into the ring.
    pub(crate) told: Counter,
    /// Events that fell out of the ring to make room, so that no reader can resume from them any more.
    pub(crate) dropped: Counter,
    /// Readers that fell too far behind.
    pub(crate) readers_cut: Counter,
}

impl EventMetrics {
    /// The present numbers; the ring counts told and dropped events.
    pub(crate) fn count(&self, readers: usize, lookouts: usize, counts: Counts) {
        self.readers.set(readers as u64);
        self.lookouts.set(lookouts as u64);
        self.told.inner().store(counts.told, Ordering::Relaxed);
        self.dropped.inner().store(counts.dropped, Ordering::Relaxed);
    }
}

/// How many events there have been.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) told: u64,
    /// Fell out of the ring.
    pub(crate) dropped: u64,
}

/// One metric a kind, looked up without a lock.
#[derive(Debug)]
struct PerKind<M>([M; 3]);

impl<M> PerKind<M> {
    fn of(&self, kind: Kind) -> &M {
        &self.0[kind as usize]
    }
}

impl Metrics {
    /// Of a service with so many partitions.
    pub(crate) fn of_many(partitions: u32) -> Self {
        let mut registry = Registry::with_prefix("leasehold");
        let r = &mut registry;
        r.register(
            "build",
            "The program: join on its labels to see versions beside other metrics",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        let endings = Family::default();
        r.register("endings", "Claims ended, by how: expired ones are holders that died or forgot to renew, timed_out ones gave up waiting", endings.clone());
        Metrics {
            requests: RequestFamilies::register(r),
            sign_ins: SignIns::register(r),
            connections: Connections {
                open: gauge(r, "connections", "Connections open; at connections_max new ones are turned away"),
                accepted: counter(r, "connections_accepted", "Connections let in since the start"),
                refused: counter(r, "connections_refused", "Connections turned away, as there were too many"),
                max: gauge(r, "connections_max", "Connections that may be open (connections_max)"),
                no_handshake: counter(r, "tls_handshakes_failed", "Connections that ended before TLS was agreed on"),
                certificate_ends: gauge(
                    r,
                    "tls_certificate_not_after_seconds",
                    "When the certificate in use expires, as seconds since 1970, 0 without TLS",
                ),
            },
            events: EventMetrics {
                readers: gauge(r, "event_readers", "Readers of the event stream"),
                lookouts: gauge(r, "lookouts", "Callers that wait for a change of a lock that they only look at"),
                told: counter(r, "events", "Events put into the ring for readers of the stream"),
                dropped: counter(r, "events_dropped", "Events no reader can resume from any more (events_kept)"),
                readers_cut: counter(r, "event_readers_cut", "Readers of the event stream that fell too far behind"),
            },
            grants: per_kind(r, "grants", "Slots granted, at once or after waiting", None, Counter::default),
            waits: per_kind(
                r,
                "waits",
                "Claims that had to stand in a queue; beside grants, how contended resources are",
                None,
                Counter::default,
            ),
            renewals: per_kind(
                r,
                "renewals",
                "Leases renewed by their holders; none for long while leases are held means holders that do not renew",
                None,
                Counter::default,
            ),
            expiries: per_kind(
                r,
                "expiries",
                "Leases that ran out because their holder did not renew in time",
                None,
                Counter::default,
            ),
            endings: endings_grid(endings),
            wait: per_kind(
                r,
                "wait",
                "From asking to being granted; 0 for claims that did not have to wait",
                Some(Unit::Seconds),
                wait_histogram,
            ),
            hold: per_kind(
                r,
                "hold",
                "From being granted to the end, for a lock until it was released or taken over",
                Some(Unit::Seconds),
                hold_histogram,
            ),
            expiry_lateness: histogram(
                r,
                "expiry_lateness",
                "How far behind its deadline a lease ended",
                Some(Unit::Seconds),
                Histogram::of_us(100, 2, 16),
            ),
            commit: histogram(
                r,
                "commit",
                "Time of one durable append, which every answer of its batch waits for: the disk, mostly",
                Some(Unit::Seconds),
                Histogram::of_us(50, 2, 18),
            ),
            batch_changes: histogram(
                r,
                "batch_changes",
                "Changes that became durable together in one append: many under load, one for a lone caller",
                None,
                Histogram::of_counts(1, 2, 14),
            ),
            journal_bytes: counter(r, "journal_bytes", "Bytes written to the journal"),
            fsyncs: counter(r, "fsyncs", "Writes that the disk was made to confirm, copying the log not counted"),
            checkpoints: counter(
                r,
                "checkpoints",
                "Checkpoints written, each of which shortens what a restart has to read",
            ),
            tail_bytes: gauge(r, "journal_tail_bytes", "Journal that a restart would replay"),
            checkpoint_bytes: gauge(r, "checkpoint_bytes", "Checkpoint that a restart would read"),
            file_bytes: gauge(r, "store_bytes", "Bytes of the store's files on disk"),
            store_low: gauge(r, "store_low", "1 while the store is nearly full and new claims are refused"),
            holders: per_kind(r, "holders", "Claims that hold a slot now", None, Gauge::default),
            waiters: per_kind(
                r,
                "waiters",
                "Claims that stand in a queue now; at waiters_max new ones are refused",
                None,
                Gauge::default,
            ),
            resources: per_kind(
                r,
                "resources",
                "Resources that are held, waited for or configured",
                None,
                Gauge::default,
            ),
            paused: per_kind(r, "paused_resources", "Resources that an operator paused", None, Gauge::default),
            out_of_service: per_kind(
                r,
                "slots_out_of_service",
                "Slots that an operator took out of service",
                None,
                Gauge::default,
            ),
            oldest_waiter: per_kind(
                r,
                "oldest_waiter",
                "How long the claim that has waited longest has stood in its queue, 0 while none waits; a value that only grows is a holder that never lets go",
                Some(Unit::Seconds),
                FloatGauge::default,
            ),
            longest_queue: per_kind(
                r,
                "longest_queue",
                "Claims in the longest queue of one resource, 0 while none waits",
                None,
                Gauge::default,
            ),
            retained: gauge(r, "retained_claims", "Ended claims that can still be read"),
            state_bytes: gauge(r, "state_bytes", "Memory that claims and resources take up, as it is accounted"),
            state_bytes_max: gauge(r, "state_bytes_max", "Memory that they may take up (state_max)"),
            held_answers: gauge(r, "held_answers", "Answers that wait for the store to confirm what they tell"),
            oldest_held_seconds: {
                let gauge = FloatGauge::default();
                let help = "How long the oldest answer has been waiting for the store";
                r.register_with_unit("oldest_held_answer", help, Unit::Seconds, gauge.clone());
                gauge
            },
            parked_callers: gauge(r, "parked_callers", "Calls that wait: for a slot, a turn, or the end of a claim"),
            uncharged_seconds: {
                let counter = Counted::default();
                let help = "Time that passed and was charged to no lease";
                r.register_with_unit("uncharged", help, Unit::Seconds, counter.clone());
                counter
            },
            unsent_bytes: gauge(r, "unsent_bytes", "Bytes of long answers that wait for their clients to read them"),
            unsent_bytes_max: gauge(r, "unsent_bytes_max", "Bytes that may wait; past this, long answers are 503"),
            epoch: gauge(r, "epoch", "Rises by one each time the journal is opened"),
            waiters_max: gauge(r, "waiters_max", "Claims that may stand in queues (waiters_max)"),
            stores: Mutex::new(vec![(Sizes::default(), 0, false); partitions as usize]),
            process: Process::default(),
            registry,
        }
    }
}

/// The queues of each kind, as a survey found them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Queues([Queue; 3]);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Queue {
    longest: u64,
    oldest_us: u64,
}

impl Queues {
    /// A resource of this kind with so many waiters, the first of which has waited so long.
    pub(crate) fn add(&mut self, kind: Kind, waiting: u32, oldest_us: Option<u64>) {
        let queue = &mut self.0[kind as usize];
        queue.longest = queue.longest.max(waiting.into());
        queue.oldest_us = queue.oldest_us.max(oldest_us.unwrap_or(0));
    }
}

/// The usual ones are shown from the start: growth from nothing is not seen, and a family without any would not be
/// there at all.
fn endings_grid(family: Family<EndingLabels, Counted>) -> Grid<EndingLabels, { Ending::ALL.len() }> {
    let grid = Grid::new(family, Kind::ALL.len());
    for kind in Kind::ALL {
        for how in [Ending::Released, Ending::Expired] {
            grid.at(kind as usize, how as usize, || ending_labels(kind, how));
        }
    }
    grid
}

fn ending_labels(kind: Kind, how: Ending) -> EndingLabels {
    EndingLabels { kind: kind.as_str(), how: how.as_str() }
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn histogram(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, histogram: Histogram) -> Histogram {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, histogram.clone()),
        None => registry.register(name, help, histogram.clone()),
    }
    histogram
}

fn per_kind<M>(registry: &mut Registry, name: &str, help: &str, unit: Option<Unit>, make: fn() -> M) -> PerKind<M>
where
    M: Clone
        + std::fmt::Debug
        + Send
        + Sync
        + prometheus_client::encoding::EncodeMetric
        + prometheus_client::metrics::TypedMetric
        + 'static,
{
    let family = Family::<KindLabels, M, fn() -> M>::new_with_constructor(make);
    let metrics = Kind::ALL.map(|kind| family.get_or_create_owned(&KindLabels { kind: kind.as_str() }));
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, family),
        None => registry.register(name, help, family),
    }
    PerKind(metrics)
}

/// From a tenth of a millisecond to an hour and a half.
fn wait_histogram() -> Histogram {
    Histogram::of_us(100, 4, 14)
}

/// From a millisecond to twelve days.
fn hold_histogram() -> Histogram {
    Histogram::of_us(1_000, 4, 16)
}

impl Metrics {
    /// The counters of the requests to these faces.
    pub(crate) fn requests(&self, faces: &[FaceLabels]) -> Requests {
        self.requests.of(faces)
    }

    /// The limits of the settings, for graphs and alerts to compare with.
    pub(crate) fn limits(&self, waiters_max: usize, connections_max: u32) {
        self.waiters_max.set(waiters_max as u64);
        self.connections.max.set(connections_max.into());
    }

    pub(crate) fn batch(&self, changes: u64, bytes: usize, took: Duration) {
        self.commit.observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        self.batch_changes.observe(changes);
        self.journal_bytes.inc_by(bytes as u64);
    }

    /// The store of a partition as it was just looked at; shown is what all of them have together.
    pub(crate) fn store(&self, partition: u32, sizes: Sizes, syncs: u64, is_low: bool) {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores[partition as usize] = (sizes, syncs, is_low);
        let sum = |of: fn(&(Sizes, u64, bool)) -> u64| stores.iter().map(of).sum::<u64>();
        self.tail_bytes.set(sum(|(sizes, ..)| sizes.tail_bytes));
        self.checkpoint_bytes.set(sum(|(sizes, ..)| sizes.checkpoint_bytes));
        self.file_bytes.set(sum(|(sizes, ..)| sizes.file_bytes));
        self.fsyncs.inner().store(sum(|(_, syncs, _)| *syncs), Ordering::Relaxed);
        self.store_low.set(stores.iter().any(|(.., is_low)| *is_low).into());
    }

    pub(crate) fn checkpointed(&self) {
        self.checkpoints.inc();
    }

    pub(crate) fn effect(&self, effect: &Effect) {
        let kind = effect.resource.kind();
        match &effect.what {
            What::Granted { waited_us, .. } => {
                self.grants.of(kind).inc();
                self.wait.of(kind).observe(*waited_us);
            }
            What::Queued => drop(self.waits.of(kind).inc()),
            What::Renewed { .. } => drop(self.renewals.of(kind).inc()),
            What::GraceBegan { .. } => drop(self.expiries.of(kind).inc()),
            What::Ended { how, held_us, late_us } => {
                if *how == Ending::Expired {
                    self.expiries.of(kind).inc();
                    self.expiry_lateness.observe(*late_us);
                }
                if let Some(held_us) = held_us {
                    self.hold.of(kind).observe(*held_us);
                }
                self.endings.at(kind as usize, *how as usize, || ending_labels(kind, *how)).inc();
            }
            What::Configured { .. }
            | What::Unconfigured
            | What::Paused { .. }
            | What::Resumed { .. }
            | What::SlotServed { .. }
            | What::GraceOver => {}
        }
    }

    /// The whole exposition as OpenMetrics, with the gauges as they are now.
    pub(crate) fn expose(&self, readings: Readings, Queues(queues): Queues, unsent: &Unsent) -> String {
        let Readings { totals, callers, oldest_held_us, uncharged_us, epoch } = readings;
        for kind in Kind::ALL {
            let counted = totals.of(kind);
            self.holders.of(kind).set(counted.holding as u64);
            self.waiters.of(kind).set(counted.waiting as u64);
            self.resources.of(kind).set(counted.resources as u64);
            self.paused.of(kind).set(counted.paused as u64);
            self.out_of_service.of(kind).set(counted.out_of_service as u64);
            let Queue { longest, oldest_us } = queues[kind as usize];
            self.longest_queue.of(kind).set(longest);
            self.oldest_waiter.of(kind).set(Duration::from_micros(oldest_us).as_secs_f64());
        }
        self.retained.set(totals.retained as u64);
        self.state_bytes.set(totals.state_bytes_used);
        self.state_bytes_max.set(totals.state_bytes_max);
        self.held_answers.set(callers.held as u64);
        self.oldest_held_seconds.set(Duration::from_micros(oldest_held_us).as_secs_f64());
        self.parked_callers.set(callers.parked as u64);
        let uncharged_s = Duration::from_micros(uncharged_us).as_secs_f64();
        self.uncharged_seconds.inner().store(uncharged_s.to_bits(), Ordering::Relaxed);
        self.epoch.set(epoch.0);
        self.unsent_bytes.set(unsent.bytes() as u64);
        self.unsent_bytes_max.set(unsent.max() as u64);
        let mut text = String::with_capacity(32 * 1024);
        encode_registry(&mut text, &self.registry).expect("metrics can be written to memory");
        self.process.write(&mut text);
        encode_eof(&mut text).expect("metrics can be written to memory");
        text
    }
}
