//! L4: after k outages a lease that is not renewed ends within ttl + outages + k·1 s.

use super::{Check, ensure};
use crate::ledger::{EntryState, Ledger, When};

const SLACK_US: u64 = 400_000;

pub(crate) fn check(ledger: &Ledger, now: When) -> Check {
    for (claim, entry) in ledger.living() {
        let (EntryState::Active, Some(lease)) = (entry.state, entry.leases.last()) else { continue };
        let served_us = now.served_us.saturating_sub(lease.when.served_us);
        let outages = now.outages.saturating_sub(lease.when.outages);
        let allowed_us = lease.ttl_us + lease.ttl_us / 1000 + outages * 1_100_000 + SLACK_US;
        ensure(served_us <= allowed_us, "L4", || {
            format!("{claim:?} of {} us lives after {served_us} us of service and {outages} outages", lease.ttl_us)
        })?;
    }
    Ok(())
}
