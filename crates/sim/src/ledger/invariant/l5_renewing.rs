//! L5: a stall revokes no lease that its holder renews. A renewal that was refused came too late by the time in which
//! it could have been taken.

use leasehold_engine::{ClaimId, Ending};

use super::{Check, ensure};
use crate::ledger::Ledger;

/// A client was told that its lease is gone; `arrived_fair_us` is when its renewal reached the owner.
pub(crate) fn on_refusal(ledger: &Ledger, claim: ClaimId, arrived_fair_us: u64) -> Check {
    let Some(entry) = ledger.claims.get(&claim) else { return Ok(()) };
    let (Some(lease), Some((_, Ending::Expired))) = (entry.leases.last(), entry.ended) else { return Ok(()) };
    let passed_us = arrived_fair_us.saturating_sub(lease.when.fair_us);
    ensure(passed_us + lease.ttl_us / 1000 + 2 >= lease.ttl_us, "L5", || {
        format!("{claim:?} of {} us was gone {passed_us} us of service after it was renewed", lease.ttl_us)
    })
}
