//! The promises, checked from the outside: only from the changes that the engine reports and the facts it shows,
//! neither from its tables nor from the naive model. One paragraph a promise, named as in the list of what must hold
//! (S1, S2, …, L1).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_engine::{
    Acquire, Change, ClaimId, Claimed, Command, Ending, Fact, KeyReuse, Kind, Lease, Moment, NamedSlot, Renewal,
    ResourceKey, Status, Time, Token,
};

/// The knowledge of an outsider, from the changes alone.
#[derive(Debug, Default)]
pub(crate) struct Outside {
    capacities: BTreeMap<ResourceKey, u32>,
    waiting: Vec<Claimed>,
    holding: Vec<Held>,
    /// Never shrinks: tokens rise also across delete and re-create.
    last_tokens: BTreeMap<ResourceKey, Token>,
    /// The claim that each idempotency key stands for, as long as there is one.
    keys: BTreeMap<(ResourceKey, Arc<str>), ClaimId>,
    /// Every claim that ever had a slot.
    granted: BTreeSet<ClaimId>,
    /// Until when each paused resource is.
    paused: BTreeMap<ResourceKey, Time>,
    out_of_service: BTreeSet<(ResourceKey, u32)>,
    named: BTreeMap<ResourceKey, Arc<[NamedSlot]>>,
}

#[derive(Debug)]
struct Held {
    claimed: Claimed,
    slot: u32,
    token: Token,
    lease: Lease,
    /// Its grace is over: any client may take it.
    lapsed: bool,
}

impl Outside {
    /// One change, as it happens. `command` is the command being handled.
    pub(crate) fn see(&mut self, now: Moment, command: Option<&Command>, change: &Change) {
        match change {
            Change::Marked | Change::Joined { .. } | Change::Kept { .. } | Change::Retimed { .. } => {}
            Change::Jumped { .. } => unreachable!("no command makes tokens jump"),
            Change::Labeled { resource, .. } => {
                assert!(self.capacities.contains_key(resource), "only a resource with a capacity has a label");
            }
            Change::Paused { resource, until, .. } => {
                assert!(*until > now.at, "S19: a pause has a length");
                self.paused.insert(resource.clone(), *until);
            }
            Change::Resumed { resource } => {
                let until = self.paused.remove(resource).expect("S19: only what is paused is resumed");
                let is_asked = matches!(command, Some(Command::Resume { resource: asked }) if asked == resource);
                assert!(is_asked || until <= now.at, "S19: {resource:?} was resumed before its time");
            }
            Change::SlotServed { resource, slot, out } => {
                assert!(*slot < self.capacity(resource), "S20: slot {slot} of {resource:?}");
                if out.is_some() {
                    self.out_of_service.insert((resource.clone(), *slot));
                } else {
                    let was_out = self.out_of_service.remove(&(resource.clone(), *slot));
                    assert!(was_out, "S20: slot {slot} of {resource:?} was in service");
                }
            }
            Change::SlotsNamed { resource, slots } => {
                let capacity = self.capacities.get(resource).copied().expect("S21: it has a capacity");
                let before = self.named.remove(resource);
                let name = |slots: &Option<Arc<[NamedSlot]>>, slot: u32| {
                    slots.as_ref().and_then(|slots| slots.get(slot as usize)).map(|slot| Arc::clone(&slot.name))
                };
                for held in self.holders(resource) {
                    let had = name(&before, held.slot);
                    let stays = had.is_none() || name(slots, held.slot) == had;
                    assert!(stays, "S21: slot {} of {resource:?} was renamed while it is held", held.slot);
                }
                self.out_of_service.retain(|(key, slot)| {
                    let had = name(&before, *slot);
                    key != resource || had.is_none() || had == name(slots, *slot)
                });
                if let Some(slots) = slots {
                    assert_eq!(slots.len(), capacity as usize, "S21: every slot has a name");
                    self.named.insert(resource.clone(), Arc::clone(slots));
                }
            }
            Change::Confirmed { claim } => assert!(self.held(*claim).is_some(), "only a grant is confirmed"),
            Change::Configured { resource, capacity } => {
                self.capacities.insert(resource.clone(), *capacity);
                self.out_of_service.retain(|(key, slot)| key != resource || slot < capacity);
            }
            Change::Unconfigured { resource } => {
                self.capacities.remove(resource);
                self.out_of_service.retain(|(key, _)| key != resource);
                self.named.remove(resource);
                if resource.kind() == Kind::Pool {
                    self.paused.remove(resource);
                }
            }
            Change::Claimed(claimed) => {
                if let Some(key) = &claimed.key {
                    let earlier = self.keys.insert((claimed.resource.clone(), Arc::clone(&key.name)), claimed.claim);
                    let may_reuse = |former: ClaimId| {
                        let has_ended = self.held(former).is_none() && !self.waits(former);
                        let Some(Command::Acquire(acquire)) = command else { return false };
                        has_ended
                            && match acquire.options.key_reuse {
                                KeyReuse::Never => false,
                                KeyReuse::AfterWait => !self.granted.contains(&former),
                                KeyReuse::Always => true,
                            }
                    };
                    assert!(earlier.is_none_or(may_reuse), "S13: one effect per idempotency key");
                }
                self.waiting.push((**claimed).clone());
            }
            Change::Granted { claim, slot, token, lease } => {
                self.granted.insert(*claim);
                self.see_granted(*claim, *slot, *token, *lease);
            }
            Change::Renewed { claim, lease } => {
                let held = self.held_mut(*claim).expect("S7: only a holder renews");
                held.lapsed = false;
                held.lease = *lease;
                let held = self.held(*claim).expect("it was just found");
                assert!(held.is_renewed_by(command), "S7: {command:?} renewed the lease of another");
            }
            Change::GraceBegan { claim } => {
                let held = self.held(*claim).expect("only a held lock expires");
                assert!(held.lease.deadline <= now.at, "S8: a lease runs to its end");
            }
            Change::GraceOver { claim } => {
                let held = self.held_mut(*claim).expect("only an expired lock lapses");
                assert!(held.lease.deadline.plus(held.lease.grace_us) <= now.at, "S8: the grace runs to its end");
                held.lapsed = true;
            }
            Change::Ended { claim, how } => self.see_ended(now, command, *claim, *how),
            Change::Forgotten { claim } => {
                assert!(!self.waiting.iter().any(|waiting| waiting.claim == *claim), "no waiting claim is forgotten");
                assert!(self.held(*claim).is_none_or(|held| held.lapsed), "no holder is forgotten");
                self.holding.retain(|held| held.claimed.claim != *claim);
                self.keys.retain(|_, stands_for| stands_for != claim);
            }
        }
    }

