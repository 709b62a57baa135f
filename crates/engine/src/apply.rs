//! `apply`: the only thing that mutates state. Live serving, recovery and standbys all come through here, so a change
//! means the same everywhere. This file decides nothing. It asserts what must hold, also in release builds, because
//! stopping is better than two holders.

use std::sync::Arc;

use crate::change::{Change, Claimed, Ending, Lease};
use crate::fact::Status;
use crate::ids::{ClaimId, Kind, Token};
use crate::state::{Cix, Claim, Extra, Rare, State};
use crate::time::{Moment, Time, Wall};

impl State {
    pub(crate) fn apply(&mut self, now: Moment, change: &Change) {
        match change {
            Change::Marked => {}
            Change::Jumped { last_token } => {
                assert!(*last_token >= self.counters.last_token, "tokens only rise");
                self.counters.last_token = *last_token;
            }
            Change::Configured { resource, capacity } => {
                let rix = self.ensure_resource(resource);
                let resource = self.resource_mut(rix);
                resource.capacity = *capacity;
                resource.configured = true;
                if resource.fittings().is_some() {
                    self.refit(rix, |fittings| fittings.cut(*capacity));
                }
            }
            Change::Labeled { resource, label } => {
                let rix = self.resource(resource).expect("only a known resource is labeled");
                self.set_label(rix, label.as_ref());
            }
            Change::Unconfigured { resource } => {
                let rix = self.resource(resource).expect("only a known resource is unconfigured");
                self.set_label(rix, None);
                if self.resources[rix].fittings().is_some() {
                    let keeps_pause = resource.kind() != Kind::Pool;
                    self.refit(rix, |fittings| fittings.unconfigure(keeps_pause));
                }
                let resource = self.resource_mut(rix);
                resource.capacity = crate::state::default_capacity(resource.key.kind());
                resource.configured = false;
                self.drop_resource_if_unused(rix);
            }
            Change::Claimed(claimed) => self.apply_claimed(now, claimed),
            Change::Joined { claim, wait_until } => {
                let cix = self.expect_claim(*claim);
                let claim = self.claim_mut(cix);
                claim.seen = !planted!(JoinedNotSeen);
                if claim.status == Status::Waiting && *wait_until > claim.deadline {
                    claim.deadline = *wait_until;
                    self.keep_due(cix);
                } else if claim.status != Status::Waiting && claim.keep_us() > 0 {
                    // The caller is back and knows of the grant.
                    claim.extra_mut().keep_us = 0;
                }
            }
            Change::Kept { claim, wait_until } => {
                let cix = self.expect_claim(*claim);
                let claim = self.claim_mut(cix);
                assert_eq!(claim.status, Status::Waiting, "only a place in the queue is kept");
                claim.deadline = *wait_until;
                self.keep_due(cix);
            }
            Change::Granted { claim, slot, token, lease } => self.apply_granted(now, *claim, *slot, *token, *lease),
            Change::Confirmed { claim } => {
                let cix = self.expect_claim(*claim);
                self.confirm(cix);
            }
            Change::Renewed { claim, lease } => self.apply_renewed(now, *claim, *lease),
            Change::Retimed { claim, ttl_us } => {
                let cix = self.expect_claim(*claim);
                self.claim_mut(cix).ttl_us = *ttl_us;
            }
            Change::GraceBegan { claim } => {
                let cix = self.expect_claim(*claim);
                self.move_status(cix, Status::Active, Status::Grace);
                self.keep_due(cix);
            }
            Change::GraceOver { claim } => {
                let cix = self.expect_claim(*claim);
                self.count_hold(now, cix);
                self.move_status(cix, Status::Grace, Status::Lapsed);
                self.count_holding(cix, false);
                self.claim_mut(cix).extra_mut().ended = Some(now);
                self.keep_due(cix);
                self.retain(cix);
            }
            Change::Ended { claim, how } => self.apply_ended(now, *claim, *how),
            Change::Forgotten { claim } => {
                let cix = self.expect_claim(*claim);
                self.save_claim(cix);
                self.unretain(cix);
                self.vacate(cix);
                self.remove_claim(cix);
            }
            Change::Paused { resource, reason, until } => {
                let rix = self.ensure_resource(resource);
                self.refit(rix, |fittings| fittings.pause(now, reason, *until));
            }
            Change::Resumed { resource } => {
                let rix = self.resource(resource).expect("only a known resource is resumed");
                self.refit(rix, |fittings| fittings.pause = None);
                self.drop_resource_if_unused(rix);
            }
            Change::SlotServed { resource, slot, out } => {
                let rix = self.ensure_resource(resource);
                assert!(*slot < self.resources[rix].capacity, "a slot is below the capacity");
                self.refit(rix, |fittings| fittings.serve_slot(now, *slot, out.as_ref()));
                self.drop_resource_if_unused(rix);
            }
            Change::SlotsNamed { resource, slots } => {
                let rix = self.resource(resource).expect("only a known resource has names for its slots");
                self.refit(rix, |fittings| fittings.name_slots(slots.as_ref()));
            }
        }
    }

