//! Many leases that end at the same instant: none of them early, and how late the last one is.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::Context;
use crate::drive::{Line, Plan, drive};
use crate::figures::{float_len, milliseconds};
use crate::peer::Leasehold;
use crate::script::{Fill, Leases, Ttl, make_pools};

const CONNECTIONS: usize = 64;
/// Leases a second that any machine is taken to manage, for choosing the deadline.
const FILL_RATE_PER_S: f64 = 8_000.0;
/// This long before the deadline everything must still be held.
const BEFORE: Duration = Duration::from_millis(100);
const LAST_MAX: Duration = Duration::from_mins(1);
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Clone, Debug, Serialize)]
pub(crate) struct MassExpiry {
    pub(crate) leases: usize,
    /// As seen from outside, so it has one look at the metrics and the length of a request in it.
    pub(crate) last_late_ms: f64,
    /// As the service says, from its histogram.
    pub(crate) late_p999_ms: f64,
}

pub(crate) fn mass_expiry(context: &Context<'_>) -> Result<MassExpiry> {
    let count = context.sizes.expiring;
    let service = Leasehold::start(context.place, "expiry", &[])?;
    make_pools(service.addr, count)?;
    let fill_time = Duration::from_secs_f64(2.0 + float_len(count) / FILL_RATE_PER_S);
    let at = Instant::now() + fill_time;
    let leases = Leases::new(count);
    let lines = (0..CONNECTIONS).map(|_| Line::open(service.addr, Fill::new(&leases, Ttl::Together { at })));
    drive(lines.collect::<Result<_>>()?, &Plan::to_the_end(fill_time))?;
    ensure!(leases.borrow().granted() == count, "this machine is too slow to make {count} leases in {fill_time:?}");

    std::thread::sleep(at.saturating_duration_since(Instant::now() + BEFORE));
    let held = service.metrics()?.number("leasehold_holders")?;
    ensure!(Instant::now() < at, "the metrics took longer than {BEFORE:?}");
    ensure!(held == count as u64, "{held} of {count} leases are left before their deadline");
    // An expiry is counted once it is durable.
    let (last_at, buckets) = loop {
        let buckets = service.metrics()?.buckets("leasehold_expiry_lateness_seconds")?;
        let now = Instant::now();
        if buckets.count() >= count as u64 {
            break (now, buckets);
        }
        ensure!(now < at + LAST_MAX, "{} of {count} leases ended {LAST_MAX:?} after their deadline", buckets.count());
        std::thread::sleep(LOOK_EVERY);
    };
    ensure!(buckets.count() == count as u64, "{} leases ended, there were {count}", buckets.count());
    ensure!(service.metrics()?.number("leasehold_holders")? == 0, "a lease that ended is still held");
    let late_p999_s = buckets.quantile(0.999).context("expiries were counted")?;
    let last_late_ms = milliseconds(last_at.saturating_duration_since(at));
    context.progress.step(&format!("{count} leases on one deadline: the last {last_late_ms:.0} ms late"));
    Ok(MassExpiry { leases: count, last_late_ms, late_p999_ms: late_p999_s * 1e3 })
}
