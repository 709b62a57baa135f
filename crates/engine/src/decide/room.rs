//! Room in bytes for new claims and resources. The engine asks for room only where it is about to make a claim or a
//! resource, so that a renewal, a repeated request and every command that ends a claim never depend on it. Ended claims
//! make room first, the oldest without an idempotency key before those with one. A claim that still does not fit is
//! refused.

use crate::command::Acquire;
use crate::ids::ResourceKey;
use crate::reply::Refusal;
use crate::state::bytes::{self, SPARE_CLAIM, SPARE_RESOURCE};
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    /// Room for this claim, and for its resource if it is not known yet. This may forget ended claims, and with them
    /// lapsed locks and resources that nothing else referred to: look them up again afterwards.
    pub(crate) fn make_room_for_claim(
        &mut self,
        now: Moment,
        acquire: &Acquire,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Acquire { resource, client, principal, key, metadata, .. } = acquire;
        let bytes = bytes::of_claim(
            resource.kind(),
            client.as_deref(),
            principal.as_deref(),
            key.as_ref(),
            metadata.as_deref(),
        );
        self.make_room(now, resource, Some(bytes), out)
    }

    /// Room for this resource, if it is not known yet.
    pub(crate) fn make_room_for_resource(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if self.state.resource(resource).is_some() {
            return Ok(());
        }
        self.make_room(now, resource, None, out)
    }

    fn make_room(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        claim_bytes: Option<u64>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let limit_bytes = self.limits.state_bytes_max;
        // With room for a new resource there is room whether or not it is new.
        if self.state.bytes_used() + claim_bytes.unwrap_or(0) + bytes::of_resource(resource) <= limit_bytes {
            return Ok(());
        }
        // Bounded like a step of expiries: a caller whose claim is as large as thousands of others has to try again.
        for _ in 0..self.limits.due_per_step {
            if self.used_with(resource, claim_bytes) <= limit_bytes {
                return Ok(());
            }
            let Some(&(_, _, cix)) = self.state.retained.least_missed() else { break };
            self.forget(now, cix, out);
        }
        if self.used_with(resource, claim_bytes) <= limit_bytes {
            Ok(())
        } else {
            Err(Refusal::StateFull { limit_bytes })
        }
    }

    /// The bytes that the state would use with one more claim of this size. Holes are filled first.
    fn used_with(&self, resource: &ResourceKey, claim_bytes: Option<u64>) -> u64 {
        let state = &self.state;
        let mut used = state.bytes_used();
        if let Some(bytes) = claim_bytes {
            used += bytes - if state.claims.holes() > 0 { SPARE_CLAIM } else { 0 };
        }
        if state.resource(resource).is_none() {
            used += bytes::of_resource(resource) - if state.resources.holes() > 0 { SPARE_RESOURCE } else { 0 };
        }
        used
    }
}
