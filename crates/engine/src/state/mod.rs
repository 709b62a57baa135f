//! The state: resources, claims, and the indexes that find them. Everything in here can be rebuilt from changes or
//! from facts; the indexes can be rebuilt from the entities.
//!
//! ```text
//! by_key:   ResourceKey ─▶ Rix ─▶ Resource { slots: slot ─▶ Cix, queue: head ⇄ … ⇄ tail (linked through claims) }
//! by_id:    ClaimId     ─▶ Cix ─▶ Claim { resource: Rix, … }
//! by_name:  (Rix, idempotency key) ─▶ Cix
//! by_client: (Rix, client) ─▶ Cix                      (claims that wait for a lock: a client stands in its queue once)
//! by_order: place in the order of creation ─▶ Cix      (claims dialect only: its lists are oldest first)
//! deadlines: (when to look, Cix)                        retained: (ended at, order, Cix)
//! ```

mod account;
pub mod bytes;
mod claim;
mod entities;
mod queue;
mod ranks;
mod retained;
mod slab;
mod slots;
mod snapshot;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

pub(crate) use account::Account;
pub(crate) use claim::{Claim, Extra, Rare};
pub(crate) use entities::default_capacity;
pub(crate) use ranks::{RANKED_FROM, Ranks};
use retained::Retained;
pub(crate) use slab::{Ix, Slab};
pub(crate) use slots::Slots;
use snapshot::Snapshot;

use crate::KindTotals;
use crate::command::Owned;
use crate::fact::Counters;
use crate::fittings::Fittings;
use crate::holds::Holds;
use crate::ids::{ClaimId, ResourceKey, Token};
use crate::time::Time;

/// The index of a claim.
pub(crate) type Cix = Ix<Claim>;
/// The index of a resource.
pub(crate) type Rix = Ix<Resource>;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) resources: Slab<Resource>,
    pub(crate) by_key: BTreeMap<ResourceKey, Rix>,
    pub(crate) claims: Slab<Claim>,
    pub(crate) by_id: HashMap<ClaimId, Cix, BuildHasherDefault<IdHasher>>,
    /// The index by which a repeated request finds its claim: the idempotency key, …
    pub(crate) by_name: BTreeMap<(Rix, Arc<str>), Cix>,
    /// … and while it waits for a lock, the client's name.
    pub(crate) by_client: BTreeMap<(Rix, Arc<str>), Cix>,
    pub(crate) by_order: BTreeMap<u64, Cix>,
    /// When to look at a claim next: never later than its deadline, and earlier after a renewal, which leaves the
    /// entry where it is. Looking too early moves the entry, so a renewal costs no index work at all.
    pub(crate) deadlines: BTreeSet<(Time, Cix)>,
    /// Pauses that end by themselves.
    pub(crate) pauses: BTreeSet<(Time, Rix)>,
    /// Ended claims that can still be read, and lapsed locks, oldest first.
    pub(crate) retained: Retained,
    pub(crate) counters: Counters,
    /// The bytes of all of it.
    pub(crate) account: Account,
    /// Claims in status waiting, of all resources.
    pub(crate) waiting: usize,
    /// The same and more for each kind, in the order of `Kind::ALL`.
    pub(crate) census: [KindTotals; 3],
    /// The counts of each owner's claims. An owner without claims is not in it.
    pub(crate) owners: BTreeMap<Arc<str>, Owned>,
    /// A walk over the state that is under way.
    pub(crate) snapshot: Option<Snapshot>,
    pub(crate) snapshots_begun: u32,
}

/// A named thing with slots and a queue.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) key: ResourceKey,
    pub(crate) capacity: u32,
    /// A caller gave it its capacity. An unconfigured pool does not exist for callers.
    pub(crate) configured: bool,
    pub(crate) slots: Slots,
    pub(crate) queue_head: Cix,
    pub(crate) queue_tail: Cix,
    pub(crate) waiting: u32,
    /// The parts that few resources have.
    pub(crate) extra: Option<Box<ResourceExtra>>,
    /// Claims that refer to it, ended ones included. It is dropped when this is zero and it is not configured.
    pub(crate) claims: u32,
    /// The last token granted on it while it has been known.
    pub(crate) last_token: Token,
    /// How long its slots were held: apart, so that an entry stays within its account.
    holds_count: u32,
    holds_mean_us: u64,
    /// The snapshot that has it already.
    pub(crate) saved_in: u32,
}

/// The parts that few resources have.
#[derive(Debug, Default)]
pub(crate) struct ResourceExtra {
    /// The place of each waiter in a long queue. Built when it gets long, dropped when it is empty.
    pub(crate) ranks: Option<Box<Ranks>>,
    /// The name that people see in place of its id.
    pub(crate) label: Option<Arc<str>>,
    /// The fittings that operators set.
    pub(crate) fittings: Option<Box<Fittings>>,
}

impl Resource {
    pub(crate) fn ranks(&self) -> Option<&Ranks> {
        self.extra.as_ref()?.ranks.as_deref()
    }

    pub(crate) fn holds(&self) -> Holds {
        Holds { count: self.holds_count, mean_us: self.holds_mean_us }
    }

    pub(crate) fn set_holds(&mut self, holds: Holds) {
        Holds { count: self.holds_count, mean_us: self.holds_mean_us } = holds;
    }

    pub(crate) fn label(&self) -> Option<&Arc<str>> {
        self.extra.as_ref()?.label.as_ref()
    }

    pub(crate) fn fittings(&self) -> Option<&Fittings> {
        self.extra.as_ref()?.fittings.as_deref()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.fittings().is_some_and(|fittings| fittings.pause.is_some()) && !planted!(GrantedWhilePaused)
    }

    /// The slot that the next grant gets; `None` while nothing may be granted.
    pub(crate) fn free_slot(&self) -> Option<u32> {
        match self.fittings() {
            None => self.slots.lowest_free(self.capacity),
            Some(fittings) => self.free_slot_with(fittings),
        }
    }

    #[cold]
    fn free_slot_with(&self, fittings: &Fittings) -> Option<u32> {
        if self.is_paused() {
            return None;
        }
        let out = &fittings.out_of_service;
        if out.is_empty() || planted!(OutOfServiceGranted) {
            return self.slots.lowest_free(self.capacity);
        }
        // As many may be held as are in service; the holder of a slot that went out of service is one more.
        let held_out = out.keys().filter(|&&slot| self.slots.holder(slot).is_some()).count();
        let held = self.slots.used() as usize - held_out;
        if held >= self.in_service() as usize {
            return None;
        }
        self.slots.lowest_free_but(self.capacity, |slot| out.contains_key(&slot))
    }

    /// Its number of slots that are in service.
    pub(crate) fn in_service(&self) -> u32 {
        let out = self.fittings().map_or(0, |fittings| fittings.out_of_service.len());
        self.capacity - u32::try_from(out).expect("only slots below the capacity are out of service")
    }

    pub(crate) fn extra_mut(&mut self) -> &mut ResourceExtra {
        self.extra.get_or_insert_default()
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters { last_token: Token(0), last_order: 0 }
    }
}

/// Claim ids are random when they are made here, so their own bits serve as the hash.
///
/// Safe against chosen keys: an id enters the map only with a claim, and claims get ids that the driver drew.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("ids hash as one u128")
    }

    fn write_u128(&mut self, id: u128) {
        // Folds both halves: UUID version and variant bits are constant in either.
        #[expect(clippy::cast_possible_truncation, reason = "the halves are folded on purpose")]
        let folded = (id as u64) ^ ((id >> 64) as u64).rotate_left(32);
        self.0 = folded;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
