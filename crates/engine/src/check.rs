//! The invariants, asserted. Tests and simulations call this after every step; it walks everything, so serving does
//! not.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::command::Owned;
use crate::fact::Status;
use crate::ids::Kind;
use crate::state::{Account, RANKED_FROM, State};
use crate::time::Time;
use crate::{Engine, KindTotals};

impl Engine {
    /// Panics with the name of the invariant when one does not hold.
    pub fn check(&self) {
        self.state.check_slots();
        self.state.check_queues();
        self.state.check_indexes();
        self.state.check_census();
        self.state.check_account();
    }
}

impl State {
    /// S1 and S2: holders have slots of their own, and no more than the capacity unless it was lowered.
    fn check_slots(&self) {
        let mut holding = 0;
        for (rix, resource) in self.resources.iter() {
            for (slot, cix) in resource.slots.iter() {
                let claim = &self.claims[cix];
                assert_eq!((claim.resource, claim.slot), (rix, slot), "S2: a slot and its holder know each other");
                let holds = matches!(claim.status, Status::Active | Status::Grace | Status::Lapsed);
                assert!(holds, "S2: {:?} holds no slot", claim.status);
                assert!(claim.token <= resource.last_token, "S3: a resource knows its last token");
                holding += 1;
            }
            let held = u32::try_from(resource.slots.iter().count()).expect("slots are few");
            assert_eq!(held, resource.slots.used(), "S1: slots are counted right");
            if resource.key.kind() == Kind::Lock {
                assert!(held <= 1, "S1: a lock has one holder");
            }
        }
        let statuses = self.claims.iter().map(|(_, claim)| claim.status);
        let holders = statuses.filter(|s| matches!(s, Status::Active | Status::Grace | Status::Lapsed)).count();
        assert_eq!(holders, holding, "S2: every holder has a slot");
    }

    /// L1 and S12: no claim waits while a slot is free; queues are in order.
    fn check_queues(&self) {
        let mut in_queues = 0;
        for (rix, resource) in self.resources.iter() {
            let queue: Vec<_> = self.queue(rix).collect();
            assert_eq!(queue.len(), resource.waiting as usize, "queues are counted right");
            assert!(queue.is_sorted_by_key(|&cix| self.claims[cix].order), "S12: first come, first served");
            assert!(queue.iter().all(|&cix| self.claims[cix].status == Status::Waiting), "only waiters queue");
            if let Some(ranks) = resource.ranks() {
                assert!(ranks.iter().eq(queue.iter().map(|&cix| self.claims[cix].order)), "ranks are the queue");
            }
            assert!(resource.ranks().is_some() || resource.waiting < RANKED_FROM, "a long queue has ranks");
            if !queue.is_empty() {
                let free = resource.free_slot();
                assert!(free.is_none(), "L1: slot {free:?} of {:?} is free and a claim waits", resource.key);
            }
            in_queues += queue.len();
        }
        assert_eq!(in_queues, self.waiting, "waiters are counted right");
    }

    fn check_census(&self) {
        let mut census = [KindTotals::default(); 3];
        for (_, resource) in self.resources.iter() {
            let counted = &mut census[resource.key.kind() as usize];
            counted.resources += 1;
            if let Some(fittings) = resource.fittings() {
                counted.paused += usize::from(fittings.pause.is_some());
                counted.out_of_service += fittings.out_of_service.len();
            }
        }
        for (_, claim) in self.claims.iter() {
            let counted = &mut census[self.kind(claim.resource) as usize];
            match claim.status {
                Status::Waiting => counted.waiting += 1,
                Status::Active | Status::Grace => counted.holding += 1,
                Status::Lapsed | Status::Ended(_) => {}
            }
        }
        assert_eq!(census, self.census, "each kind is counted right");
        let mut owners: BTreeMap<Arc<str>, Owned> = BTreeMap::new();
        for (cix, claim) in self.claims.iter().filter(|(_, claim)| claim.is_live()) {
            if let Some(owner) = self.owner(cix) {
                let owned = owners.entry(Arc::clone(owner)).or_default();
                *(if claim.status == Status::Waiting { &mut owned.waiting } else { &mut owned.holding }) += 1;
            }
        }
        assert_eq!(owners, self.owners, "each principal is counted right");
    }

