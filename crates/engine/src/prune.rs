//! Removing things for good, on behalf of an operator and outside of serving. Each removal consists of ordinary
//! changes, so that the next in line gets the slot that becomes free, and tokens only rise.

use crate::change::{Change, Ending};
use crate::ids::{ClaimId, ResourceKey};
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    /// Ends a claim if it has not ended, and forgets it. `false` when there is no such claim.
    pub fn prune_claim(&mut self, now: Moment, claim: ClaimId, out: &mut Outbox) -> bool {
        let Some(cix) = self.state.claim(claim) else { return false };
        if self.state.claims[cix].is_live() {
            self.end(now, cix, Ending::Revoked, out);
        }
        if self.state.claim(claim).is_some() {
            self.commit(now, Change::Forgotten { claim }, out);
        }
        true
    }

    /// Removes the registration of a resource that no claim refers to. `false` when there is no such resource of that
    /// kind.
    pub fn prune_resource(&mut self, now: Moment, resource: &ResourceKey, out: &mut Outbox) -> bool {
        let unused = |engine: &Engine| {
            let known = &engine.state.resources[engine.state.resource(resource)?];
            Some(known.configured && known.claims == 0)
        };
        if unused(self) != Some(true) {
            return false;
        }
        self.commit(now, Change::Unconfigured { resource: resource.clone() }, out);
        true
    }
}