    fn apply_claimed(&mut self, now: Moment, claimed: &Claimed) {
        let rix = self.ensure_resource(&claimed.resource);
        if claimed.resource.kind() == Kind::Claim
            && let Some(former) = claimed.key.as_ref().and_then(|key| self.named(rix, &key.name))
        {
            self.hand_on_key(former);
        }
        self.counters.last_order += 1;
        let order = self.counters.last_order;
        let extra = extra_of(now.wall, claimed);
        let cix = self.insert_claim(Claim {
            id: claimed.claim,
            resource: rix,
            status: Status::Waiting,
            seen: false,
            slot: 0,
            order,
            token: Token(0),
            deadline: claimed.wait_until,
            indexed_at: Time::NEVER,
            created_at: now.at,
            granted_at: Time(0),
            ttl_us: claimed.ttl_us,
            queue_next: Cix::NONE,
            queue_prev: Cix::NONE,
            saved_in: self.snapshots_begun,
            extra,
        });
        self.queue_push(rix, cix);
        self.keep_due(cix);
    }

    /// A claim that has ended gives up its key to a new one: a key names one claim, also after a restart, which reads
    /// claims in any order.
    fn hand_on_key(&mut self, former: Cix) {
        assert!(self.claims[former].ending().is_some(), "a key is handed on by a claim that has ended");
        self.save_claim(former);
        self.unretain(former);
        self.drop_key(former);
        self.retain(former);
    }

    fn apply_granted(&mut self, now: Moment, claim: ClaimId, slot: u32, token: Token, lease: Lease) {
        let cix = self.expect_claim(claim);
        let rix = self.claims[cix].resource;
        assert!(token > self.counters.last_token, "tokens only rise");
        assert!(slot < self.resources[rix].capacity, "a granted slot is below the capacity");
        self.move_status(cix, Status::Waiting, Status::Active);
        self.queue_remove(rix, cix);
        if self.kind(rix) == Kind::Lock {
            self.forget_client(cix);
        }
        self.counters.last_token = token;
        let resource = self.resource_mut(rix);
        resource.last_token = token;
        self.take_slot(rix, slot, cix);
        self.count_holding(cix, true);
        let kind = self.kind(rix);
        let claim = self.claim_mut(cix);
        claim.slot = slot;
        claim.token = token;
        claim.granted_at = now.at;
        claim.deadline = lease.deadline;
        if kind == Kind::Claim {
            claim.extra_mut().granted_wall = now.wall;
        }
        if lease.grace_us > 0 {
            claim.extra_mut().grace_us = lease.grace_us;
        }
        if let Some(rare) = claim.rare_mut() {
            rare.is_attended = false;
        }
        self.keep_due(cix);
    }

    fn apply_renewed(&mut self, now: Moment, claim: ClaimId, lease: Lease) {
        let cix = self.expect_claim(claim);
        // A claim on a named resource goes back to its own timeout when it is activated again.
        let keeps_ttl = self.kind(self.claims[cix].resource) == Kind::Claim;
        self.unretain(cix);
        if self.claims[cix].status == Status::Lapsed {
            self.count_holding(cix, true);
        }
        let claim = self.claim_mut(cix);
        match claim.status {
            Status::Active => {}
            Status::Grace | Status::Lapsed => {
                claim.status = Status::Active;
                claim.extra_mut().ended = None;
            }
            Status::Waiting | Status::Ended(_) => panic!("only a holder renews, this claim is {:?}", claim.status),
        }
        claim.seen = true;
        claim.deadline = lease.deadline;
        if !keeps_ttl {
            claim.ttl_us = lease.deadline.since(now.at);
        }
        if claim.keep_us() > 0 {
            claim.extra_mut().keep_us = 0;
        }
        if lease.grace_us != claim.grace_us() {
            claim.extra_mut().grace_us = lease.grace_us;
        }
        self.confirm(cix);
        self.keep_due(cix);
    }