    /// The account of bytes equals a fresh count of everything.
    fn check_account(&self) {
        let claims = self.claims.iter().map(|(cix, claim)| (self.bytes_of_claim(cix), claim.is_retained()));
        let (mut total, mut retained) = (0, 0);
        for (bytes, is_retained) in claims {
            total += bytes;
            retained += if is_retained { bytes } else { 0 };
        }
        total += self.resources.iter().map(|(rix, _)| self.bytes_of_resource(rix)).sum::<u64>();
        assert_eq!(Account { total, retained }, self.account, "bytes are accounted right");
    }

    fn check_indexes(&self) {
        assert_eq!(self.by_id.len(), self.claims.len());
        assert_eq!(self.by_key.len(), self.resources.len());
        let mut referring = BTreeMap::new();
        for (cix, claim) in self.claims.iter() {
            assert_eq!(self.by_id.get(&claim.id), Some(&cix), "a claim is found by its id");
            *referring.entry(claim.resource).or_insert(0u32) += 1;
            assert!(claim.indexed_at <= claim.due_at(), "L3: a deadline is looked at in time");
            if claim.indexed_at != Time::NEVER {
                assert!(self.deadlines.contains(&(claim.indexed_at, cix)), "the deadline index knows its claims");
            }
            if let Some(client) = claim.client()
                && (claim.status, self.kind(claim.resource)) == (Status::Waiting, Kind::Lock)
            {
                assert_eq!(self.waiting_client(claim.resource, client), Some(cix), "a client waits for a lock once");
            }
            let is_retained = claim.is_retained();
            let is_keyed = claim.key().is_some();
            let entry = claim.ended().map(|ended| (ended.at, claim.order, cix));
            let in_order = entry.is_some_and(|entry| self.retained.contains(&entry, is_keyed));
            assert_eq!(is_retained, in_order, "an ended claim is on its way out");
        }
        let lock_waiters = self.census[Kind::Lock as usize].waiting;
        assert_eq!(self.by_client.len(), lock_waiters, "only who waits for a lock is found by name");
        let indexed = self.claims.iter().filter(|(_, claim)| claim.indexed_at != Time::NEVER).count();
        assert_eq!(indexed, self.deadlines.len(), "no deadline without its claim");
        let mut ends = 0;
        for (rix, resource) in self.resources.iter() {
            assert_eq!(self.by_key.get(&resource.key), Some(&rix), "a resource is found by its key");
            assert_eq!(referring.get(&rix).copied().unwrap_or(0), resource.claims, "references are counted right");
            let is_needed = resource.configured || resource.claims > 0 || resource.fittings().is_some();
            assert!(is_needed, "nothing is kept without a need");
            let Some(fittings) = resource.fittings() else { continue };
            assert!(!fittings.is_empty(), "a resource without fittings has no room for them");
            let is_below = fittings.out_of_service.keys().all(|&slot| slot < resource.capacity);
            assert!(is_below, "S20: only slots below the capacity are out of service");
            let are_all = fittings.slots.as_ref().is_none_or(|slots| slots.len() == resource.capacity as usize);
            assert!(are_all, "S21: every slot has a name, or none");
            if let Some(pause) = fittings.pause.as_ref().filter(|pause| pause.until != Time::NEVER) {
                ends += 1;
                assert!(self.pauses.contains(&(pause.until, rix)), "L3: the end of a pause is looked at in time");
            }
        }
        assert_eq!(ends, self.pauses.len(), "no end without its pause");
    }
}
