//! The naive model's pauses, slots out of service and names of slots.

use std::sync::Arc;

use leasehold_engine::{
    Answer, Fittings, Kind, Moment, NameSlots, NamedSlot, OutOfService, Pause, PauseView, Refusal, Reply, ResourceKey,
    Time,
};

use crate::naive::Naive;
use crate::naive_rows::default_capacity;

impl Naive {
    /// A copy of the fittings of a resource; empty where it has none.
    pub(crate) fn fittings(&self, key: &ResourceKey) -> Fittings {
        let row = self.resources.iter().find(|row| row.resource == *key);
        row.and_then(|row| row.fittings.as_deref().cloned()).unwrap_or_default()
    }

    pub(crate) fn refit(&mut self, key: &ResourceKey, fittings: Fittings) {
        let is_empty = fittings == Fittings::default();
        self.resource_row(key).fittings = (!is_empty).then(|| Box::new(fittings));
    }

    /// The pause that ends first by itself. Of several at one instant, the order makes no difference.
    pub(crate) fn next_resumed(&self) -> Option<(Time, ResourceKey)> {
        let ends = self.resources.iter().filter_map(|row| {
            let until = row.fittings.as_ref()?.pause.as_ref()?.until;
            (until != Time::NEVER).then(|| (until, row.resource.clone()))
        });
        ends.min()
    }

    pub(crate) fn end_pause(&mut self, now: Moment, key: &ResourceKey) {
        let fittings = self.fittings(key);
        self.refit(key, Fittings { pause: None, ..fittings });
        self.settle(now, key);
        self.drop_unused_resources();
    }

    pub(crate) fn pause(&mut self, now: Moment, key: &ResourceKey, reason: Arc<str>, for_us: Option<u64>) -> Answer {
        self.refuse_fitting(key)?;
        let mut fittings = self.fittings(key);
        let since = fittings.pause.as_ref().map_or(now, |pause| pause.since);
        let until = for_us.map_or(Time::NEVER, |for_us| now.at.plus(for_us));
        fittings.pause = Some(Pause { reason, since, until });
        self.make_room_for_fittings(key, &fittings)?;
        self.refit(key, fittings);
        self.answer_resource(now, key)
    }

    pub(crate) fn resume(&mut self, now: Moment, key: &ResourceKey) -> Answer {
        self.refuse_unknown_pool(key)?;
        let was_paused = self.fittings(key).pause.is_some();
        if was_paused {
            self.end_pause(now, key);
        }
        Ok(Reply::Resumed(was_paused))
    }

    pub(crate) fn serve_slot(&mut self, now: Moment, key: &ResourceKey, slot: u32, out: Option<Arc<str>>) -> Answer {
        self.refuse_fitting(key)?;
        let known = self.resources.iter().find(|row| row.resource == *key);
        let capacity = known.map_or(default_capacity(key), |row| row.capacity);
        if slot >= capacity {
            return Err(Refusal::NoSuchSlot { capacity });
        }
        let mut fittings = self.fittings(key);
        let since = fittings.out_of_service.remove(&slot).map_or(now, |out| out.since);
        if let Some(reason) = out {
            fittings.out_of_service.insert(slot, OutOfService { reason, since });
        }
        if fittings != self.fittings(key) {
            self.make_room_for_fittings(key, &fittings)?;
            self.refit(key, fittings);
            self.settle(now, key);
            self.drop_unused_resources();
        }
        match self.answer_resource(now, key) {
            Err(Refusal::NoSuchResource) => Ok(Reply::Resource(self.view_resource(now, key))),
            answer => answer,
        }
    }

    pub(crate) fn name_slots(&mut self, now: Moment, naming: NameSlots) -> Answer {
        let NameSlots { resource: key, capacity, slots, label } = naming;
        self.refuse_configuring(&key)?;
        let mut fittings = self.fittings(&key);
        let name = |slots: &Option<Arc<[NamedSlot]>>, slot: u32| {
            slots.as_ref().and_then(|slots| slots.get(slot as usize)).map(|slot| Arc::clone(&slot.name))
        };
        let mut held: Vec<u32> = self.holders(&key).map(|row| row.slot).collect();
        held.sort_unstable();
        for slot in held {
            let (had, gets) = (name(&fittings.slots, slot), name(&slots, slot));
            let stays = gets == had || (had.is_none() && slots.is_some() && gets.is_some());
            if !stays && (had.is_some() || slots.is_some()) {
                return Err(Refusal::SlotHeld { slot, name: had });
            }
            if slots.is_some() && gets.is_none() {
                return Err(Refusal::SlotHeld { slot, name: had });
            }
        }
        let before = std::mem::replace(&mut fittings.slots, slots.clone());
        fittings
            .out_of_service
            .retain(|&slot, _| name(&before, slot).is_none_or(|had| name(&slots, slot) == Some(had)));
        let more = self.more_for_fittings(&key, &fittings);
        self.make_room_for_label(&key, &label, more)?;
        fittings.out_of_service.retain(|&slot, _| slot < capacity);
        self.set_capacity(&key, capacity, label);
        self.refit(&key, fittings);
        self.settle(now, &key);
        Ok(Reply::Resource(self.view_resource(now, &key)))
    }

    fn refuse_unknown_pool(&self, key: &ResourceKey) -> Result<(), Refusal> {
        let is_known = self.resources.iter().any(|row| row.resource == *key && row.configured);
        if key.kind() == Kind::Pool && !is_known { Err(Refusal::NoSuchResource) } else { Ok(()) }
    }

    fn refuse_fitting(&self, key: &ResourceKey) -> Result<(), Refusal> {
        self.refuse_unknown_pool(key)?;
        self.refuse_new_resource(key)?;
        let is_new = !self.resources.iter().any(|row| row.resource == *key);
        if is_new && self.is_store_full { Err(Refusal::StoreFull) } else { Ok(()) }
    }

    /// The reason why a resource grants nothing: it is paused, or each of its slots is out of service.
    pub(crate) fn standstill(&self, now: Moment, key: &ResourceKey) -> Option<PauseView> {
        let fittings = self.fittings(key);
        if let Some(pause) = fittings.pause {
            let rest_us = (pause.until != Time::NEVER).then(|| pause.until.since(now.at));
            return Some(PauseView { reason: pause.reason, since: pause.since.wall, rest_us, is_by_slots: false });
        }
        let capacity = self.capacity(key);
        if capacity == 0 || !(0..capacity).all(|slot| fittings.out_of_service.contains_key(&slot)) {
            return None;
        }
        let last = fittings.out_of_service.iter().max_by_key(|(slot, out)| (out.since.at, **slot))?.1;
        Some(PauseView { reason: last.reason.clone(), since: last.since.wall, rest_us: None, is_by_slots: true })
    }
}
