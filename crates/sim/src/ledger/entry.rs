//! One claim and one resource, according to the journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_engine::{ClaimId, Ending, IdempotencyKey, Kind, NamedSlot, ResourceKey, Time, Token};

use super::When;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    Waiting,
    Active,
    Grace,
    Lapsed,
    Ended(Ending),
}

impl EntryState {
    pub(crate) fn holds(self) -> bool {
        matches!(self, EntryState::Active | EntryState::Grace | EntryState::Lapsed)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseLog {
    pub(crate) position: u64,
    pub(crate) deadline: Time,
    pub(crate) ttl_us: u64,
    pub(crate) when: When,
}

/// A grant as it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) position: u64,
    pub(crate) slot: u32,
    pub(crate) token: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) resource: ResourceKey,
    pub(crate) claimed: u64,
    /// The epoch of the owner that accepted it.
    pub(crate) epoch: u64,
    /// When that was decided, by the world's clock.
    pub(crate) claimed_us: u64,
    pub(crate) ttl_us: u64,
    pub(crate) wait_until: Time,
    /// How long its place outlives the last call that waits there.
    pub(crate) keep_us: u64,
    /// No call waits there: it is kept, or was granted while it was.
    pub(crate) is_away: bool,
    pub(crate) wait_ttl_us: u64,
    pub(crate) confirm_us: u64,
    /// When, and in which epoch, its place was last kept in the journal.
    pub(crate) kept: (Time, u64),
    /// When a caller asked about it that was answered, and by which epoch; the last such question.
    pub(crate) asked: Option<(When, u64)>,
    /// Where its grant was confirmed.
    pub(crate) confirmed: Option<u64>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) state: EntryState,
    pub(crate) seen: bool,
    pub(crate) granted: Option<Held>,
    /// The leases of its grant and of every renewal, oldest first.
    pub(crate) leases: Vec<LeaseLog>,
    pub(crate) grace_us: u64,
    pub(crate) ended: Option<(u64, Ending)>,
    pub(crate) forgotten: Option<u64>,
}

impl Entry {
    pub(crate) fn held_at(&self, position: u64) -> bool {
        self.granted.is_some_and(|held| held.position <= position) && !self.ended_by(position)
    }

    /// Returns whether its grant has this token, if one is named.
    pub(crate) fn is_of(&self, token: Option<Token>) -> bool {
        token.is_none_or(|token| self.granted.is_some_and(|held| held.token == token.0))
    }

    pub(crate) fn waited_at(&self, position: u64) -> bool {
        let granted = self.granted.is_some_and(|held| held.position <= position);
        self.claimed <= position && !granted && !self.ended_by(position)
    }

    pub(crate) fn ended_by(&self, position: u64) -> bool {
        self.ended.is_some_and(|(at, _)| at <= position) || self.forgotten.is_some_and(|at| at <= position)
    }

    pub(crate) fn lease_at(&self, position: u64) -> Option<&LeaseLog> {
        self.leases.iter().rev().find(|lease| lease.position <= position)
    }

    /// Returns whether the lease told at `told` was still the last one when it ended at `ended`. Otherwise its holder
    /// asked for another, which may have been shorter.
    pub(crate) fn is_last_lease(&self, told: u64, ended: u64) -> bool {
        told < ended && self.leases.iter().all(|lease| lease.position <= told || lease.position > ended)
    }

    /// Returns whether it holds its slot and no caller knew of it at this position.
    pub(crate) fn is_unconfirmed_at(&self, position: u64) -> bool {
        self.confirm_us > 0 && self.held_at(position) && self.confirmed.is_none_or(|at| at > position)
    }

    pub(crate) fn deadline(&self) -> Time {
        self.leases.last().map_or(Time::NEVER, |lease| lease.deadline)
    }

    /// Returns whether its key still names it: until it is forgotten, unless it came to nothing.
    pub(crate) fn keeps_key(&self) -> bool {
        let kind = self.resource.kind();
        self.forgotten.is_none()
            && match self.state {
                EntryState::Ended(Ending::HandedBack) => false,
                EntryState::Ended(_) => kind == Kind::Claim || (kind == Kind::Pool && self.granted.is_some()),
                EntryState::Waiting | EntryState::Active | EntryState::Grace | EntryState::Lapsed => true,
            }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) capacity: u32,
    pub(crate) configured: bool,
    /// Waiting claims in order of arrival.
    pub(crate) queue: Vec<ClaimId>,
    /// Slot and claim of every holder.
    pub(crate) holders: Vec<(u32, ClaimId)>,
    /// The last token, which outlives the resource.
    pub(crate) last_token: u64,
    /// Position and (capacity, configured) from there on.
    pub(crate) shapes: Vec<(u64, (u32, bool))>,
    pub(crate) fit: Fit,
    /// Position and fit from there on.
    pub(crate) fits: Vec<(u64, Fit)>,
}

/// The fittings that operators set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Until when it is paused.
    pub(crate) paused_until: Option<Time>,
    pub(crate) out: BTreeSet<u32>,
    pub(crate) slots: Option<Arc<[NamedSlot]>>,
}

impl Fit {
    pub(crate) fn name(&self, slot: u32) -> Option<&Arc<str>> {
        self.slots.as_ref()?.get(slot as usize).map(|slot| &slot.name)
    }
}

impl Row {
    pub(crate) fn new(kind: Kind) -> Self {
        Row {
            capacity: Row::default_capacity(kind),
            configured: false,
            queue: Vec::new(),
            holders: Vec::new(),
            last_token: 0,
            shapes: Vec::new(),
            fit: Fit::default(),
            fits: Vec::new(),
        }
    }

    pub(crate) fn default_capacity(kind: Kind) -> u32 {
        match kind {
            Kind::Pool => 0,
            Kind::Claim | Kind::Lock => 1,
        }
    }

    pub(crate) fn reshape(&mut self, position: u64, capacity: u32, configured: bool) {
        self.capacity = capacity;
        self.configured = configured;
        self.shapes.push((position, (capacity, configured)));
    }

    /// Changes the fittings, from this position on.
    pub(crate) fn refit(&mut self, position: u64, change: impl FnOnce(&mut Fit)) {
        change(&mut self.fit);
        self.fits.push((position, self.fit.clone()));
    }

    /// Returns whether a waiter could have a slot.
    pub(crate) fn has_room(&self, held: &[u32]) -> bool {
        self.fit.paused_until.is_none() && has_room(self.capacity, &self.fit.out, held)
    }

    pub(crate) fn lowest_free(&self) -> u32 {
        let slots = 0..=u32::try_from(self.holders.len() + self.fit.out.len()).expect("slots are few");
        let is_out = |slot: &u32| self.fit.out.contains(slot);
        let mut free = slots.filter(|slot| !is_out(slot) && self.holders.iter().all(|(taken, _)| taken != slot));
        free.next().expect("one more slot than holders")
    }
}

/// Fewer slots are held than are in service; those held that went out of service do not count.
pub(crate) fn has_room(capacity: u32, out: &BTreeSet<u32>, held: &[u32]) -> bool {
    let in_service = (0..capacity).filter(|slot| !out.contains(slot)).count();
    held.iter().filter(|slot| !out.contains(slot)).count() < in_service
}
