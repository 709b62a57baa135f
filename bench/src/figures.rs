//! Numbers as they are kept and shown: histograms in nanoseconds, medians over rounds, the summary of one measurement.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::drive::Outcome;

/// Latencies from 1 µs to 10 minutes, three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, 600_000_000_000, 3).expect("the bounds make sense")
}

pub(crate) fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds here are well below 2^53")]
pub(crate) fn float(value: u64) -> f64 {
    value as f64
}

pub(crate) fn float_len(value: usize) -> f64 {
    float(value as u64)
}

pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The middle one; between the two middle ones of an even number.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The one below which this part of them lies.
pub(crate) fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index into a short list")]
    let index = (float_len(sorted.len()) * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied()
}

/// The spread of latencies, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(clippy::struct_field_names, reason = "units last")]
pub(crate) struct Spread {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Spread {
    pub(crate) fn of(latency: &Histogram<u64>) -> Self {
        let at = |quantile| float(latency.value_at_quantile(quantile)) / 1e3;
        Spread { p50_us: at(0.5), p99_us: at(0.99), p999_us: at(0.999), max_us: float(latency.max()) / 1e3 }
    }
}

/// Several rounds of the same thing.
#[derive(Clone, Debug)]
pub(crate) struct Rounds {
    pub(crate) rates_per_s: Vec<f64>,
    pub(crate) p50s_us: Vec<f64>,
    pub(crate) latency: Histogram<u64>,
    pub(crate) answered: u64,
}

impl Rounds {
    pub(crate) fn new() -> Self {
        Rounds { rates_per_s: Vec::new(), p50s_us: Vec::new(), latency: histogram(), answered: 0 }
    }

    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.rates_per_s.push(outcome.rate_per_s());
        self.p50s_us.push(float(outcome.latency.value_at_quantile(0.5)) / 1e3);
        self.latency.add(&outcome.latency).expect("all histograms have the same bounds");
        self.answered += outcome.answered;
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            rate_per_s: median(&self.rates_per_s).unwrap_or(0.0),
            rates_per_s: self.rates_per_s.clone(),
            answered: self.answered,
            latency: Spread::of(&self.latency),
        }
    }
}

/// The summary of several rounds: the median rate, and the latencies of all.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) rate_per_s: f64,
    pub(crate) rates_per_s: Vec<f64>,
    pub(crate) answered: u64,
    pub(crate) latency: Spread,
}

/// The median of the rounds' ratios, each between neighbours in time, so that noise that hits a whole round cancels
/// out.
pub(crate) fn paired_ratio(above: &[f64], below: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = above.iter().zip(below).map(|(above, below)| above / below).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        assert_eq!(quantile(&[], 0.5), None);
        let values = [4.0, 1.0, 3.0, 2.0];
        for (part, expected) in [(0.0, 1.0), (0.25, 2.0), (0.75, 4.0), (1.0, 4.0)] {
            assert_eq!(quantile(&values, part), Some(expected), "{part}");
        }
    }

    #[test]
    fn a_slow_round_does_not_move_a_paired_ratio() {
        assert_eq!(paired_ratio(&[100.0, 10.0, 100.0], &[50.0, 5.0, 50.0]), Some(2.0));
    }
}
