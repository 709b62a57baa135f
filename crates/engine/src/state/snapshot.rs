//! Facts out, facts in. A checkpoint of a million claims must not stop the service, so the engine walks the state a
//! slice at a time while it changes: an entity that is about to change, and has not been walked yet, is saved first as
//! it was. The resulting facts are exactly the state at the position where the snapshot began.

use super::{Cix, Claim, Extra, Rare, Resource, Rix, State};
use crate::change::Lease;
use crate::fact::{ClaimFact, Fact, ResourceFact, Status};
use crate::holds::Holds;
use crate::ids::{Kind, Token};
use crate::time::{Moment, Time, Wall};

/// A walk that is under way.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Entities marked with this number are in the snapshot already, or younger than it.
    number: u32,
    next_resource: u32,
    resources_end: u32,
    next_claim: u32,
    claims_end: u32,
    /// Saved ahead of the walk.
    saved: Vec<Fact>,
}

impl State {
    pub(crate) fn begin_snapshot(&mut self) {
        assert!(self.snapshot.is_none(), "one snapshot at a time");
        self.snapshots_begun += 1;
        self.snapshot = Some(Snapshot {
            number: self.snapshots_begun,
            next_resource: 0,
            resources_end: self.resources.end(),
            next_claim: 0,
            claims_end: self.claims.end(),
            saved: if planted!(TokenNotInCheckpoint) { Vec::new() } else { vec![Fact::Counters(self.counters)] },
        });
    }

    /// Walks on over at most `budget` entities. `false` when the snapshot is complete.
    pub(crate) fn step_snapshot(&mut self, budget: usize, facts: &mut Vec<Fact>) -> bool {
        let mut snapshot = self.snapshot.take().expect("a snapshot was begun");
        facts.append(&mut snapshot.saved);
        for _ in 0..budget {
            if snapshot.next_resource < snapshot.resources_end {
                let rix = Rix::from_raw(snapshot.next_resource);
                snapshot.next_resource += 1;
                if self.resources.get(rix).is_some_and(|resource| resource.saved_in != snapshot.number) {
                    self.resources[rix].saved_in = snapshot.number;
                    facts.push(fact_of_resource(&self.resources[rix]));
                }
            } else if snapshot.next_claim < snapshot.claims_end {
                let cix = Cix::from_raw(snapshot.next_claim);
                snapshot.next_claim += 1;
                if self.claims.get(cix).is_some_and(|claim| claim.saved_in != snapshot.number) {
                    self.claims[cix].saved_in = snapshot.number;
                    facts.push(self.fact_of_claim(cix));
                }
            } else {
                return false;
            }
        }
        self.snapshot = Some(snapshot);
        true
    }

    /// Borrows a claim to change it; saves it first if a snapshot still needs it.
    pub(crate) fn claim_mut(&mut self, cix: Cix) -> &mut Claim {
        self.save_claim(cix);
        &mut self.claims[cix]
    }

    /// Borrows a resource to change a part that its fact holds; saves it first if a snapshot still needs it.
    pub(crate) fn resource_mut(&mut self, rix: Rix) -> &mut Resource {
        self.save_resource(rix);
        &mut self.resources[rix]
    }

    pub(crate) fn save_claim(&mut self, cix: Cix) {
        let Some(number) = self.snapshot.as_ref().map(|snapshot| snapshot.number) else { return };
        if self.claims[cix].saved_in != number && !planted!(CheckpointOfTheFuture) {
            self.claims[cix].saved_in = number;
            let fact = self.fact_of_claim(cix);
            self.snapshot.as_mut().expect("it is under way").saved.push(fact);
        }
    }

    pub(crate) fn save_resource(&mut self, rix: Rix) {
        let Some(snapshot) = &mut self.snapshot else { return };
        let resource = &mut self.resources[rix];
        if resource.saved_in != snapshot.number {
            resource.saved_in = snapshot.number;
            snapshot.saved.push(fact_of_resource(resource));
        }
    }

    fn fact_of_claim(&self, cix: Cix) -> Fact {
        let claim = &self.claims[cix];
        let extra = claim.extra.as_deref();
        let wall = |pick: fn(&Extra) -> Wall| extra.map_or(Wall(0), pick);
        let is_waiting = claim.status == Status::Waiting || !claim.is_granted();
        let granted = Moment { at: claim.granted_at, wall: wall(|extra| extra.granted_wall) };
        Fact::Claim(Box::new(ClaimFact {
            claim: claim.id,
            resource: self.resources[claim.resource].key.clone(),
            order: claim.order,
            status: claim.status,
            seen: claim.seen,
            ttl_us: claim.ttl_us,
            wait_until: if is_waiting { claim.deadline } else { Time::NEVER },
            keep_us: claim.keep_us(),
            slot: claim.slot,
            token: claim.token,
            lease: if is_waiting { Lease { deadline: Time(0), grace_us: 0 } } else { claim.lease() },
            created: Moment { at: claim.created_at, wall: wall(|extra| extra.created_wall) },
            granted: claim.is_granted().then_some(granted),
            ended: claim.ended(),
            client: extra.and_then(|extra| extra.client.clone()),
            principal: claim.principal().cloned(),
            key: extra.and_then(|extra| extra.key.clone()),
            metadata: extra.and_then(|extra| extra.metadata.clone()),
            particulars: claim.particulars(),
        }))
    }

