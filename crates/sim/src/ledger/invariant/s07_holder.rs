//! S7: only the live holder renews or releases. No claim ends or is renewed unless a caller named it.

use std::sync::Arc;

use leasehold_engine::{ClaimId, Ending, ResourceKey};

use super::{Check, ensure};
use crate::ledger::{Asks, Entry, EntryState, is_lock};

pub(crate) fn on_renewal(claim: ClaimId, entry: &Entry, asks: &Asks) -> Check {
    let asked = if is_lock(&entry.resource) {
        let client = entry.client.clone().unwrap_or_else(|| "".into());
        asks.locks.contains(&(entry.resource.clone(), client))
    } else {
        // A caller that comes back to a place that was granted meanwhile asks under the same key.
        let uses = entry.key.as_ref().and_then(|key| asks.keys.get(&(entry.resource.clone(), Arc::clone(&key.name))));
        let is_back = entry.is_away && uses.is_some_and(|uses| *uses > 1);
        // A question confirms a grant, and so does a copy of the request.
        let is_confirmed = entry.confirm_us > 0 && (asks.questions.contains(&claim) || entry.key.is_some());
        asks.renewals.contains(&claim) || is_back || is_confirmed
    };
    ensure(asked, "S7", || format!("{claim:?} was renewed and no caller asked for that"))
}

pub(crate) fn on_release(claim: ClaimId, entry: &Entry, how: Ending, asks: &Asks) -> Check {
    let asked = match how {
        Ending::Released if is_lock(&entry.resource) => {
            let client = entry.client.clone().unwrap_or_else(|| "".into());
            let token = entry.granted.map_or(0, |held| held.token);
            asks.unlocks.contains(&(entry.resource.clone(), Arc::clone(&client)))
                || asks.unlocks_of.contains(&(entry.resource.clone(), client, token))
        }
        Ending::Released => asks.releases.contains(&claim),
        _ => asks.revocations.contains(&claim),
    };
    ensure(asked, "S7", || format!("{claim:?} ended {how:?} and its holder did not ask for that"))?;
    let holds = entry.state.holds() || how != Ending::Released;
    ensure(holds && !matches!(entry.state, EntryState::Ended(_)), "S7", || {
        format!("{claim:?} released while {:?}", entry.state)
    })
}

pub(crate) fn on_delete(resource: &ResourceKey, asks: &Asks) -> Check {
    ensure(asks.deletions.contains(resource), "S7", || format!("{resource:?} was deleted and no caller asked for that"))
}

/// A lock's client that names a token renews that grant and no other.
pub(crate) fn on_renewed_by_token(asked: u64, shown: u64) -> Check {
    ensure(asked == shown, "S7", || format!("token {asked} was to be renewed, the answer is about {shown}"))
}
