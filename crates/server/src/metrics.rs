//! Numbers for machines to watch, in Prometheus' text format. Labels are kinds, dialects, statuses and endings, never
//! names or ids, so their number is fixed when the program is written.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use leasehold_engine::{Effect, Kind, Totals, What};
use leasehold_journal::{Callers, Sizes};
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// Which part of the service a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Pools,
    Claims,
    Lock,
    Other,
}

impl EncodeLabelValue for Dialect {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let name = match self {
            Dialect::Pools => "pools",
            Dialect::Claims => "claims",
            Dialect::Lock => "lock",
            Dialect::Other => "other",
        };
        EncodeLabelValue::encode(&name, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    dialect: Dialect,
    status: u16,
}

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
    requests: Family<RequestLabels, Counter>,
    grants: PerKind<Counter>,
    waits: PerKind<Counter>,
    renewals: PerKind<Counter>,
    expiries: PerKind<Counter>,
    endings: Family<EndingLabels, Counter>,
    wait_seconds: PerKind<Histogram>,
    expiry_lateness_seconds: Histogram,
    commit_seconds: Histogram,
    batch_changes: Histogram,
    journal_bytes: Counter,
    tail_bytes: Gauge<u64, AtomicU64>,
    checkpoint_bytes: Gauge<u64, AtomicU64>,
    file_bytes: Gauge<u64, AtomicU64>,
    holders: Gauge<u64, AtomicU64>,
    waiters: Gauge<u64, AtomicU64>,
    resources: Gauge<u64, AtomicU64>,
    retained: Gauge<u64, AtomicU64>,
    held_answers: Gauge<u64, AtomicU64>,
    parked_callers: Gauge<u64, AtomicU64>,
}

/// One metric a kind, looked up without a lock.
#[derive(Debug)]
struct PerKind<M> {
    pool: M,
    claim: M,
    lock: M,
}

impl<M: Clone> PerKind<M> {
    fn new(family: &Family<KindLabels, M, impl Fn() -> M + Clone + Send + Sync + 'static>) -> Self {
        let of = |kind: Kind| family.get_or_create_owned(&KindLabels { kind: kind.as_str() });
        PerKind { pool: of(Kind::Pool), claim: of(Kind::Claim), lock: of(Kind::Lock) }
    }

    fn of(&self, kind: Kind) -> &M {
        match kind {
            Kind::Pool => &self.pool,
            Kind::Claim => &self.claim,
            Kind::Lock => &self.lock,
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("leasehold");
        let requests = Family::default();
        registry.register("requests", "Requests answered, by dialect and status", requests.clone());
        let mut counter_per_kind = |name: &str, help: &str| {
            let family = Family::<KindLabels, Counter>::new_with_constructor(Counter::default);
            let counters = PerKind::new(&family);
            registry.register(name, help, family);
            counters
        };
        let grants = counter_per_kind("grants", "Slots granted");
        let waits = counter_per_kind("waits", "Claims that had to stand in a queue");
        let renewals = counter_per_kind("renewals", "Leases renewed");
        let expiries = counter_per_kind("expiries", "Leases that ran out");
        let endings = Family::default();
        registry.register("endings", "Claims ended, by how", endings.clone());
        let wait_family = Family::<KindLabels, Histogram>::new_with_constructor(wait_histogram as fn() -> Histogram);
        let wait_seconds = PerKind::new(&wait_family);
        registry.register_with_unit("wait", "From asking to being granted", Unit::Seconds, wait_family);
        let mut histogram = |name: &str, help: &str, unit: Option<Unit>, histogram: Histogram| {
            match unit {
                Some(unit) => registry.register_with_unit(name, help, unit, histogram.clone()),
                None => registry.register(name, help, histogram.clone()),
            }
            histogram
        };
        let expiry_lateness_seconds = histogram(
            "expiry_lateness",
            "How far behind its deadline a lease ended",
            Some(Unit::Seconds),
            Histogram::new(exponential_buckets(0.000_1, 2.0, 16)),
        );
        let commit_seconds = histogram(
            "commit",
            "One durable append",
            Some(Unit::Seconds),
            Histogram::new(exponential_buckets(0.000_05, 2.0, 18)),
        );
        let batch_changes = histogram(
            "batch_changes",
            "Changes in one append",
            None,
            Histogram::new(exponential_buckets(1.0, 2.0, 14)),
        );
        let journal_bytes = Counter::default();
        registry.register_with_unit("journal", "Written to the journal", Unit::Bytes, journal_bytes.clone());
        let mut gauge = |name: &str, help: &str| {
            let gauge = Gauge::<u64, AtomicU64>::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        Metrics {
            requests,
            grants,
            waits,
            renewals,
            expiries,
            endings,
            wait_seconds,
            expiry_lateness_seconds,
            commit_seconds,
            batch_changes,
            journal_bytes,
            tail_bytes: gauge("journal_tail_bytes", "Journal that a restart would replay"),
            checkpoint_bytes: gauge("checkpoint_bytes", "Checkpoint that a restart would read"),
            file_bytes: gauge("store_bytes", "What the store takes up in all"),
            holders: gauge("holders", "Claims that hold a slot"),
            waiters: gauge("waiters", "Claims that stand in a queue"),
            resources: gauge("resources", "Resources known"),
            retained: gauge("retained_claims", "Ended claims that can still be read"),
            held_answers: gauge("held_answers", "Answers waiting for the store"),
            parked_callers: gauge("parked_callers", "Callers waiting for something to happen"),
            registry,
        }
    }
}

/// From a tenth of a millisecond to an hour and a half.
fn wait_histogram() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 14))
}

