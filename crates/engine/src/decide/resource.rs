//! Giving a resource a capacity, taking the capacity away, and revoking grants.

use crate::change::{Change, Ending};
use crate::ids::{Kind, ResourceKey, Token};
use crate::reply::{Answer, Reply};
use crate::state::Cix;
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn configure(&mut self, now: Moment, resource: &ResourceKey, capacity: u32, out: &mut Outbox) -> Answer {
        assert!(resource.kind() != Kind::Lock, "a lock has one slot");
        self.refuse_past_resource_limit(resource)?;
        let known = self.state.resource(resource).map(|rix| &self.state.resources[rix]);
        if known.is_none_or(|known| !known.configured) {
            self.refuse_growth()?;
        }
        self.make_room_for_resource(now, resource, out)?;
        let known = self.state.resource(resource).map(|rix| &self.state.resources[rix]);
        if known.is_none_or(|known| !known.configured || known.capacity != capacity) {
            self.commit(now, Change::Configured { resource: resource.clone(), capacity }, out);
        }
        let rix = self.state.resource(resource).expect("it was just configured");
        if !planted!(LostWakeUpOnRaise) {
            self.settle(now, rix, out);
        }
        Ok(Reply::Resource(self.state.view_resource(rix)))
    }

    pub(crate) fn unconfigure(&mut self, now: Moment, resource: ResourceKey, out: &mut Outbox) -> Reply {
        let Some(rix) = self.state.resource(&resource) else { return Reply::Unconfigured(false) };
        if !self.state.resources[rix].configured {
            return Reply::Unconfigured(false);
        }
        if resource.kind() == Kind::Pool {
            // Waiters end first: a slot freed here must not go to one of them.
            let waiting: Vec<Cix> = self.state.queue(rix).collect();
            let holding: Vec<Cix> = self.state.resources[rix].slots.iter().map(|(_, cix)| cix).collect();
            for cix in waiting.into_iter().chain(holding) {
                self.end_only(now, cix, Ending::Deleted, out);
            }
        }
        self.commit(now, Change::Unconfigured { resource }, out);
        // A claimed resource that had no slot at all has one again.
        self.settle(now, rix, out);
        Reply::Unconfigured(true)
    }

    /// Ends the grant with this token, in every dialect. `false` when the grant had ended before.
    pub(crate) fn revoke(&mut self, now: Moment, resource: &ResourceKey, token: Token, out: &mut Outbox) -> bool {
        let holder = self.state.resource(resource).and_then(|rix| self.state.holder_by(rix, token));
        let Some(cix) = holder else { return false };
        self.assert_touched(now, cix);
        self.end(now, cix, Ending::Revoked, out);
        true
    }
}
