//! Making, finding and dropping entities, keeping the indexes right. Called by `apply` and `restore` only.

use std::sync::Arc;

use super::{Cix, Claim, Resource, Rix, Slots, State};
use crate::KindTotals;
use crate::command::{Owned, owner};
use crate::fact::Status;
use crate::ids::{ClaimId, Kind, ResourceKey, Token};
use crate::time::Time;

impl State {
    pub(crate) fn resource(&self, key: &ResourceKey) -> Option<Rix> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn claim(&self, id: ClaimId) -> Option<Cix> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn named(&self, rix: Rix, name: &Arc<str>) -> Option<Cix> {
        self.by_name.get(&(rix, Arc::clone(name))).copied()
    }

    /// The place of a client in the queue of a lock.
    pub(crate) fn waiting_client(&self, rix: Rix, client: &Arc<str>) -> Option<Cix> {
        self.by_client.get(&(rix, Arc::clone(client))).copied()
    }

    pub(crate) fn kind(&self, rix: Rix) -> Kind {
        self.resources[rix].key.kind()
    }

    /// The counts of this resource's kind.
    pub(crate) fn count(&mut self, rix: Rix) -> &mut KindTotals {
        let kind = self.kind(rix);
        &mut self.census[kind as usize]
    }

    /// One holder more or less, of its kind and of its owner's.
    pub(crate) fn count_holding(&mut self, cix: Cix, more: bool) {
        step(&mut self.count(self.claims[cix].resource).holding, more);
        self.count_owned(cix, |owned| step_u32(&mut owned.holding, more));
    }

    /// One waiter more or less, of its kind and of its owner's.
    pub(crate) fn count_waiting(&mut self, cix: Cix, more: bool) {
        step(&mut self.count(self.claims[cix].resource).waiting, more);
        self.count_owned(cix, |owned| step_u32(&mut owned.waiting, more));
    }

    fn count_owned(&mut self, cix: Cix, step: impl FnOnce(&mut Owned)) {
        let claim = &self.claims[cix];
        let kind = self.resources[claim.resource].key.kind();
        let Some(name) = owner(kind, claim.client(), claim.principal()) else { return };
        if let Some(owned) = self.owners.get_mut(name) {
            step(owned);
            if *owned == Owned::default() {
                self.owners.remove(name);
            }
        } else {
            let mut owned = Owned::default();
            step(&mut owned);
            self.owners.insert(Arc::clone(name), owned);
        }
    }

    /// The principal that a claim belongs to, and is counted for.
    pub(crate) fn owner(&self, cix: Cix) -> Option<&Arc<str>> {
        let claim = &self.claims[cix];
        owner(self.kind(claim.resource), claim.client(), claim.principal())
    }

    /// The claim in slot 0: for a lock, its holder or last holder.
    pub(crate) fn lock_holder(&self, rix: Rix) -> Option<Cix> {
        self.resources[rix].slots.holder(0)
    }

    /// The claim in one of the slots that was granted this token.
    pub(crate) fn holder_by(&self, rix: Rix, token: Token) -> Option<Cix> {
        self.resources[rix].slots.iter().map(|(_, cix)| cix).find(|&cix| self.claims[cix].token == token)
    }

    /// The waiting claim with this place in the order of creation.
    pub(crate) fn waiting_at(&self, rix: Rix, order: u64) -> Option<Cix> {
        self.queue(rix).find(|&cix| self.claims[cix].order >= order).filter(|&cix| self.claims[cix].order == order)
    }

    pub(crate) fn ensure_resource(&mut self, key: &ResourceKey) -> Rix {
        if let Some(rix) = self.resource(key) {
            return rix;
        }
        let rix = self.resources.insert(Resource {
            key: key.clone(),
            capacity: default_capacity(key.kind()),
            configured: false,
            slots: Slots::default(),
            queue_head: Cix::NONE,
            queue_tail: Cix::NONE,
            waiting: 0,
            extra: None,
            claims: 0,
            last_token: Token(0),
            holds_count: 0,
            holds_mean_us: 0,
            // Younger than a snapshot under way, which therefore leaves it out.
            saved_in: self.snapshots_begun,
        });
        self.by_key.insert(key.clone(), rix);
        self.count(rix).resources += 1;
        self.account.total += self.bytes_of_resource(rix);
        rix
    }

