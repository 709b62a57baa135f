//! The naive model's rows: their meaning, and how to find them by looking at each.

use std::sync::Arc;

use leasehold_engine::{
    Acquire, ClaimFact, ClaimId, Ending, Holds, Kind, Refusal, ResourceFact, ResourceKey, Status, Time, Token,
};

use crate::naive::Naive;

pub(crate) fn holds(row: &ClaimFact) -> bool {
    matches!(row.status, Status::Active | Status::Grace | Status::Lapsed)
}

/// Ended or lapsed: only remembered, and forgotten one day.
pub(crate) fn is_remembered(row: &ClaimFact) -> bool {
    matches!(row.status, Status::Lapsed | Status::Ended(_))
}

pub(crate) fn ended_at(row: &ClaimFact) -> Time {
    row.ended.expect("it ended").at
}

/// When the clock alone does something to this claim.
pub(crate) fn due_at(row: &ClaimFact) -> Option<Time> {
    match row.status {
        Status::Waiting => Some(row.wait_until).filter(|&at| at != Time::NEVER),
        Status::Active => Some(row.lease.deadline),
        Status::Grace => Some(row.lease.deadline.plus(row.lease.grace_us)),
        Status::Lapsed | Status::Ended(_) => None,
    }
}

impl Naive {
    /// The lowest free slot; none while as many slots as the capacity, or more, are held.
    pub(crate) fn free_slot(&self, key: &ResourceKey) -> Option<u32> {
        let taken: Vec<u32> = self.holders(key).map(|row| row.slot).collect();
        let capacity = self.capacity(key);
        let fittings = self.fittings(key);
        let is_out = |slot: &u32| fittings.out_of_service.contains_key(slot);
        let in_service = (0..capacity).filter(|slot| !is_out(slot)).count();
        if fittings.pause.is_some() || taken.iter().filter(|slot| !is_out(slot)).count() >= in_service {
            return None;
        }
        (0..capacity).find(|slot| !taken.contains(slot) && !is_out(slot))
    }

    pub(crate) fn capacity(&self, key: &ResourceKey) -> u32 {
        let row = self.resources.iter().find(|row| row.resource == *key);
        row.map_or(default_capacity(key), |row| row.capacity)
    }

    pub(crate) fn holders(&self, key: &ResourceKey) -> impl Iterator<Item = &ClaimFact> {
        self.claims.iter().filter(move |row| row.resource == *key && holds(row))
    }

    pub(crate) fn lock_holder(&self, key: &ResourceKey) -> Option<usize> {
        self.claims.iter().position(|row| row.resource == *key && row.resource.kind() == Kind::Lock && holds(row))
    }

    pub(crate) fn find(&self, id: ClaimId) -> Option<usize> {
        self.claims.iter().position(|row| row.claim == id)
    }

    pub(crate) fn find_public(&self, id: ClaimId) -> Result<usize, Refusal> {
        let found = self.claims.iter().position(|row| row.claim == id && row.resource.kind() == Kind::Claim);
        found.ok_or(Refusal::NoSuchClaim)
    }

    pub(crate) fn held_lease(&self, pool: &ResourceKey, id: ClaimId) -> Result<usize, Refusal> {
        if !self.resources.iter().any(|row| row.resource == *pool && row.configured) {
            return Err(Refusal::NoSuchResource);
        }
        let is_it = |row: &ClaimFact| row.claim == id && row.resource == *pool;
        let at = self.claims.iter().position(is_it).ok_or(Refusal::NotHeld { how: None })?;
        match self.claims[at].status {
            Status::Active => Ok(at),
            Status::Ended(how) => Err(Refusal::NotHeld { how: Some(how) }),
            _ => Err(Refusal::NotHeld { how: None }),
        }
    }

    /// The claim that has this idempotency key.
    pub(crate) fn find_key(&self, resource: &ResourceKey, name: &Arc<str>) -> Option<usize> {
        let has_it = |row: &ClaimFact| row.key.as_ref().is_some_and(|key| key.name == *name);
        self.claims.iter().position(|row| row.resource == *resource && has_it(row))
    }

