//! S5: no acknowledged release comes back.

use leasehold_engine::{ClaimId, Fact, Status};

use super::{Check, ensure};
use crate::ledger::{Entry, EntryState, Ledger};

pub(crate) fn on_grant(claim: ClaimId, entry: &Entry) -> Check {
    ensure(entry.state == EntryState::Waiting, "S5", || format!("{claim:?} was granted while {:?}", entry.state))
}

/// After a restart: a claim that ended in the journal holds nothing.
pub(crate) fn on_recovery(ledger: &Ledger, facts: &[Fact]) -> Check {
    for fact in facts {
        let Fact::Claim(fact) = fact else { continue };
        let ended = ledger.claims.get(&fact.claim).and_then(|entry| entry.ended);
        let is_live = matches!(fact.status, Status::Active | Status::Waiting | Status::Grace | Status::Lapsed);
        ensure(ended.is_none() || !is_live, "S5", || format!("{:?} ended {ended:?} and is back", fact.claim))?;
    }
    Ok(())
}
