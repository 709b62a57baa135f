//! Room in bytes for new claims and resources. The engine asks for room only where it is about to make a claim or a
//! resource, so that a renewal, a repeated request and every command that ends a claim never depend on it. Ended claims
//! make room first, the oldest without an idempotency key before those with one. A claim that still does not fit is
//! refused.

use crate::command::{Acquire, Labeling};
use crate::ids::ResourceKey;
use crate::reply::Refusal;
use crate::state::bytes::{self, SPARE_CLAIM, SPARE_RESOURCE, Texts};
use crate::time::Moment;
use crate::{Engine, Outbox};

/// The bytes of what is about to be made, beside its resource.
#[derive(Clone, Copy)]
struct New {
    claim: Option<u64>,
    /// A label, and fittings.
    label: u64,
}

impl Engine {
    /// Room for this claim, and for its resource if it is not known yet. This may forget ended claims, and with them
    /// lapsed locks and resources that nothing else referred to: look them up again afterwards.
    pub(crate) fn make_room_for_claim(
        &mut self,
        now: Moment,
        acquire: &Acquire,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Acquire { resource, client, principal, key, metadata, options, .. } = acquire;
        let texts = Texts {
            client: client.as_deref(),
            principal: principal.as_deref(),
            holder: options.particulars.holder.as_deref(),
            key: key.as_ref().map(|key| &*key.name),
            metadata: metadata.as_deref(),
            is_rare: principal.is_some() || !options.particulars.is_empty(),
        };
        self.make_room(now, resource, New { claim: Some(bytes::of_claim(resource.kind(), &texts)), label: 0 }, out)
    }

    /// Room for this resource, if it is not known yet, for a longer label, and for `fittings` bytes more.
    pub(crate) fn make_room_for_resource(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        label: &Labeling,
        fittings: u64,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let known = self.state.resource(resource);
        let had = known.and_then(|rix| self.state.resources[rix].label());
        let more = match label {
            Labeling::Kept => 0,
            Labeling::Set(label) => {
                bytes::of_label(label.as_deref()).saturating_sub(bytes::of_label(had.map(|label| &**label)))
            }
        };
        let more = more + fittings;
        if known.is_some() && more == 0 {
            return Ok(());
        }
        self.make_room(now, resource, New { claim: None, label: more }, out)
    }

    fn make_room(&mut self, now: Moment, resource: &ResourceKey, new: New, out: &mut Outbox) -> Result<(), Refusal> {
        let limit_bytes = self.limits.state_bytes_max;
        // With room for a new resource there is room whether or not it is new.
        let most = new.claim.unwrap_or(0) + new.label + bytes::of_resource(resource, None);
        if self.state.bytes_used() + most <= limit_bytes {
            return Ok(());
        }
        // Bounded like a step of expiries: a caller whose claim is as large as thousands of others has to try again.
        for _ in 0..self.limits.due_per_step {
            if self.used_with(resource, new) <= limit_bytes {
                return Ok(());
            }
            let Some(&(_, _, cix)) = self.state.retained.least_missed() else { break };
            self.forget(now, cix, out);
        }
        if self.used_with(resource, new) <= limit_bytes { Ok(()) } else { Err(Refusal::StateFull { limit_bytes }) }
    }

    /// The bytes that the state would use with this as well. Holes are filled first.
    fn used_with(&self, resource: &ResourceKey, new: New) -> u64 {
        let state = &self.state;
        let mut used = state.bytes_used() + new.label;
        if let Some(bytes) = new.claim {
            used += bytes - if state.claims.holes() > 0 { SPARE_CLAIM } else { 0 };
        }
        if state.resource(resource).is_none() {
            used += bytes::of_resource(resource, None) - if state.resources.holes() > 0 { SPARE_RESOURCE } else { 0 };
        }
        used
    }
}
