//! Requests counted by face and status, and how long they took. Every request comes through here, so nothing in it
//! takes a lock.

use std::time::Duration;

use leasehold_engine::Kind;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::grid::Grid;
use super::histogram::Histogram;

/// The labels that requests to a face are counted under. The label of the face itself is `dialect`: the first three
/// faces were dialects, and dashboards know it by that name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct FaceLabels {
    dialect: &'static str,
    /// The kind of the resources it is about, as the other metrics name it, so that both can be joined.
    kind: &'static str,
}

impl FaceLabels {
    /// Of all faces that lend nothing, and of requests that no face serves.
    pub(crate) const OTHER: FaceLabels = FaceLabels { dialect: "other", kind: "none" };

    /// Of a face that lends resources of this kind.
    pub(crate) const fn lending(face: &'static str, kind: Kind) -> FaceLabels {
        FaceLabels { dialect: face, kind: kind.as_str() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    dialect: &'static str,
    kind: &'static str,
    status: u16,
}

impl RequestLabels {
    fn of(&FaceLabels { dialect, kind }: &FaceLabels, status: u16) -> Self {
        RequestLabels { dialect, kind, status }
    }
}

/// The statuses this service answers with, which bounds the label. (One that is missing here is still counted.)
const STATUSES: [u16; 26] = [
    200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 408, 409, 410, 412, 413, 414, 415, 421, 422, 423, 429, 431, 500,
    502, 503, 504,
];

/// Shown from the start: alerts look at how these grow, and growth from nothing is not seen.
const SHOWN_AT_ONCE: [u16; 3] = [200, 502, 503];

/// What is counted of requests, whatever the faces are.
#[derive(Debug)]
pub(super) struct RequestFamilies {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<FaceLabels, Histogram, fn() -> Histogram>,
}

impl RequestFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Family::default();
        registry.register("requests", "Requests answered, by dialect, the kind of resource that it lends (joins with the metrics of kinds), and status", requests.clone());
        let seconds = Family::new_with_constructor(request_histogram as fn() -> Histogram);
        let help = "From the head of a request to its answer, the wait its caller asked for included";
        registry.register_with_unit("request", help, Unit::Seconds, seconds.clone());
        RequestFamilies { requests, seconds }
    }

    /// The counters of the requests to these faces.
    pub(super) fn of(&self, faces: &[FaceLabels]) -> Requests {
        let rows: Box<[FaceLabels]> = faces.iter().cloned().chain([FaceLabels::OTHER]).collect();
        let seconds = rows.iter().map(|labels| self.seconds.get_or_create_owned(labels)).collect();
        let counters = Grid::new(self.requests.clone(), rows.len());
        let requests = Requests { family: self.requests.clone(), rows, counters, seconds };
        for row in 0..requests.rows.len() {
            for status in SHOWN_AT_ONCE {
                requests.count(row, status, 0);
            }
        }
        requests
    }
}

/// The counters of requests in a row for each face and a last one for requests that no face serves. Rows with equal
/// labels share their counters, and so do the tables of two listeners.
#[derive(Debug)]
pub(crate) struct Requests {
    family: Family<RequestLabels, Counter>,
    rows: Box<[FaceLabels]>,
    counters: Grid<RequestLabels, { STATUSES.len() }>,
    seconds: Box<[Histogram]>,
}

impl Requests {
    /// Counts a request to the face at this place in the list of faces.
    pub(crate) fn answered(&self, face: Option<usize>, status: u16, took: Duration) {
        let row = face.unwrap_or(self.rows.len() - 1);
        self.count(row, status, 1);
        self.seconds[row].observe(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    fn count(&self, row: usize, status: u16, by: u64) {
        let labels = || RequestLabels::of(&self.rows[row], status);
        match STATUSES.binary_search(&status) {
            Ok(column) => self.counters.at(row, column, labels).inc_by(by),
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
    fn statuses_are_in_the_order_they_are_looked_up_by() {
        assert!(STATUSES.is_sorted());
    }

    #[test]
    fn a_status_that_no_answer_has_is_counted_all_the_same() {
        let (lock, pools) = (FaceLabels::lending("lock", Kind::Lock), FaceLabels::lending("pools", Kind::Pool));
        let families = RequestFamilies::register(&mut Registry::default());
        let requests = families.of(&[lock.clone(), pools.clone()]);
        for status in [200, 200, 418] {
            requests.answered(Some(0), status, Duration::ZERO);
        }
        let counted = |labels, status| families.requests.get_or_create_owned(&RequestLabels::of(labels, status)).get();
        assert_eq!(counted(&lock, 200), 2);
        assert_eq!(counted(&lock, 418), 1);
        assert_eq!(counted(&pools, 200), 0);
    }

    #[test]
    fn faces_that_lend_nothing_and_requests_to_none_are_counted_together_by_every_listener() {
        let families = RequestFamilies::register(&mut Registry::default());
        let [one, other] = [(); 2].map(|()| families.of(&[FaceLabels::OTHER, FaceLabels::OTHER]));
        one.answered(Some(0), 200, Duration::ZERO);
        one.answered(None, 404, Duration::ZERO);
        other.answered(Some(1), 200, Duration::ZERO);
        let counted =
            |status| families.requests.get_or_create_owned(&RequestLabels::of(&FaceLabels::OTHER, status)).get();
        assert_eq!((counted(200), counted(404)), (2, 1));
    }
}
