//! S4: no acknowledged grant is lost, neither by a restart nor by being handed back behind its holder's back.

use leasehold_engine::{ClaimId, Fact, Status};

use super::{Check, ensure};
use crate::ledger::{Asks, Entry, EntryState, Ledger};

pub(crate) fn on_hand_back(claim: ClaimId, entry: &Entry, asks: &Asks) -> Check {
    // An earlier claim of this id, which a relay asked for again, may have been heard of.
    let is_known = asks.acknowledged.get(&claim).is_some_and(|position| *position >= entry.claimed);
    ensure(!is_known, "S4", || format!("{claim:?} was handed back, but its holder knows of it: {entry:?}"))
}

/// After a restart: everything that was acknowledged and has not ended in the journal is in the recovered state.
pub(crate) fn on_recovery(ledger: &Ledger, asks: &Asks, head: u64, facts: &[Fact]) -> Check {
    ensure(head >= ledger.head, "S4", || format!("the journal ended at {}, after a restart at {head}", ledger.head))?;
    for claim in asks.acknowledged.keys() {
        let Some(entry) = ledger.claims.get(claim) else {
            return ensure(false, "S4", || format!("{claim:?} was acknowledged and is not in the journal"));
        };
        if entry.state != EntryState::Active && entry.state != EntryState::Waiting {
            continue;
        }
        let found = facts.iter().find_map(|fact| match fact {
            Fact::Claim(fact) if fact.claim == *claim => Some(fact),
            _ => None,
        });
        let status = if entry.state == EntryState::Active { Status::Active } else { Status::Waiting };
        let token = entry.granted.map_or(0, |held| held.token);
        let is_there = found.is_some_and(|fact| fact.status == status && fact.token.0 == token);
        ensure(is_there, "S4", || format!("{claim:?} was acknowledged; after a restart it is {found:?}"))?;
    }
    Ok(())
}