    /// Every fact of the state, sorted: two states are the same exactly when these are equal.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let mut facts = vec![Fact::Counters(self.counters)];
        facts.extend(self.resources.iter().map(|(_, resource)| fact_of_resource(resource)));
        facts.extend(self.claims.iter().map(|(cix, _)| self.fact_of_claim(cix)));
        facts.sort_unstable();
        facts
    }

    /// Takes in one fact. Queues are linked by `finish_restore`, because facts come in no particular order.
    pub(crate) fn restore(&mut self, fact: Fact) {
        match fact {
            Fact::Counters(counters) => self.counters = counters,
            Fact::Resource(fact) => {
                let rix = self.ensure_resource(&fact.resource);
                let resource = &mut self.resources[rix];
                resource.capacity = fact.capacity;
                resource.configured = fact.configured;
                resource.last_token = fact.last_token;
                resource.set_holds(if planted!(HoldsNotInCheckpoint) { Holds::default() } else { fact.holds });
                self.set_label(rix, fact.label.as_ref());
                if let Some(fittings) = fact.fittings {
                    self.refit(rix, |fitted| {
                        *fitted = *fittings;
                        if planted!(PauseNotInCheckpoint) {
                            fitted.pause = None;
                        }
                    });
                }
            }
            Fact::Claim(fact) => self.restore_claim(*fact),
        }
    }

    fn restore_claim(&mut self, fact: ClaimFact) {
        let rix = self.ensure_resource(&fact.resource);
        let kind = self.kind(rix);
        let extra = Extra {
            client: fact.client,
            rare: Rare::of(fact.principal, fact.particulars),
            key: fact.key,
            metadata: fact.metadata,
            grace_us: fact.lease.grace_us,
            keep_us: fact.keep_us,
            created_wall: fact.created.wall,
            granted_wall: fact.granted.map_or(Wall(0), |granted| granted.wall),
            ended: fact.ended,
        };
        let is_plain = kind == Kind::Pool
            && extra.client.is_none()
            && extra.rare.is_none()
            && extra.key.is_none()
            && extra.metadata.is_none()
            && extra.keep_us == 0;
        let cix = self.insert_claim(Claim {
            id: fact.claim,
            resource: rix,
            status: fact.status,
            seen: fact.seen,
            slot: fact.slot,
            order: fact.order,
            token: fact.token,
            deadline: match fact.granted {
                None if planted!(WaitNotInCheckpoint) => Time::NEVER,
                Some(granted) if planted!(TtlResetOnRestart) => granted.at.plus(fact.ttl_us),
                _ if fact.token == Token(0) => fact.wait_until,
                _ => fact.lease.deadline,
            },
            indexed_at: Time::NEVER,
            created_at: fact.created.at,
            granted_at: fact.granted.map_or(Time(0), |granted| granted.at),
            ttl_us: fact.ttl_us,
            queue_next: Cix::NONE,
            queue_prev: Cix::NONE,
            saved_in: self.snapshots_begun,
            extra: (!is_plain).then(|| Box::new(extra)),
        });
        match fact.status {
            Status::Waiting => {}
            Status::Active | Status::Grace => {
                self.take_slot(rix, fact.slot, cix);
                self.count_holding(cix, true);
            }
            Status::Lapsed => {
                self.take_slot(rix, fact.slot, cix);
                self.retain(cix);
            }
            Status::Ended(_) => self.retain(cix),
        }
        self.keep_due(cix);
    }

    /// Links the queues once all facts are in.
    pub(crate) fn finish_restore(&mut self) {
        let mut waiting: Vec<(u64, Rix, Cix)> = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.status == Status::Waiting)
            .map(|(cix, claim)| (claim.order, claim.resource, cix))
            .collect();
        waiting.sort_unstable();
        for (_, rix, cix) in waiting {
            self.queue_push(rix, cix);
        }
    }
}

fn fact_of_resource(resource: &Resource) -> Fact {
    Fact::Resource(ResourceFact {
        resource: resource.key.clone(),
        capacity: resource.capacity,
        configured: resource.configured,
        last_token: resource.last_token,
        label: resource.label().cloned(),
        holds: resource.holds(),
        fittings: resource.fittings().map(|fittings| Box::new(fittings.clone())),
    })
}