    fn apply_ended(&mut self, now: Moment, claim: ClaimId, how: Ending) {
        let cix = self.expect_claim(claim);
        let rix = self.claims[cix].resource;
        let kind = self.kind(rix);
        self.save_claim(cix);
        self.unretain(cix);
        if self.claims[cix].status == Status::Waiting {
            self.queue_remove(rix, cix);
        } else {
            if !matches!(how, Ending::HandedBack | Ending::Deleted) {
                self.count_hold(now, cix);
            }
            self.vacate(cix);
        }
        let claim = &self.claims[cix];
        // A key stands for a lease or a standing claim; a wait that came to nothing leaves no trace, unless its caller
        // gave it up by its key.
        let is_undone = how == Ending::HandedBack && !planted!(KeySpentByHandBack);
        let is_spent = claim.is_granted() || how == Ending::Released;
        let keeps_name = !is_undone && (kind == Kind::Claim || is_spent);
        let is_kept = match kind {
            Kind::Claim => true,
            Kind::Pool | Kind::Lock => keeps_name && claim.key().is_some(),
        };
        if !is_kept {
            self.remove_claim(cix);
            return;
        }
        if !keeps_name {
            self.drop_key(cix);
        }
        self.forget_client(cix);
        let claim = self.claim_mut(cix);
        claim.status = Status::Ended(how);
        claim.extra_mut().ended = Some(now);
        self.keep_due(cix);
        self.retain(cix);
    }

    /// A caller knows of the grant of this claim.
    fn confirm(&mut self, cix: Cix) {
        if self.claims[cix].confirm_us() == 0 {
            return;
        }
        self.account.total -= self.bytes_of_claim(cix);
        self.claim_mut(cix).confirm();
        self.account.total += self.bytes_of_claim(cix);
    }

    /// The slot of this claim is about to be free for others. A lock is so from when its grace is over.
    fn count_hold(&mut self, now: Moment, cix: Cix) {
        let claim = &self.claims[cix];
        if matches!(claim.status, Status::Active | Status::Grace) {
            let held_us = now.at.since(claim.granted_at);
            let resource = self.resource_mut(claim.resource);
            resource.set_holds(resource.holds().with(held_us));
        }
    }

    fn move_status(&mut self, cix: Cix, from: Status, to: Status) {
        let claim = self.claim_mut(cix);
        assert_eq!(claim.status, from, "a claim goes to {to:?} from {from:?}");
        claim.status = to;
    }

    /// Frees the slot of a claim that has one.
    fn vacate(&mut self, cix: Cix) {
        let claim = &self.claims[cix];
        let (rix, slot) = (claim.resource, claim.slot);
        match claim.status {
            Status::Active | Status::Grace => {
                self.free_slot(rix, slot, cix);
                self.count_holding(cix, false);
            }
            Status::Lapsed => self.free_slot(rix, slot, cix),
            Status::Waiting | Status::Ended(_) => {}
        }
    }

    pub(crate) fn expect_claim(&self, id: ClaimId) -> Cix {
        self.claim(id).expect("a change names a claim that exists")
    }
}

fn extra_of(wall: Wall, claimed: &Claimed) -> Option<Box<Extra>> {
    let kind = claimed.resource.kind();
    let is_plain =
        claimed.client.is_none() && claimed.key.is_none() && claimed.metadata.is_none() && claimed.keep_us == 0;
    let rare = Rare::of(claimed.principal.clone(), claimed.particulars.clone());
    if kind == Kind::Pool && is_plain && rare.is_none() {
        return None;
    }
    Some(Box::new(Extra {
        client: claimed.client.as_ref().map(Arc::clone),
        rare,
        key: claimed.key.clone(),
        metadata: claimed.metadata.as_ref().map(Arc::clone),
        keep_us: claimed.keep_us,
        created_wall: if kind == Kind::Claim { wall } else { Wall(0) },
        ..Extra::default()
    }))
}
