//! One hot pool: 8 slots, and 64 callers that wait behind the 8 that hold. The disk is timed right before each turn, as
//! a hand-over is little more than one durable write, and disks have moods that do not last a whole run.

use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::Serialize;

use super::Context;
use crate::drive::Line;
use crate::figures::{Spread, float, histogram, median, paired_ratio};
use crate::machine::fdatasync;
use crate::peer::{Contender, Running};
use crate::script::{HandOver, HandOvers};

const SLOTS: usize = 8;
const WAITERS: usize = 64;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct HandOverRow {
    pub(crate) peer: Contender,
    pub(crate) hold_ms: u64,
    pub(crate) hand_overs_per_s: f64,
    pub(crate) latency: Spread,
    /// One per round, and the time of `fdatasync` just before.
    pub(crate) p99s_us: Vec<f64>,
    pub(crate) fdatasync_p99s_us: Vec<f64>,
}

impl HandOverRow {
    /// The p99 of a hand-over as a multiple of that of `fdatasync`.
    pub(crate) fn in_fdatasyncs(&self) -> Option<f64> {
        paired_ratio(&self.p99s_us, &self.fdatasync_p99s_us)
    }
}

/// The measurements of one row.
struct Seen {
    latency: Histogram<u64>,
    rates_per_s: Vec<f64>,
    p99s_us: Vec<f64>,
    fdatasync_p99s_us: Vec<f64>,
}

pub(crate) fn hand_over(context: &Context<'_>) -> Result<Vec<HandOverRow>> {
    let mut rows = Vec::new();
    // Back to back, where slots change hands as fast as they can; and with holders that work for a while.
    for hold_ms in [0, 5] {
        let fresh = || Seen { latency: histogram(), rates_per_s: vec![], p99s_us: vec![], fdatasync_p99s_us: vec![] };
        let mut all: Vec<(&Running, Seen)> = context.ours().map(|running| (running, fresh())).collect();
        for round in 0..context.sizes.rounds {
            for (running, seen) in &mut all {
                turn(context, running, hold_ms, seen)?;
                context.progress.step(&format!(
                    "hand-over, held {hold_ms} ms, round {}: {} p99 {:.0} µs, fdatasync {:.0} µs",
                    round + 1,
                    running.peer.label(),
                    seen.p99s_us[round],
                    seen.fdatasync_p99s_us[round]
                ));
            }
        }
        rows.extend(all.into_iter().map(|(running, seen)| HandOverRow {
            peer: running.peer,
            hold_ms,
            hand_overs_per_s: median(&seen.rates_per_s).unwrap_or(0.0),
            latency: Spread::of(&seen.latency),
            p99s_us: seen.p99s_us,
            fdatasync_p99s_us: seen.fdatasync_p99s_us,
        }));
    }
    Ok(rows)
}

fn turn(context: &Context<'_>, running: &Running, hold_ms: u64, seen: &mut Seen) -> Result<()> {
    seen.fdatasync_p99s_us.push(fdatasync(&context.place.dir, context.sizes.syncs)?.p99_us);
    let shared = HandOvers::new(running.addr, hold_ms, SLOTS, Duration::from_millis(hold_ms))?;
    let lines = (0..SLOTS + WAITERS).map(|_| Line::open(running.addr, HandOver::new(&shared)));
    let outcome = context.drive(lines.collect::<Result<_>>()?)?;
    let latency = &shared.borrow().latency;
    anyhow::ensure!(!latency.is_empty(), "no slot changed hands");
    seen.latency.add(latency).expect("all histograms have the same bounds");
    seen.rates_per_s.push(float(latency.len()) / (context.sizes.warm_up + outcome.elapsed).as_secs_f64());
    seen.p99s_us.push(Spread::of(latency).p99_us);
    Ok(())
}
