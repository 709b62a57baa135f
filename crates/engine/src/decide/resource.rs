//! Giving a resource a capacity, taking the capacity away, and revoking grants.

use crate::change::{Change, Ending};
use crate::command::{Labeling, Revocable};
use crate::ids::{Kind, ResourceKey};
use crate::reply::{Answer, Refusal, Reply};
use crate::state::{Cix, Rix};
use crate::time::Moment;
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn configure(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        capacity: u32,
        label: Labeling,
        out: &mut Outbox,
    ) -> Answer {
        let named = self.state.resource(resource).and_then(|rix| self.state.resources[rix].fittings()?.slots.as_ref());
        if let Some(slots) = named.filter(|slots| slots.len() != capacity as usize) {
            let capacity = u32::try_from(slots.len()).expect("named slots are few");
            return Err(Refusal::SlotsNamed { capacity });
        }
        self.refuse_configuring(resource)?;
        self.make_room_for_resource(now, resource, &label, 0, out)?;
        let rix = self.set_capacity(now, resource, capacity, label, out);
        if !planted!(LostWakeUpOnRaise) {
            self.settle(now, rix, out);
        }
        Ok(Reply::Resource(self.state.view_resource(now, rix)))
    }

    pub(crate) fn refuse_configuring(&self, resource: &ResourceKey) -> Result<(), Refusal> {
        assert!(resource.kind() != Kind::Lock, "a lock has one slot");
        self.refuse_past_resource_limit(resource)?;
        let known = self.state.resource(resource).map(|rix| &self.state.resources[rix]);
        if known.is_none_or(|known| !known.configured) {
            self.refuse_growth()?;
        }
        Ok(())
    }

    /// Writes down a capacity and a label that differ from those that the resource has.
    pub(crate) fn set_capacity(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        capacity: u32,
        label: Labeling,
        out: &mut Outbox,
    ) -> Rix {
        let known = self.state.resource(resource).map(|rix| &self.state.resources[rix]);
        if known.is_none_or(|known| !known.configured || known.capacity != capacity) {
            self.commit(now, Change::Configured { resource: resource.clone(), capacity }, out);
        }
        let rix = self.state.resource(resource).expect("it was just configured");
        if let Labeling::Set(label) = label
            && self.state.resources[rix].label() != label.as_ref()
        {
            self.commit(now, Change::Labeled { resource: resource.clone(), label }, out);
        }
        rix
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

    /// Ends this grant or wait, in every dialect. `false` when it had ended before.
    pub(crate) fn revoke(&mut self, now: Moment, resource: &ResourceKey, which: Revocable, out: &mut Outbox) -> bool {
        let Some(cix) = self.revocable(resource, which) else { return false };
        self.assert_touched(now, cix);
        self.end(now, cix, Ending::Revoked, out);
        true
    }

    /// The claim that an operator means.
    pub(crate) fn revocable(&self, resource: &ResourceKey, which: Revocable) -> Option<Cix> {
        let rix = self.state.resource(resource)?;
        match which {
            Revocable::Grant(token) => self.state.holder_by(rix, token),
            Revocable::Place(order) => self.state.waiting_at(rix, order),
        }
    }
}
