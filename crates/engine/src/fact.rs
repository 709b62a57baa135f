//! Facts: the state, one entity at a time. A checkpoint is a bag of facts in no particular order; `Engine::restore`
//! builds an engine from it.

use std::sync::Arc;

use crate::change::{Ending, IdempotencyKey, Lease, Particulars};
use crate::fittings::{Fittings, OutOfService, Pause};
use crate::holds::Holds;
use crate::ids::{ClaimId, ResourceKey, Token};
use crate::time::{Moment, Time};

/// One entity of the state as it is. The facts of an engine, sorted, are its whole state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// The counters of the partition.
    Counters(Counters),
    /// A resource.
    Resource(ResourceFact),
    /// A claim, retained ones included.
    Claim(Box<ClaimFact>),
}

/// The counters that outlive every resource and claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counters {
    /// The last token that was minted.
    pub last_token: Token,
    /// The place of the newest claim in the order of creation.
    pub last_order: u64,
}

/// A resource with the parts that outlive its claims; slots and queue follow from the claims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceFact {
    /// Its key.
    pub resource: ResourceKey,
    /// Its number of slots.
    pub capacity: u32,
    /// `true` if a caller gave it this capacity; it then stays without any claim.
    pub configured: bool,
    /// The last token granted on it while it has been known.
    pub last_token: Token,
    /// The name that people see in place of its id.
    pub label: Option<Arc<str>>,
    /// How long its slots were held.
    pub holds: Holds,
    /// Its fittings; `None` where it has none.
    pub fittings: Option<Box<Fittings>>,
}

/// A claim in full: everything that a restored engine needs to go on with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimFact {
    /// Its id.
    pub claim: ClaimId,
    /// The resource it has, or waits for, a slot of.
    pub resource: ResourceKey,
    /// Its place in the order of creation, and so in the queue.
    pub order: u64,
    /// Its status.
    pub status: Status,
    /// More than one caller knows of it, so it is never handed back on the word of one.
    pub seen: bool,
    /// The time to live of its next grant.
    pub ttl_us: u64,
    /// While it waits: when its callers give up.
    pub wait_until: Time,
    /// How long its place in the queue outlives the last call that waits there; zero once its caller was told of the
    /// grant.
    pub keep_us: u64,
    /// Meaningful once granted, like the token and the lease.
    pub slot: u32,
    /// The fencing token of its grant.
    pub token: Token,
    /// The deadline and the grace of its lease.
    pub lease: Lease,
    /// Wall clocks are kept for claims only; they are zero for pools and locks.
    pub created: Moment,
    /// When it was granted, if it was.
    pub granted: Option<Moment>,
    /// When it ended, if it has.
    pub ended: Option<Moment>,
    /// The lock's client, or the owner of a claim.
    pub client: Option<Arc<str>>,
    /// For a lock, the name that its caller signed on with.
    pub principal: Option<Arc<str>>,
    /// The idempotency key it was made under.
    pub key: Option<IdempotencyKey>,
    /// The caller's JSON, as it was sent.
    pub metadata: Option<Arc<str>>,
    /// Parts that few claims have.
    pub particulars: Particulars,
}

impl ClaimFact {
    /// The same claim where service time is later by `by_us`: nothing that is left of a lease, a wait or a retention
    /// becomes more or less. For states that are put together.
    #[must_use]
    pub fn delayed(self, by_us: u64) -> ClaimFact {
        let later = |moment: Moment| Moment { at: moment.at.plus(by_us), ..moment };
        // Taken apart by name, so that a new point in time fails to compile here.
        let ClaimFact {
            claim,
            resource,
            order,
            status,
            seen,
            ttl_us,
            wait_until,
            keep_us,
            slot,
            token,
            lease,
            created,
            granted,
            ended,
            client,
            principal,
            key,
            metadata,
            particulars,
        } = self;
        ClaimFact {
            claim,
            resource,
            order,
            status,
            seen,
            ttl_us,
            wait_until: wait_until.plus(by_us),
            keep_us,
            slot,
            token,
            // One that was never granted has no lease.
            lease: if token == Token(0) { lease } else { Lease { deadline: lease.deadline.plus(by_us), ..lease } },
            created: later(created),
            granted: granted.map(later),
            ended: ended.map(later),
            client,
            principal,
            key,
            metadata,
            particulars,
        }
    }
}

impl ResourceFact {
    /// The same resource where service time is later by `by_us`: nothing that is left of a pause becomes more or less.
    /// For states that are put together.
    #[must_use]
    pub fn delayed(mut self, by_us: u64) -> ResourceFact {
        // Taken apart by name, so that a new point in time fails to compile here.
        if let Some(fittings) = &mut self.fittings {
            let Fittings { pause, out_of_service, slots: _ } = &mut **fittings;
            if let Some(Pause { reason: _, since, until }) = pause {
                (since.at, *until) = (since.at.plus(by_us), until.plus(by_us));
            }
            for OutOfService { reason: _, since } in out_of_service.values_mut() {
                since.at = since.at.plus(by_us);
            }
        }
        self
    }
}

/// The status of a claim inside the engine, in the order of its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Stands in the queue.
    Waiting,
    /// Has a slot and a lease that runs.
    Active,
    /// A lock whose lease ran out: only its last holder may take it.
    Grace,
    /// A lock whose grace ran out too: still visible, and any client may take it.
    Lapsed,
    /// Over, in this way; kept for reading, or to remember its idempotency key.
    Ended(Ending),
}
