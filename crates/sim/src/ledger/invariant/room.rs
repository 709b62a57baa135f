//! Disk full: grants are refused first, so that releases and expiries still fit; holders keep their leases.

use leasehold_engine::{Command, Renewal, Time};

use super::{Check, ensure};
use crate::ledger::{EntryState, Ledger, is_lock};

pub(crate) fn on_claimed(was_low: bool) -> Check {
    ensure(!was_low, "room", || "a claim was taken on while the disk is nearly full".to_owned())
}

/// A call was refused because the disk is nearly full, while all changes were durable: it asked for something new.
pub(crate) fn on_refusal(ledger: &Ledger, command: &Command, at: Time) -> Check {
    let acquire = match command {
        Command::Acquire(acquire) => acquire,
        // Each of these may be the first thing that is known of a resource.
        Command::Configure { .. } | Command::NameSlots(_) | Command::Pause { .. } | Command::ServeSlot { .. } => {
            return Ok(());
        }
        other => return ensure(false, "room", || format!("nothing new is taken on by {other:?}")),
    };
    let its_own = ledger.living().find(|(_, entry)| {
        let same_key = acquire.key.is_some() && entry.key == acquire.key;
        // A client that asks as another client would wants something new.
        let is_stranger = acquire.options.renewal == Renewal::Never && entry.state != EntryState::Waiting;
        let same_client = is_lock(&entry.resource) && entry.client == acquire.client && !is_stranger;
        let is_over = match entry.state {
            EntryState::Waiting => entry.wait_until <= at,
            EntryState::Active => entry.deadline() <= at,
            EntryState::Grace | EntryState::Lapsed | EntryState::Ended(_) => true,
        };
        entry.resource == acquire.resource && (same_key || same_client) && !is_over
    });
    ensure(its_own.is_none(), "room", || {
        format!("the disk is nearly full, and a caller was refused its own {its_own:?}")
    })
}
