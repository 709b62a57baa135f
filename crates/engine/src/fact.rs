//! Facts: the state, one entity at a time. A checkpoint is a bag of facts in no particular order; `Engine::restore`
//! builds an engine from it.

use std::sync::Arc;

use crate::change::{Ending, IdempotencyKey, Lease};
use crate::ids::{ClaimId, ResourceKey, Token};
use crate::time::{Moment, Time};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    Counters(Counters),
    Resource(ResourceFact),
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

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceFact {
    pub resource: ResourceKey,
    pub capacity: u32,
    pub configured: bool,
    /// The last token granted on it while it has been known.
    pub last_token: Token,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimFact {
    pub claim: ClaimId,
    pub resource: ResourceKey,
    /// Its place in the order of creation, and so in the queue.
    pub order: u64,
    pub status: Status,
    /// More than one caller knows of it, so it is never handed back on the word of one.
    pub seen: bool,
    pub ttl_us: u64,
    pub wait_until: Time,
    /// How long its place in the queue outlives the last call that waits there; zero once its caller was told of the
    /// grant.
    pub keep_us: u64,
    /// Meaningful once granted, like the token and the lease.
    pub slot: u32,
    pub token: Token,
    pub lease: Lease,
    /// Wall clocks are kept for claims only; they are zero for pools and locks.
    pub created: Moment,
    pub granted: Option<Moment>,
    pub ended: Option<Moment>,
    pub client: Option<Arc<str>>,
    pub principal: Option<Arc<str>>,
    pub key: Option<IdempotencyKey>,
    pub metadata: Option<Arc<str>>,
}

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
    Ended(Ending),
}
