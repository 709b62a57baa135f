//! S9: time in which renewals could not be accepted is not charged to leases.

use leasehold_engine::ClaimId;

use super::{Check, ensure};
use crate::ledger::{Entry, When};

pub(crate) fn on_expiry(claim: ClaimId, entry: &Entry, when: When) -> Check {
    let Some(lease) = entry.leases.last() else { return Ok(()) };
    let passed_us = when.fair_us.saturating_sub(lease.when.fair_us);
    let allowed_us = lease.ttl_us / 1000 + 2;
    ensure(passed_us + allowed_us >= lease.ttl_us, "S9", || {
        format!("{claim:?} was charged {} us, only {passed_us} us could be used to renew it", lease.ttl_us)
    })
}