    fn see_granted(&mut self, claim: ClaimId, slot: u32, token: Token, lease: Lease) {
        let at =
            self.waiting.iter().position(|waiting| waiting.claim == claim).expect("only a waiting claim is granted");
        let claimed = self.waiting.remove(at);
        let resource = claimed.resource.clone();
        let is_overtaking = self.waiting[..at].iter().any(|earlier| earlier.resource == resource);
        assert!(!is_overtaking, "S12: {claim:?} overtook an earlier waiter of {resource:?}");

        let capacity = self.capacity(&resource);
        let held: Vec<u32> = self.holders(&resource).map(|held| held.slot).collect();
        assert!(held.len() < capacity as usize, "S1: a grant beyond the capacity of {resource:?}");
        assert!(!held.contains(&slot), "S2: slot {slot} of {resource:?} twice");
        assert!(slot < capacity, "S2: slot {slot} of {capacity}");
        assert!(!self.paused.contains_key(&resource), "S19: a grant of {resource:?} while it is paused");
        let is_out = |slot: u32| self.out_of_service.contains(&(resource.clone(), slot));
        assert!(!is_out(slot), "S20: slot {slot} of {resource:?} is out of service");
        assert!((0..slot).all(|lower| held.contains(&lower) || is_out(lower)), "the lowest free slot comes first");

        let last = self.last_tokens.insert(resource, token);
        assert!(last.is_none_or(|last| last < token), "S3: token {token} after {last:?}");
        self.holding.push(Held { claimed, slot, token, lease, lapsed: false });
    }

    fn see_ended(&mut self, now: Moment, command: Option<&Command>, claim: ClaimId, how: Ending) {
        let waited = self.waiting.iter().position(|waiting| waiting.claim == claim);
        let held = self.holding.iter().position(|held| held.claimed.claim == claim);
        assert!(waited.is_some() != held.is_some(), "a claim ends once, from the queue or from its slot");
        if let Some(at) = held {
            let held = self.holding.remove(at);
            match how {
                Ending::Expired => assert!(held.lease.deadline <= now.at, "S8: a lease runs to its end"),
                Ending::Superseded => assert!(held.lapsed, "S8: a lock is taken only after its grace"),
                Ending::Released => assert!(held.is_released_by(command), "S7: {command:?} released another's"),
                Ending::TimedOut => panic!("a holder does not run out of patience"),
                Ending::Revoked | Ending::Aborted | Ending::Withdrawn | Ending::Deleted | Ending::HandedBack => {}
            }
        } else {
            let ends_a_wait = match how {
                Ending::Released => matches!(command, Some(Command::Spend(_))),
                Ending::Expired | Ending::Superseded => false,
                _ => true,
            };
            assert!(ends_a_wait, "S7: {how:?} of a claim that holds nothing");
        }
        self.waiting.retain(|waiting| waiting.claim != claim);
        let is_standing = |resource: &ResourceKey| resource.kind() == Kind::Claim || held.is_some();
        self.keys.retain(|(resource, _), &mut stands_for| {
            stands_for != claim || (how != Ending::HandedBack && (is_standing(resource) || how == Ending::Released))
        });
    }

