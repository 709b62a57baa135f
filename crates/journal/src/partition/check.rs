//! The bookkeeping of a partition, asserted: it keeps nothing about claims that are gone, so it grows only with the
//! live ones. Tests and simulations call this; it walks everything, so serving does not.

use std::collections::BTreeSet;

use leasehold_engine::{ClaimId, Fact, Status};

use super::Partition;

impl<R> Partition<R> {
    /// Panics with the name of the invariant when one of the engine or of the bookkeeping around it does not hold.
    pub fn check(&self) {
        self.engine.check();
        let live: BTreeSet<ClaimId> = self.engine.facts().iter().filter_map(live_claim).collect();
        let shared = self.company.claims().find(|claim| !live.contains(claim));
        assert!(shared.is_none(), "the company of {shared:?} is kept, and it is no more");
        let awaited = self.parked.claims().find(|claim| !live.contains(claim));
        assert!(awaited.is_none(), "a caller is parked on {awaited:?}, and it is no more");
        self.parked.check();
        assert!(self.turns.is_empty(), "every step takes its turns");
    }
}

/// A claim that waits, holds, or is still named as the last holder.
fn live_claim(fact: &Fact) -> Option<ClaimId> {
    match fact {
        Fact::Claim(claim) if !matches!(claim.status, Status::Ended(_)) => Some(claim.claim),
        Fact::Claim(_) | Fact::Resource(_) | Fact::Counters(_) => None,
    }
}