    pub(crate) fn remembered(&self) -> impl Iterator<Item = &ClaimFact> {
        self.claims.iter().filter(|row| is_remembered(row))
    }

    pub(crate) fn refuse_new_claim(&self, key: &ResourceKey) -> Result<(), Refusal> {
        if self.is_store_full {
            return Err(Refusal::StoreFull);
        }
        let limit = self.limits.claims_max;
        if self.claims.len() - self.remembered().count() >= limit {
            return Err(Refusal::TooManyClaims { limit });
        }
        self.refuse_new_resource(key)
    }

    pub(crate) fn refuse_new_resource(&self, key: &ResourceKey) -> Result<(), Refusal> {
        let limit = self.limits.resources_max;
        let is_new = !self.resources.iter().any(|row| row.resource == *key);
        if is_new && self.resources.len() >= limit { Err(Refusal::TooManyResources { limit }) } else { Ok(()) }
    }

    pub(crate) fn refuse_new_waiter(&self) -> Result<(), Refusal> {
        let limit = self.limits.waiting_max;
        let waiting = self.claims.iter().filter(|row| row.status == Status::Waiting).count();
        if waiting >= limit { Err(Refusal::TooManyWaiting { limit }) } else { Ok(()) }
    }

    pub(crate) fn refuse_past_quota(&self, asked: &Acquire) -> Result<(), Refusal> {
        let limit = asked.quota.live_max;
        let has = self.owned(asked, |row| !is_remembered(row));
        if has >= limit { Err(Refusal::OverQuota { is_about_waiting: false, limit }) } else { Ok(()) }
    }

    pub(crate) fn refuse_past_waiting_quota(&self, asked: &Acquire) -> Result<(), Refusal> {
        let limit = asked.quota.waiting_max;
        let has = self.owned(asked, |row| row.status == Status::Waiting);
        let is_over = owner(&asked.resource, &asked.client, &asked.principal).is_some() && has >= limit;
        if is_over { Err(Refusal::OverQuota { is_about_waiting: true, limit }) } else { Ok(()) }
    }

    /// Counts the claims of the asking owner that match.
    fn owned(&self, asked: &Acquire, what: fn(&ClaimFact) -> bool) -> u32 {
        let asks = owner(&asked.resource, &asked.client, &asked.principal);
        let is_own = |row: &&ClaimFact| asks.is_some() && owner(&row.resource, &row.client, &row.principal) == asks;
        u32::try_from(self.claims.iter().filter(is_own).filter(|row| what(row)).count()).expect("few claims")
    }

    pub(crate) fn resource_row(&mut self, key: &ResourceKey) -> &mut ResourceFact {
        let at = self.resources.iter().position(|row| row.resource == *key).unwrap_or_else(|| {
            let (capacity, resource) = (default_capacity(key), key.clone());
            let (label, holds) = (None, Holds::default());
            self.resources.push(ResourceFact {
                resource,
                capacity,
                configured: false,
                last_token: Token(0),
                label,
                holds,
                fittings: None,
            });
            self.resources_most = self.resources_most.max(self.resources.len());
            self.resources.len() - 1
        });
        &mut self.resources[at]
    }

    pub(crate) fn drop_unused_resources(&mut self) {
        let claims = &self.claims;
        let is_referred_to = |key: &ResourceKey| claims.iter().any(|claim| claim.resource == *key);
        self.resources.retain(|row| row.configured || row.fittings.is_some() || is_referred_to(&row.resource));
    }
}

/// The ending that callers see: a claim handed back without a request of its caller reads as withdrawn.
pub(crate) fn shown(how: Ending) -> Ending {
    if how == Ending::HandedBack { Ending::Withdrawn } else { how }
}

pub(crate) fn default_capacity(key: &ResourceKey) -> u32 {
    match key.kind() {
        Kind::Pool => 0,
        Kind::Claim | Kind::Lock => 1,
    }
}

type Name = Option<std::sync::Arc<str>>;

/// Locks are their principal's, whatever the client is called; everything else is its client's.
fn owner<'a>(resource: &ResourceKey, client: &'a Name, principal: &'a Name) -> &'a Name {
    if matches!(resource, ResourceKey::Lock(_)) { principal } else { client }
}
