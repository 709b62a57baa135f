//! Requests counted by dialect and status, and how long they took. Every request comes through here, so nothing in it
//! takes a lock.

use std::time::Duration;

use leasehold_engine::Kind;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::grid::Grid;
use super::histogram::Histogram;

/// Which part of the service a request was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    Pools,
    Claims,
    Lock,
    Terraform,
    FleetLock,
    Other,
}

impl Dialect {
    const ALL: [Dialect; 6] =
        [Dialect::Pools, Dialect::Claims, Dialect::Lock, Dialect::Terraform, Dialect::FleetLock, Dialect::Other];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Dialect::Pools => "pools",
            Dialect::Claims => "claims",
            Dialect::Lock => "lock",
            Dialect::Terraform => "terraform",
            Dialect::FleetLock => "fleetlock",
            Dialect::Other => "other",
        }
    }

    /// The kind of the resources it is about, as the other metrics name it, so that both can be joined.
    fn kind(self) -> &'static str {
        match self {
            Dialect::Pools => Kind::Pool.as_str(),
            Dialect::Claims | Dialect::Terraform | Dialect::FleetLock => Kind::Claim.as_str(),
            Dialect::Lock => Kind::Lock.as_str(),
            Dialect::Other => "none",
        }
    }
}

impl EncodeLabelValue for Dialect {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        EncodeLabelValue::encode(&self.as_str(), encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    dialect: Dialect,
    kind: &'static str,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DialectLabels {
    dialect: Dialect,
    kind: &'static str,
}

/// The statuses this service answers with, which bounds the label. (One that is missing here is still counted.)
const STATUSES: [u16; 26] = [
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 414, 415, 421, 422, 423, 429, 431, 500,
    502, 503, 504,
];

/// Shown from the start: alerts look at how these grow, and growth from nothing is not seen.
const SHOWN_AT_ONCE: [u16; 3] = [200, 502, 503];

#[derive(Debug)]
pub(super) struct Requests {
    family: Family<RequestLabels, Counter>,
    counters: Grid<RequestLabels, { Dialect::ALL.len() }, { STATUSES.len() }>,
    seconds: [Histogram; Dialect::ALL.len()],
}

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let family = Family::default();
        registry.register("requests", "Requests answered, by dialect, the kind of resource that it lends (joins with the metrics of kinds), and status", family.clone());
        let durations =
            Family::<DialectLabels, Histogram>::new_with_constructor(request_histogram as fn() -> Histogram);
        let help = "From the head of a request to its answer, the wait its caller asked for included";
        registry.register_with_unit("request", help, Unit::Seconds, durations.clone());
        let seconds =
            Dialect::ALL.map(|dialect| durations.get_or_create_owned(&DialectLabels { dialect, kind: dialect.kind() }));
        let requests = Requests { counters: Grid::new(family.clone()), family, seconds };
        for dialect in Dialect::ALL {
            for status in SHOWN_AT_ONCE {
                requests.count(dialect, status, 0);
            }
        }
        requests
    }

    pub(super) fn answered(&self, dialect: Dialect, status: u16, took: Duration) {
        self.count(dialect, status, 1);
        self.seconds[dialect as usize].observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn count(&self, dialect: Dialect, status: u16, by: u64) {
        let labels = || RequestLabels { dialect, kind: dialect.kind(), status };
        match STATUSES.binary_search(&status) {
            Ok(column) => self.counters.at(dialect as usize, column, labels).inc_by(by),
            Err(_) => self.family.get_or_create(&labels()).inc_by(by),
        };
    }
}

/// From a tenth of a millisecond to seven minutes: waits are at most five by default.
fn request_histogram() -> Histogram {
    Histogram::of_us(100, 3, 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_the_order_they_are_looked_up_by() {
        assert!(STATUSES.is_sorted());
        for (index, dialect) in Dialect::ALL.into_iter().enumerate() {
            assert_eq!(dialect as usize, index);
        }
    }

    #[test]
    fn a_status_of_nobodys_is_counted_all_the_same() {
        let requests = Requests::register(&mut Registry::default());
        for status in [200, 200, 418] {
            requests.answered(Dialect::Lock, status, Duration::ZERO);
        }
        let counted = |dialect: Dialect, status| {
            requests.family.get_or_create_owned(&RequestLabels { dialect, kind: dialect.kind(), status }).get()
        };
        assert_eq!(counted(Dialect::Lock, 200), 2);
        assert_eq!(counted(Dialect::Lock, 418), 1);
        assert_eq!(counted(Dialect::Pools, 200), 0);
    }
}
