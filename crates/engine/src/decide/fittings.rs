//! Pausing a resource, taking slots out of service, naming slots. None of it ends a lease: it decides what is granted
//! from now on.

use std::sync::Arc;

use crate::change::Change;
use crate::command::{Labeling, NameSlots};
use crate::fittings::{Fittings, NamedSlot};
use crate::ids::{Kind, ResourceKey};
use crate::limits::OUT_OF_SERVICE_MAX;
use crate::reply::{Answer, Refusal, Reply, ResourceView};
use crate::state::{Rix, bytes, default_capacity};
use crate::time::{Moment, Time};
use crate::{Engine, Outbox};

impl Engine {
    pub(crate) fn pause(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        reason: Arc<str>,
        for_us: Option<u64>,
        out: &mut Outbox,
    ) -> Answer {
        self.refuse_fitting(resource)?;
        let until = for_us.map_or(Time::NEVER, |for_us| now.at.plus(for_us));
        let is_so = self.fittings(resource).and_then(|fittings| fittings.pause.as_ref());
        if is_so.is_none_or(|pause| (&pause.reason, pause.until) != (&reason, until)) {
            self.make_room_for_fittings(now, resource, out, |fittings| fittings.pause(now, &reason, until))?;
            self.commit(now, Change::Paused { resource: resource.clone(), reason, until }, out);
        }
        self.answer_resource(now, resource)
    }

    pub(crate) fn resume(&mut self, now: Moment, resource: &ResourceKey, out: &mut Outbox) -> Answer {
        if resource.kind() == Kind::Pool {
            self.known(resource)?;
        }
        let paused = self
            .state
            .resource(resource)
            .filter(|&rix| self.state.resources[rix].fittings().is_some_and(|fittings| fittings.pause.is_some()));
        if let Some(rix) = paused {
            self.end_pause(now, rix, out);
        }
        Ok(Reply::Resumed(paused.is_some()))
    }

    /// Ends a pause, and grants to the claims that waited.
    pub(crate) fn end_pause(&mut self, now: Moment, rix: Rix, out: &mut Outbox) {
        let resource = self.state.resources[rix].key.clone();
        self.commit(now, Change::Resumed { resource }, out);
        if !planted!(LostWakeUpOnResume) {
            self.settle(now, rix, out);
        }
    }

    pub(crate) fn serve_slot(
        &mut self,
        now: Moment,
        resource: ResourceKey,
        slot: u32,
        reason: Option<Arc<str>>,
        out: &mut Outbox,
    ) -> Answer {
        assert!(resource.kind() != Kind::Lock, "a lock is paused as a whole");
        self.refuse_fitting(&resource)?;
        let known = self.state.resource(&resource).map(|rix| self.state.resources[rix].capacity);
        let capacity = known.unwrap_or_else(|| default_capacity(resource.kind()));
        if slot >= capacity {
            return Err(Refusal::NoSuchSlot { capacity });
        }
        let marked = self.fittings(&resource).map(|fittings| &fittings.out_of_service);
        let had = marked.and_then(|marked| marked.get(&slot)).map(|out| &out.reason);
        if had != reason.as_ref() {
            if had.is_none() && marked.is_some_and(|marked| marked.len() >= OUT_OF_SERVICE_MAX) {
                return Err(Refusal::TooManyOutOfService { limit: OUT_OF_SERVICE_MAX });
            }
            self.make_room_for_fittings(now, &resource, out, |fittings| {
                fittings.serve_slot(now, slot, reason.as_ref());
            })?;
            self.commit(now, Change::SlotServed { resource: resource.clone(), slot, out: reason }, out);
            if let Some(rix) = self.state.resource(&resource) {
                self.settle(now, rix, out);
            }
        }
        match self.answer_resource(now, &resource) {
            // No claim and no setting refers to it any more.
            Err(Refusal::NoSuchResource) => Ok(Reply::Resource(ResourceView::unused(resource, capacity))),
            answer => answer,
        }
    }

    pub(crate) fn name_slots(&mut self, now: Moment, naming: NameSlots, out: &mut Outbox) -> Answer {
        let NameSlots { resource, capacity, slots, label } = naming;
        assert!(slots.as_ref().is_none_or(|slots| slots.len() == capacity as usize), "every slot has a name, or none");
        self.refuse_configuring(&resource)?;
        self.refuse_renaming(&resource, slots.as_deref())?;
        let fittings = self.more_fittings(&resource, |fittings| fittings.name_slots(slots.as_ref()));
        self.make_room_for_resource(now, &resource, &label, fittings, out)?;
        let rix = self.set_capacity(now, &resource, capacity, label, out);
        let had = self.state.resources[rix].fittings().and_then(|fittings| fittings.slots.as_ref());
        if had != slots.as_ref() {
            self.commit(now, Change::SlotsNamed { resource, slots }, out);
        }
        self.settle(now, rix, out);
        Ok(Reply::Resource(self.state.view_resource(now, rix)))
    }

    /// A holder was told the name of its slot, so that a slot that is held keeps it.
    fn refuse_renaming(&self, resource: &ResourceKey, slots: Option<&[NamedSlot]>) -> Result<(), Refusal> {
        let Some(rix) = self.state.resource(resource).filter(|_| !planted!(RenamedWhileHeld)) else { return Ok(()) };
        let resource = &self.state.resources[rix];
        let named = |slot: u32| resource.fittings().and_then(|fittings| fittings.named(slot)).map(|slot| &slot.name);
        for (slot, _) in resource.slots.iter() {
            let name = slots.and_then(|slots| slots.get(slot as usize)).map(|slot| &slot.name);
            let is_gone = slots.is_some() && name.is_none();
            if is_gone || (named(slot).is_some() && named(slot) != name) {
                return Err(Refusal::SlotHeld { slot, name: named(slot).cloned() });
            }
        }
        Ok(())
    }

    /// A pool has to exist; other resources are made by what is said about them.
    fn refuse_fitting(&self, resource: &ResourceKey) -> Result<(), Refusal> {
        if resource.kind() == Kind::Pool {
            self.known(resource)?;
        }
        self.refuse_past_resource_limit(resource)?;
        if self.state.resource(resource).is_none() {
            self.refuse_growth()?;
        }
        Ok(())
    }

    fn fittings(&self, resource: &ResourceKey) -> Option<&Fittings> {
        self.state.resources[self.state.resource(resource)?].fittings()
    }

    fn make_room_for_fittings(
        &mut self,
        now: Moment,
        resource: &ResourceKey,
        out: &mut Outbox,
        change: impl FnOnce(&mut Fittings),
    ) -> Result<(), Refusal> {
        let more = self.more_fittings(resource, change);
        self.make_room_for_resource(now, resource, &Labeling::Kept, more, out)
    }

    /// How many bytes more the fittings take up after this change.
    fn more_fittings(&self, resource: &ResourceKey, change: impl FnOnce(&mut Fittings)) -> u64 {
        let had = self.fittings(resource);
        let mut then = had.cloned().unwrap_or_default();
        change(&mut then);
        bytes::of_fittings(Some(&then)).saturating_sub(bytes::of_fittings(had))
    }
}
