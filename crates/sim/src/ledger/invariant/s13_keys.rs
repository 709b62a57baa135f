//! S13: one effect per idempotency key, recorded in the same batch as the effect.

use leasehold_engine::{ClaimId, Claimed};

use super::{Check, ensure};
use crate::ledger::{Asks, EntryState, Ledger, is_lock};

pub(crate) fn on_claimed(ledger: &Ledger, claimed: &Claimed, asks: &Asks) -> Check {
    let id = claimed.claim;
    ensure(asks.acquisitions.contains(&id), "S13", || format!("{id:?} was claimed and no caller asked for it"))?;
    let twin = ledger.claims.iter().find(|(_, entry)| {
        let same_key = entry.key.is_some()
            && entry.key.as_ref().map(|key| &key.name) == claimed.key.as_ref().map(|key| &key.name)
            && entry.keeps_key();
        let same_client =
            is_lock(&entry.resource) && entry.client == claimed.client && entry.state == EntryState::Waiting;
        entry.resource == claimed.resource && (same_key || same_client)
    });
    ensure(twin.is_none(), "S13", || format!("{id:?} has the key of {twin:?}"))
}

/// The client's side: asked under the same key, it got two different things, and the first was not given back.
pub(crate) fn on_answers(ledger: &Ledger, first: ClaimId, second: ClaimId) -> Check {
    // Answers may come in any order: of the two, the one that was made first must have lost its key.
    let claimed = |claim: &ClaimId| ledger.claims.get(claim).map_or(0, |entry| entry.claimed);
    let earlier = if claimed(&first) < claimed(&second) { first } else { second };
    let gone = ledger.claims.get(&earlier).is_none_or(|entry| !entry.keeps_key());
    ensure(first == second || gone, "S13", || format!("one key got {first:?} and {second:?}"))
}

/// The journal has the key of every claim that was requested with one.
pub(crate) fn on_grant_answer(ledger: &Ledger, claim: ClaimId, has_key: bool) -> Check {
    let kept =
        ledger.claims.get(&claim).is_none_or(|entry| entry.key.is_some() || !has_key || is_lock(&entry.resource));
    ensure(kept, "S13", || format!("{claim:?} was asked for with a key, the journal has none"))
}
