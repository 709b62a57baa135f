//! The fittings of a resource: a pause, slots that are out of service, and names and data for its slots. Operators set
//! them, few resources have any, and none of them ends a lease: they decide what is granted from now on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::{Moment, Time, Wall};

/// The fittings of one resource, as facts have them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fittings {
    /// While there is one, no slot is granted.
    pub pause: Option<Pause>,
    /// The slots that are not granted, by number; all below the capacity.
    pub out_of_service: BTreeMap<u32, OutOfService>,
    /// The name and data of every slot, in the order of their numbers; `None` while they have only numbers.
    pub slots: Option<Arc<[NamedSlot]>>,
}

/// No slot of a resource is granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pause {
    /// Why, for people to read.
    pub reason: Arc<str>,
    /// Since when nothing is granted. A new reason does not change it.
    pub since: Moment,
    /// When it ends by itself; `Time::NEVER` if it does not.
    pub until: Time,
}

/// One slot is not granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutOfService {
    /// Why, for people to read.
    pub reason: Arc<str>,
    /// Since when. A new reason does not change it.
    pub since: Moment,
}

/// A slot with a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NamedSlot {
    /// Unique among the slots of its resource.
    pub name: Arc<str>,
    /// The operator's JSON for the holder of the slot, as it was sent.
    pub data: Option<Arc<str>>,
}

/// The reason why nothing is granted, as callers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PauseView {
    /// The operator's words.
    pub reason: Arc<str>,
    /// Since when, by the wall clock.
    pub since: Wall,
    /// When it ends by itself, counted from now; `None` if it does not.
    pub rest_us: Option<u64>,
    /// The resource is not paused, but every slot of it is out of service.
    pub is_by_slots: bool,
}

/// The fittings of a resource, as its callers see them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FittingsView {
    /// The pause.
    pub pause: Option<PauseView>,
    /// The slots that are out of service, by number.
    pub out_of_service: Vec<OutOfServiceView>,
    /// The names and data of the slots.
    pub slots: Option<Arc<[NamedSlot]>>,
}

/// A slot that is out of service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OutOfServiceView {
    /// Its number, counted from 0.
    pub slot: u32,
    /// The operator's words.
    pub reason: Arc<str>,
    /// Since when, by the wall clock.
    pub since: Wall,
}

/// A slot of a named list, as a claim shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlotView {
    /// Its number, counted from 0.
    pub number: u32,
    /// Its name and data.
    pub named: NamedSlot,
}

impl Fittings {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pause.is_none() && self.out_of_service.is_empty() && self.slots.is_none()
    }

    /// The name and data of a slot, where slots have names.
    pub fn named(&self, slot: u32) -> Option<&NamedSlot> {
        self.slots.as_ref()?.get(slot as usize)
    }

    pub(crate) fn pause(&mut self, now: Moment, reason: &Arc<str>, until: Time) {
        let since = self.pause.as_ref().map_or(now, |pause| pause.since);
        self.pause = Some(Pause { reason: Arc::clone(reason), since, until });
    }

    /// Takes a slot out of service for this reason, or back into service.
    pub(crate) fn serve_slot(&mut self, now: Moment, slot: u32, reason: Option<&Arc<str>>) {
        match reason {
            Some(reason) => {
                let since = self.out_of_service.get(&slot).map_or(now, |out| out.since);
                self.out_of_service.insert(slot, OutOfService { reason: Arc::clone(reason), since });
            }
            None => {
                self.out_of_service.remove(&slot);
            }
        }
    }

    /// Gives the slots these names. A slot that gets another name is another thing, and so in service.
    pub(crate) fn name_slots(&mut self, slots: Option<&Arc<[NamedSlot]>>) {
        let former = if planted!(PayloadKept) { self.slots.clone() } else { None };
        let before = std::mem::replace(&mut self.slots, slots.cloned());
        let name = |list: &Option<Arc<[NamedSlot]>>, slot: u32| {
            list.as_ref().and_then(|list| Some(Arc::clone(&list.get(slot as usize)?.name)))
        };
        self.out_of_service.retain(|&slot, _| {
            let had = name(&before, slot);
            had.is_none() || had == name(&self.slots, slot)
        });
        if let (Some(former), Some(slots)) = (former, &mut self.slots) {
            let kept = slots.iter().enumerate().map(|(nth, slot)| NamedSlot {
                name: Arc::clone(&slot.name),
                data: former.get(nth).map_or_else(|| slot.data.clone(), |former| former.data.clone()),
            });
            *slots = kept.collect();
        }
    }

    /// There are no slots from this number on.
    pub(crate) fn cut(&mut self, capacity: u32) {
        self.out_of_service.retain(|&slot, _| slot < capacity);
    }

    /// The registration of the resource is gone: its slots are those that it has by default, and a pause stays.
    pub(crate) fn unconfigure(&mut self, keeps_pause: bool) {
        let pause = self.pause.take().filter(|_| keeps_pause);
        *self = Fittings { pause, ..Fittings::default() };
    }

    /// As callers see them at `now`.
    pub(crate) fn view(&self, now: Time) -> FittingsView {
        let line = |(&slot, out): (&u32, &OutOfService)| OutOfServiceView {
            slot,
            reason: Arc::clone(&out.reason),
            since: out.since.wall,
        };
        FittingsView {
            pause: self.pause.as_ref().map(|pause| pause.view(now)),
            out_of_service: self.out_of_service.iter().map(line).collect(),
            slots: self.slots.clone(),
        }
    }

    /// The reason why a resource with this capacity grants nothing, however many slots become free.
    pub(crate) fn standstill(&self, now: Time, capacity: u32) -> Option<PauseView> {
        if let Some(pause) = &self.pause {
            return Some(pause.view(now));
        }
        let (_, last) = self.out_of_service.iter().max_by_key(|(slot, out)| (out.since.at, **slot))?;
        (self.out_of_service.len() >= capacity as usize).then(|| PauseView {
            reason: Arc::clone(&last.reason),
            since: last.since.wall,
            rest_us: None,
            is_by_slots: true,
        })
    }
}

impl Pause {
    fn view(&self, now: Time) -> PauseView {
        let rest_us = (self.until != Time::NEVER).then(|| self.until.since(now));
        PauseView { reason: Arc::clone(&self.reason), since: self.since.wall, rest_us, is_by_slots: false }
    }
}

impl PauseView {
    pub(crate) fn let_pass(&mut self, elapsed_us: u64) {
        self.rest_us = self.rest_us.map(|rest_us| rest_us.saturating_sub(elapsed_us));
    }
}