impl Metrics {
    pub(crate) fn request(&self, dialect: Dialect, status: u16) {
        self.requests.get_or_create(&RequestLabels { dialect, status }).inc();
    }

    pub(crate) fn batch(&self, changes: u64, bytes: usize, took: Duration) {
        self.commit_seconds.observe(took.as_secs_f64());
        self.batch_changes.observe(seconds_or_count(changes));
        self.journal_bytes.inc_by(bytes as u64);
    }

    pub(crate) fn sizes(&self, sizes: Sizes) {
        self.tail_bytes.set(sizes.tail_bytes);
        self.checkpoint_bytes.set(sizes.checkpoint_bytes);
        self.file_bytes.set(sizes.file_bytes);
    }

    pub(crate) fn effect(&self, effect: &Effect) {
        let kind = effect.resource.kind();
        match &effect.what {
            What::Granted { waited_us, .. } => {
                self.grants.of(kind).inc();
                self.wait_seconds.of(kind).observe(seconds_or_count(*waited_us) / 1e6);
            }
            What::Queued => drop(self.waits.of(kind).inc()),
            What::Renewed { .. } => drop(self.renewals.of(kind).inc()),
            What::GraceBegan { .. } => drop(self.expiries.of(kind).inc()),
            What::Ended { how, late_us, .. } => {
                let how = match how {
                    leasehold_engine::Ending::Released => "released",
                    leasehold_engine::Ending::Expired => {
                        self.expiries.of(kind).inc();
                        self.expiry_lateness_seconds.observe(seconds_or_count(*late_us) / 1e6);
                        "expired"
                    }
                    leasehold_engine::Ending::Revoked => "revoked",
                    leasehold_engine::Ending::Aborted => "aborted",
                    leasehold_engine::Ending::Withdrawn => "withdrawn",
                    leasehold_engine::Ending::TimedOut => "timed_out",
                    leasehold_engine::Ending::Deleted => "deleted",
                    leasehold_engine::Ending::HandedBack => "handed_back",
                    leasehold_engine::Ending::Superseded => "superseded",
                };
                self.endings.get_or_create(&EndingLabels { kind: kind.as_str(), how }).inc();
            }
            What::Configured { .. } | What::Unconfigured | What::GraceOver { .. } => {}
        }
    }

    /// The whole exposition, with the gauges as they are now.
    pub(crate) fn expose(&self, totals: Totals, callers: Callers) -> String {
        self.holders.set((totals.claims - totals.waiting) as u64);
        self.waiters.set(totals.waiting as u64);
        self.resources.set(totals.resources as u64);
        self.retained.set(totals.retained as u64);
        self.held_answers.set(callers.held as u64);
        self.parked_callers.set(callers.parked as u64);
        let mut text = String::with_capacity(16 * 1024);
        encode(&mut text, &self.registry).expect("metrics can be written to memory");
        text
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric need not be exact past 2^53")]
fn seconds_or_count(value: u64) -> f64 {
    value as f64
}