    /// At rest, after a step.
    pub(crate) fn check(&self, facts: &[Fact]) {
        for waiting in &self.waiting {
            let resource = &waiting.resource;
            let is_out = |slot: u32| self.out_of_service.contains(&(resource.clone(), slot));
            let in_service = (0..self.capacity(resource)).filter(|&slot| !is_out(slot)).count();
            let taken = self.holders(resource).filter(|held| !held.lapsed && !is_out(held.slot)).count();
            let is_paused = self.paused.contains_key(resource);
            assert!(is_paused || taken >= in_service, "L1: a slot of {resource:?} is free and a claim waits");
        }
        let claims = || facts.iter().filter_map(|fact| if let Fact::Claim(claim) = fact { Some(claim) } else { None });
        let mut shown: Vec<_> = claims()
            .filter(|claim| matches!(claim.status, Status::Active | Status::Grace | Status::Lapsed))
            .map(|claim| (claim.claim, claim.slot, claim.token, claim.lease))
            .collect();
        let mut known: Vec<_> =
            self.holding.iter().map(|held| (held.claimed.claim, held.slot, held.token, held.lease)).collect();
        shown.sort_unstable();
        known.sort_unstable();
        assert_eq!(shown, known, "S1, S2: the holders that the facts show are those the changes made");

        let mut queued: Vec<_> = claims().filter(|claim| claim.status == Status::Waiting).collect();
        queued.sort_by_key(|claim| claim.order);
        let queued: Vec<ClaimId> = queued.iter().map(|claim| claim.claim).collect();
        let known: Vec<ClaimId> = self.waiting.iter().map(|waiting| waiting.claim).collect();
        assert_eq!(queued, known, "S12: the queue is in order of arrival");
    }

    fn capacity(&self, resource: &ResourceKey) -> u32 {
        self.capacities.get(resource).copied().unwrap_or(u32::from(resource.kind() != Kind::Pool))
    }

    fn holders(&self, resource: &ResourceKey) -> impl Iterator<Item = &Held> {
        self.holding.iter().filter(move |held| held.claimed.resource == *resource)
    }

    fn waits(&self, claim: ClaimId) -> bool {
        self.waiting.iter().any(|waiting| waiting.claim == claim)
    }

    fn held(&self, claim: ClaimId) -> Option<&Held> {
        self.holding.iter().find(|held| held.claimed.claim == claim)
    }

    fn held_mut(&mut self, claim: ClaimId) -> Option<&mut Held> {
        self.holding.iter_mut().find(|held| held.claimed.claim == claim)
    }
}

impl Held {
    fn is_renewed_by(&self, command: Option<&Command>) -> bool {
        match command {
            Some(Command::Renew { resource, claim, .. }) => self.is(*claim) && self.claimed.resource == *resource,
            Some(Command::Update { claim, .. } | Command::ViewClaim { claim }) => self.is(*claim),
            Some(Command::Acquire(acquire)) if acquire.key.is_some() && self.claimed.particulars.confirm_us > 0 => {
                self.claimed.resource == acquire.resource
                    && self.claimed.key.as_ref().map(|key| &key.name) == acquire.key.as_ref().map(|key| &key.name)
            }
            // The caller of a kept place is back, and takes up the grant made meanwhile.
            Some(Command::Acquire(acquire)) if acquire.key.is_some() && self.claimed.keep_us > 0 => {
                self.claimed.resource == acquire.resource
                    && self.claimed.key.as_ref().map(|key| &key.name) == acquire.key.as_ref().map(|key| &key.name)
                    || self.is_lock_renewed_by(acquire)
            }
            Some(Command::Acquire(acquire)) => self.is_lock_renewed_by(acquire),
            _ => false,
        }
    }

    fn is_lock_renewed_by(&self, acquire: &Acquire) -> bool {
        self.claimed.resource == acquire.resource
            && acquire.resource.kind() == Kind::Lock
            && self.claimed.client == acquire.client
            && match acquire.options.renewal {
                Renewal::Any => true,
                Renewal::Only(token) => self.token == token,
                Renewal::Never => false,
            }
    }

    fn is_released_by(&self, command: Option<&Command>) -> bool {
        match command {
            Some(Command::Return { resource, claim }) => self.is(*claim) && self.claimed.resource == *resource,
            Some(Command::Update { claim, .. }) => self.is(*claim),
            Some(Command::Unlock { resource, client, token }) => {
                self.claimed.resource == *resource
                    && self.claimed.client.as_ref() == Some(client)
                    && token.is_none_or(|token| self.token == token)
            }
            Some(Command::Spend(spend)) => {
                self.claimed.resource == spend.resource
                    && self.claimed.key.as_ref().is_some_and(|key| key.name == spend.key)
            }
            _ => false,
        }
    }

    fn is(&self, claim: ClaimId) -> bool {
        self.claimed.claim == claim
    }
}
