//! Giving a resource a capacity and taking it away.

use crate::change::{Change, Ending};
use crate::effect::{Effect, What};
use crate::ids::{Kind, ResourceKey};
use crate::reply::{Answer, Reply};
use crate::state::Cix;
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn configure(&mut self, now: Moment, resource: &ResourceKey, capacity: u32, out: &mut Outbox) -> Answer {
        assert!(resource.kind() != Kind::Lock, "a lock has one slot");
        self.refuse_past_resource_limit(resource)?;
        let known = self.state.resource(resource).map(|rix| &self.state.resources[rix]);
        if known.is_none_or(|known| !known.configured || known.capacity != capacity) {
            self.commit(now, Change::Configured { resource: resource.clone(), capacity }, out);
            let what = What::Configured { capacity };
            out.effects.push(Effect { resource: resource.clone(), claim: None, client: None, what });
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
            // Waiters first: a slot freed here must not go to one of them.
            let waiting: Vec<Cix> = self.state.queue(rix).collect();
            let holding: Vec<Cix> = self.state.resources[rix].slots.iter().map(|(_, cix)| cix).collect();
            for cix in waiting.into_iter().chain(holding) {
                self.end_only(now, cix, Ending::Deleted, out);
            }
        }
        self.commit(now, Change::Unconfigured { resource: resource.clone() }, out);
        out.effects.push(Effect { resource, claim: None, client: None, what: What::Unconfigured });
        // A claimed resource that had no slot at all has one again.
        self.settle(now, rix, out);
        Reply::Unconfigured(true)
    }
}
