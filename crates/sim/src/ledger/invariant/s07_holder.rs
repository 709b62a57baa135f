//! S7: only the live holder renews or releases. No claim ends or is renewed unless a caller named it.

use leasehold_engine::{ClaimId, Ending, ResourceKey};

use super::{Check, ensure};
use crate::ledger::{Asks, Entry, State, is_lock};

pub(crate) fn on_renewal(claim: ClaimId, entry: &Entry, asks: &Asks) -> Check {
    let asked = if is_lock(&entry.resource) {
        let client = entry.client.clone().unwrap_or_else(|| "".into());
        asks.locks.contains(&(entry.resource.clone(), client))
    } else {
        asks.renewals.contains(&claim)
    };
    ensure(asked, "S7", || format!("{claim:?} was renewed and no caller asked for that"))
}

pub(crate) fn on_release(claim: ClaimId, entry: &Entry, how: Ending, asks: &Asks) -> Check {
    let asked = match how {
        Ending::Released if is_lock(&entry.resource) => {
            let client = entry.client.clone().unwrap_or_else(|| "".into());
            asks.unlocks.contains(&(entry.resource.clone(), client))
        }
        Ending::Released => asks.releases.contains(&claim),
        _ => asks.revocations.contains(&claim),
    };
    ensure(asked, "S7", || format!("{claim:?} ended {how:?} and its holder did not ask for that"))?;
    let holds = entry.state.holds() || how != Ending::Released;
    ensure(holds && !matches!(entry.state, State::Ended(_)), "S7", || {
        format!("{claim:?} released while {:?}", entry.state)
    })
}

pub(crate) fn on_delete(resource: &ResourceKey, asks: &Asks) -> Check {
    ensure(asks.deletions.contains(resource), "S7", || format!("{resource:?} was deleted and no caller asked for that"))
}
