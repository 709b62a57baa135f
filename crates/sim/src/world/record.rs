//! The calls and answers of the pools' clients, as a history for the checker that knows nothing else.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_engine::{ClaimId, Command, Kind, Patience, Refusal, Reply, ResourceKey};
use leasehold_journal::Denial;

use super::World;
use super::bodies::Call;
use crate::history::{self, HeardAnswer, Op, Outcome};
use crate::ledger::invariant::{Check, Violation};
use crate::plan::Deployment;

/// A node may go on with a request after it lost its process, by a message that comes late.
const UNKNOWN: Outcome = Outcome::Unknown { gone_us: None };

impl World {
    /// The recorded history must be possible. Careless nodes are left out: they may answer reads of the past.
    pub(super) fn check_history(&self) -> Check {
        if self.plan.is_careless && self.plan.place != Deployment::Embedded {
            return Ok(());
        }
        let skipped = self.claims_of_worn_keys();
        let history: Vec<Op> = self.calls.iter().filter_map(|call| op(call, &skipped, self.plan.is_fitted)).collect();
        history::check(&history).map_err(|contradiction| Violation {
            invariant: "history",
            what: format!("{contradiction}: {:?}", history[contradiction.op]),
        })
    }

    /// A key may be used again once its claim is forgotten. A reader of the answers alone cannot know when.
    fn claims_of_worn_keys(&self) -> BTreeSet<ClaimId> {
        let mut by_key: BTreeMap<_, Vec<ClaimId>> = BTreeMap::new();
        for (claim, entry) in &self.ledger.claims {
            if let Some(key) = &entry.key {
                by_key.entry((&entry.resource, &key.name)).or_default().push(*claim);
            }
        }
        by_key.into_values().filter(|claims| claims.len() > 1).flatten().collect()
    }
}

/// A call as an op; `None` when it tells nothing of pools.
fn op(call: &Call, skipped: &BTreeSet<ClaimId>, is_fitted: bool) -> Option<Op> {
    let asked = asked(&call.command, skipped)?;
    let heard = call.answer.as_ref().zip(call.heard_us);
    let outcome = match heard {
        None | Some(((Err(Denial::StoreLate), _), _)) => UNKNOWN,
        Some(((answer, stamp), end_us)) => match answer {
            Ok(Reply::Lease(view)) if skipped.contains(&view.claim) => UNKNOWN,
            answer => match told(&call.command, answer, is_fitted) {
                Some(answer) => Outcome::Answered { end_us, answer, stamp: *stamp },
                // Its place may be kept, and granted after its answer.
                None if keeps_place(&call.command) => UNKNOWN,
                None => return None,
            },
        },
    };
    Some(Op { client: format!("c{}", call.client), start_us: call.sent_us, call: asked, outcome })
}

fn keeps_place(command: &Command) -> bool {
    matches!(command, Command::Acquire(acquire) if acquire.options.keep_us > 0)
}

fn asked(command: &Command, skipped: &BTreeSet<ClaimId>) -> Option<history::Call> {
    let name = |resource: &ResourceKey| match resource {
        ResourceKey::Pool(id) => Some(format!("{id:x}")),
        ResourceKey::Claim(_) | ResourceKey::Lock(_) => None,
    };
    let lease = |claim: &ClaimId| (!skipped.contains(claim)).then(|| format!("{:x}", claim.0));
    Some(match command {
        Command::Configure { resource, capacity, .. } => {
            history::Call::Configure { resource: name(resource)?, capacity: *capacity }
        }
        Command::NameSlots(naming) => {
            history::Call::Configure { resource: name(&naming.resource)?, capacity: naming.capacity }
        }
        Command::Unconfigure { resource } => history::Call::Delete { resource: name(resource)? },
        Command::Acquire(acquire) if acquire.resource.kind() == Kind::Pool => history::Call::Acquire {
            resource: name(&acquire.resource)?,
            ttl_us: acquire.ttl_us,
            key: acquire.key.as_ref().map(|key| format!("{}#{}", key.name, key.fingerprint)),
        },
        Command::Renew { resource, claim, ttl_us } => {
            history::Call::Renew { resource: name(resource)?, lease: lease(claim)?, ttl_us: *ttl_us }
        }
        Command::Return { resource, claim } => {
            history::Call::Release { resource: name(resource)?, lease: lease(claim)? }
        }
        Command::ViewLease { resource, claim } => {
            history::Call::ViewLease { resource: name(resource)?, lease: lease(claim)? }
        }
        Command::ViewResource { resource } => history::Call::View { resource: name(resource)? },
        _ => return None,
    })
}

fn told(command: &Command, answer: &Result<Reply, Denial>, is_fitted: bool) -> Option<HeardAnswer> {
    Some(match answer {
        Ok(Reply::Lease(view)) => {
            HeardAnswer::Held { lease: format!("{:x}", view.claim.0), slot: view.slot, token: view.token.0 }
        }
        Ok(Reply::Returned(was_held)) => HeardAnswer::Released(*was_held),
        Ok(Reply::Unconfigured(was_there)) => HeardAnswer::Deleted(*was_there),
        Ok(Reply::Resource(view)) => match command {
            Command::Configure { .. } | Command::NameSlots(_) => HeardAnswer::Configured,
            _ => HeardAnswer::Seen { capacity: view.capacity, in_use: view.in_use },
        },
        // A checker that knows of no pauses takes a refusal for a full pool.
        Err(Denial::Refused(Refusal::NoneFree { .. })) if is_fitted => return None,
        Err(Denial::Refused(Refusal::NoneFree { .. })) => match command {
            // A waiter is refused as of the end of its wait, which the answer does not tell.
            Command::Acquire(acquire) if acquire.patience == (Patience::For { wait_us: 0 }) => HeardAnswer::Full,
            _ => return None,
        },
        Err(Denial::Refused(Refusal::NotHeld { .. } | Refusal::NoSuchClaim)) => HeardAnswer::NotHeld,
        Err(Denial::Refused(Refusal::NoSuchResource)) => HeardAnswer::NoResource,
        _ => return None,
    })
}