    /// Drops a resource that is not configured and that nothing refers to.
    pub(crate) fn drop_resource_if_unused(&mut self, rix: Rix) {
        let resource = &self.resources[rix];
        if resource.configured || resource.claims > 0 || resource.fittings().is_some() {
            return;
        }
        assert!(resource.slots.used() == 0 && resource.waiting == 0, "an unreferenced resource holds nothing");
        self.save_resource(rix);
        self.count(rix).resources -= 1;
        self.account.total -= self.bytes_of_resource(rix);
        let resource = self.resources.remove(rix);
        self.by_key.remove(&resource.key);
    }

    /// Enters a claim into the tables; the caller puts it into its queue or slot.
    pub(crate) fn insert_claim(&mut self, claim: Claim) -> Cix {
        let (id, rix, order) = (claim.id, claim.resource, claim.order);
        let name = claim.key().map(|key| Arc::clone(&key.name));
        let waits = self.kind(rix) == Kind::Lock && claim.status == Status::Waiting;
        let client = claim.client().filter(|_| waits).cloned();
        let cix = self.claims.insert(claim);
        let clash = self.by_id.insert(id, cix);
        assert!(clash.is_none(), "claim ids are drawn once");
        if let Some(name) = name {
            self.by_name.insert((rix, name), cix);
        }
        if let Some(client) = client {
            self.by_client.insert((rix, client), cix);
        }
        if self.kind(rix) == Kind::Claim {
            self.by_order.insert(order, cix);
        }
        self.resources[rix].claims += 1;
        self.account.total += self.bytes_of_claim(cix);
        cix
    }

    /// Takes a claim out of every table. It has left its slot and its queue.
    pub(crate) fn remove_claim(&mut self, cix: Cix) {
        self.forget_name(cix);
        self.forget_client(cix);
        self.set_index(cix, Time::NEVER);
        self.account.total -= self.bytes_of_claim(cix);
        let claim = self.claims.remove(cix);
        self.by_id.remove(&claim.id);
        self.by_order.remove(&claim.order);
        let resource = &mut self.resources[claim.resource];
        resource.claims -= 1;
        self.drop_resource_if_unused(claim.resource);
    }

    /// A repeated request will not find this claim any more.
    pub(crate) fn forget_name(&mut self, cix: Cix) {
        let claim = &self.claims[cix];
        if let Some(key) = claim.key() {
            let entry = (claim.resource, Arc::clone(&key.name));
            // Another claim may have taken the name over since.
            if self.by_name.get(&entry) == Some(&cix) {
                self.by_name.remove(&entry);
            }
        }
    }

    /// The claim no longer waits, so its client may stand in the queue again.
    pub(crate) fn forget_client(&mut self, cix: Cix) {
        let claim = &self.claims[cix];
        if let Some(client) = claim.client() {
            let entry = (claim.resource, Arc::clone(client));
            if self.by_client.get(&entry) == Some(&cix) {
                self.by_client.remove(&entry);
            }
        }
    }

    /// Makes sure that the claim is looked at no later than the clock alone can change its status.
    pub(crate) fn keep_due(&mut self, cix: Cix) {
        let claim = &self.claims[cix];
        let due_at = claim.due_at();
        let is_earlier = due_at < claim.indexed_at;
        let is_kept = planted!(DeadlineKeptWhenShortened) && claim.indexed_at != Time::NEVER;
        if (is_earlier && !is_kept) || due_at == Time::NEVER {
            self.set_index(cix, due_at);
        }
    }

    pub(crate) fn set_index(&mut self, cix: Cix, when: Time) {
        let claim = &mut self.claims[cix];
        if claim.indexed_at == when {
            return;
        }
        if claim.indexed_at != Time::NEVER {
            self.deadlines.remove(&(claim.indexed_at, cix));
        }
        if when != Time::NEVER {
            self.deadlines.insert((when, cix));
        }
        claim.indexed_at = when;
    }
}

fn step(counter: &mut usize, more: bool) {
    *counter = if more { *counter + 1 } else { counter.checked_sub(1).expect("a claim that ends was counted") };
}

fn step_u32(counter: &mut u32, more: bool) {
    *counter = if more { *counter + 1 } else { counter.checked_sub(1).expect("a claim that ends was counted") };
}

/// The capacity of a resource that has not been configured.
pub(crate) fn default_capacity(kind: Kind) -> u32 {
    match kind {
        Kind::Pool => 0,
        Kind::Claim | Kind::Lock => 1,
    }
}
