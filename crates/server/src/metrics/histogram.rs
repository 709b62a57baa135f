//! A histogram that many threads write to without a lock: requests are measured on every worker at once, and the one of
//! `prometheus-client` would have them queue for a mutex.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Whole microseconds or plain counts go in; seconds or counts are shown.
#[derive(Clone, Debug)]
pub(super) struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Upper bounds, each included in its bucket. Above the last there is one bucket more.
    bounds: Vec<u64>,
    counts: Vec<AtomicU64>,
    sum: AtomicU64,
    /// How many units of the input are one unit of the output. (Dividing by a million is exact where multiplying is
    /// not.)
    per: f64,
}

impl Histogram {
    /// A histogram of durations: `count` bounds from `first_us` on, each `factor` times the one before.
    pub(super) fn of_us(first_us: u64, factor: u64, count: usize) -> Self {
        Histogram::new(first_us, factor, count, 1e6)
    }

    /// A histogram of plain numbers, by bounds made in the same way.
    pub(super) fn of_counts(first: u64, factor: u64, count: usize) -> Self {
        Histogram::new(first, factor, count, 1.0)
    }

    fn new(first: u64, factor: u64, count: usize, per: f64) -> Self {
        let bounds: Vec<u64> = std::iter::successors(Some(first), |bound| Some(bound * factor)).take(count).collect();
        let counts = (0..=count).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0), per }))
    }

    pub(super) fn observe(&self, value: u64) {
        let Inner { bounds, counts, sum, .. } = &*self.0;
        let bucket = bounds.partition_point(|&bound| bound < value);
        counts[bucket].fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(value, Ordering::Relaxed);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let Inner { bounds, counts, sum, per } = &*self.0;
        let shown_bounds = bounds.iter().map(|&bound| float(bound) / per).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> =
            shown_bounds.zip(counts.iter().map(|count| count.load(Ordering::Relaxed))).collect();
        // Computed from the buckets that were read, so that it agrees with them while others write.
        let count = buckets.iter().map(|(_, count)| count).sum();
        let sum = float(sum.load(Ordering::Relaxed)) / per;
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None::<&HashMap<usize, Exemplar<_, f64>>>)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[expect(clippy::cast_precision_loss, reason = "a metric need not be exact past 2^53")]
fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn values_on_a_bound_belong_to_it_and_large_ones_to_the_last() {
        let histogram = Histogram::of_us(100, 10, 3);
        for value_us in [0, 100, 101, 10_000, 10_001, 2_000_000] {
            histogram.observe(value_us);
        }
        let mut registry = Registry::default();
        registry.register("x", "X", histogram);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "x_sum 2.020202",
                "x_count 6",
                "x_bucket{le=\"0.0001\"} 2",
                "x_bucket{le=\"0.001\"} 3",
                "x_bucket{le=\"0.01\"} 4",
                "x_bucket{le=\"+Inf\"} 6",
            ]
        );
    }
}
