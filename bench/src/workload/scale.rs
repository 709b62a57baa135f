//! Figures that depend on the number of live leases: memory, the cost of a renewal, how late leases end, the pause of a
//! checkpoint, the time to start again. Three services of three sizes run beside each other, so that renewals are
//! compared in the same minutes; the rest is asked of the largest.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::Context;
use crate::drive::{Line, Pace, Plan, drive};
use crate::figures::{Figures, Rounds, float, float_len, milliseconds, paired_ratio};
use crate::machine::settled_resident_bytes;
use crate::peer::Leasehold;
use crate::script::{Fill, Gaps, Leases, POOL_SLOTS, Pump, Renew, Short, Ttl, make_pools};

const CONNECTIONS: u64 = 64;
const FILL_MAX: Duration = Duration::from_mins(10);
const LEASE_TTL_S: f64 = 86_000.0;
/// Leases that end by themselves beside the many that stay: 500 of them at a time, in two pools.
const SHORT_TTL_S: f64 = 0.25;
const SHORT_PER_S: f64 = 2_000.0;
/// Enough to fill a journal while one connection is watched.
const PUMPS: usize = 4;
const CHECKPOINT_MAX: Duration = Duration::from_mins(2);
/// Ended claims are not kept, so that a checkpoint is of leases; its beginning and end are in the log.
const ARGS: [&str; 4] = ["--retain-finished", "0s", "--log-level", "info,leasehold_server::driver=debug"];

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Scale {
    pub(crate) sizes: Vec<ScaleRow>,
    /// Renewals a second of the largest as a part of those of the smallest.
    pub(crate) renewals_ratio: Option<f64>,
    pub(crate) lateness: Lateness,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) restart_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct ScaleRow {
    pub(crate) leases: usize,
    pub(crate) resident_bytes_per_lease: f64,
    pub(crate) resident_mib: f64,
    pub(crate) made_per_s: f64,
    pub(crate) renewals: Figures,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lateness {
    pub(crate) expired: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p999_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Checkpoint {
    pub(crate) bytes: u64,
    pub(crate) took_ms: f64,
    /// Between two acknowledgements on one connection while it was written.
    pub(crate) longest_gap_ms: f64,
    /// The same for as long before it began, while the journal was being filled.
    pub(crate) longest_gap_before_ms: f64,
}

struct Filled {
    service: Leasehold,
    leases: Rc<RefCell<Leases>>,
    count: usize,
    bytes_per_lease: f64,
    resident_mib: f64,
    made_per_s: f64,
    rounds: Rounds,
}

pub(crate) fn scale(context: &Context<'_>) -> Result<Scale> {
    let mut all = Vec::new();
    for count in context.sizes.leases {
        all.push(fill(context, count)?);
    }
    for round in 0..context.sizes.rounds {
        // Another one first each time, so that a disk that gets faster or slower favours none.
        all.rotate_left(usize::from(round > 0));
        for filled in &mut all {
            let lines =
                (0..CONNECTIONS).map(|number| Line::open(filled.service.addr, Renew::new(&filled.leases, number)));
            let outcome = context.drive(lines.collect::<Result<_>>()?)?;
            filled.rounds.add(&outcome);
            context.progress.step(&format!(
                "renewals with {} leases, round {}: {:.0}/s",
                filled.count,
                round + 1,
                outcome.rate_per_s()
            ));
        }
    }
    all.sort_by_key(|filled| filled.count);
    let rates = |filled: &Filled| filled.rounds.rates_per_s.clone();
    let renewals_ratio = paired_ratio(&rates(&all[2]), &rates(&all[0]));
    let sizes = all.iter().map(row).collect();

    let mut largest = all.pop().expect("there are three");
    drop(all);
    let lateness = lateness(context, &largest)?;
    let checkpoint = checkpoint(context, &largest)?;
    let restart = largest.service.restart()?;
    let held = largest.service.metrics()?.number("leasehold_holders")?;
    ensure!(held >= largest.count as u64, "{held} of {} leases are left after a restart", largest.count);
    context.progress.step(&format!("killed and restarted with {} leases: {restart:.0?}", largest.count));
    Ok(Scale { sizes, renewals_ratio, lateness, checkpoint, restart_ms: milliseconds(restart) })
}

fn row(filled: &Filled) -> ScaleRow {
    ScaleRow {
        leases: filled.count,
        resident_bytes_per_lease: filled.bytes_per_lease,
        resident_mib: filled.resident_mib,
        made_per_s: filled.made_per_s,
        renewals: filled.rounds.figures(),
    }
}

fn fill(context: &Context<'_>, count: usize) -> Result<Filled> {
    let service = Leasehold::start(context.place, &format!("leases-{count}"), &ARGS)?;
    make_pools(service.addr, count)?;
    let before = settled_resident_bytes(|| service.resident_bytes())?;
    let leases = Leases::new(count);
    let ttl = Ttl::Each { ttl_s: LEASE_TTL_S };
    let lines = (0..CONNECTIONS).map(|_| Line::open(service.addr, Fill::new(&leases, ttl)));
    let outcome = drive(lines.collect::<Result<_>>()?, &Plan::to_the_end(FILL_MAX))?;
    let held = service.metrics()?.number("leasehold_holders")?;
    ensure!(held == count as u64, "{held} leases are held, not {count}");
    let after = settled_resident_bytes(|| service.resident_bytes())?;
    let bytes_per_lease = float(after.saturating_sub(before)) / float_len(count);
    context.progress.step(&format!("{count} leases at {:.0}/s: {bytes_per_lease:.0} bytes each", outcome.rate_per_s()));
    Ok(Filled {
        service,
        leases,
        count,
        bytes_per_lease,
        resident_mib: float(after) / 1024.0 / 1024.0,
        made_per_s: outcome.rate_per_s(),
        rounds: Rounds::new(),
    })
}

/// Short leases come and end beside the many that stay.
fn lateness(context: &Context<'_>, filled: &Filled) -> Result<Lateness> {
    let addr = filled.service.addr;
    let name = "leasehold_expiry_lateness_seconds";
    let earlier = filled.service.metrics()?.buckets(name)?;
    // Beyond the pools that are full: borrowed there, and never returned.
    make_pools(addr, filled.count.next_multiple_of(POOL_SLOTS) + 2 * POOL_SLOTS)?;
    let length = context.sizes.length;
    let first_pool = filled.count.div_ceil(POOL_SLOTS) as u64;
    let lines = (0..CONNECTIONS).map(|number| Line::open(addr, Short::new(first_pool + number % 2, SHORT_TTL_S)));
    let plan = Plan { pace: Pace::Open { rate_per_s: SHORT_PER_S }, ..Plan::closed(Duration::ZERO, length) };
    drive(lines.collect::<Result<_>>()?, &plan)?;
    let ended_at = Instant::now();
    while filled.service.metrics()?.number("leasehold_holders")? > filled.count as u64 {
        ensure!(ended_at.elapsed() < Duration::from_secs(10), "leases of {SHORT_TTL_S} s do not end");
    }
    let buckets = filled.service.metrics()?.buckets(name)?.since(&earlier);
    let at = |quantile| buckets.quantile(quantile).map(|late_s| late_s * 1e3).context("no lease ended by itself");
    let lateness = Lateness { expired: buckets.count(), p50_ms: at(0.5)?, p999_ms: at(0.999)? };
    context.progress.step(&format!("{} leases ended, p99.9 {:.1} ms late", lateness.expired, lateness.p999_ms));
    Ok(lateness)
}

/// Watches one connection while the service writes a checkpoint. `None` if it wrote none in the time allowed.
fn checkpoint(context: &Context<'_>, filled: &Filled) -> Result<Option<Checkpoint>> {
    let process = &filled.service.process;
    let skip = process.lines_logged();
    let begun = Arc::new(AtomicBool::new(false));
    let written = Arc::new(AtomicBool::new(false));
    let gaps = Rc::new(RefCell::new(Gaps::default()));
    let watched = Renew::new(&filled.leases, 0).noting(&gaps, &written);
    let mut lines = vec![Line::open(filled.service.addr, watched)?];
    for number in 0..PUMPS {
        lines.push(Line::open(filled.service.addr, Pump::new(number, &begun))?);
    }
    let look = || {
        if !begun.load(Ordering::Relaxed) && process.logged(skip, "checkpoint begun").is_some() {
            begun.store(true, Ordering::Relaxed);
        }
        if begun.load(Ordering::Relaxed) && process.logged(skip, "checkpoint written").is_some() {
            written.store(true, Ordering::Relaxed);
        }
        written.load(Ordering::Relaxed)
    };
    drive(lines, &Plan { stop_when: Some(&look), ..Plan::to_the_end(CHECKPOINT_MAX) })?;
    let (Some((begun_at, _)), Some((written_at, line))) =
        (process.logged(skip, "checkpoint begun"), process.logged(skip, "checkpoint written"))
    else {
        context.progress.step("no checkpoint was written in the time allowed");
        return Ok(None);
    };
    let took = written_at - begun_at;
    let gaps = gaps.borrow();
    let checkpoint = Checkpoint {
        bytes: bytes_in(&line).with_context(|| format!("no size in {line}"))?,
        took_ms: milliseconds(took),
        longest_gap_ms: milliseconds(longest_gap(&gaps.acknowledged_at, begun_at, written_at)),
        longest_gap_before_ms: milliseconds(longest_gap(
            &gaps.acknowledged_at,
            begun_at.checked_sub(took).unwrap_or(begun_at),
            begun_at,
        )),
    };
    context.progress.step(&format!(
        "checkpoint of {} MiB in {:.0} ms: the longest pause {:.1} ms",
        checkpoint.bytes >> 20,
        checkpoint.took_ms,
        checkpoint.longest_gap_ms
    ));
    Ok(Some(checkpoint))
}

/// The size in a line of the log.
fn bytes_in(line: &str) -> Option<u64> {
    line.split("bytes=").nth(1)?.split(' ').next()?.parse().ok()
}

/// The longest time without an acknowledgement that touches the span.
fn longest_gap(acknowledged_at: &[Instant], from: Instant, to: Instant) -> Duration {
    let pairs = acknowledged_at.windows(2).filter(|pair| pair[1] >= from && pair[0] <= to);
    pairs.map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_touch_the_span_count() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let acknowledged = [at(0), at(10), at(50), at(52), at(100)];
        assert_eq!(longest_gap(&acknowledged, at(20), at(51)), Duration::from_millis(40));
        assert_eq!(longest_gap(&acknowledged, at(50), at(52)), Duration::from_millis(48));
        assert_eq!(longest_gap(&[], at(0), at(1)), Duration::ZERO);
    }
}
