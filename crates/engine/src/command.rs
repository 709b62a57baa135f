//! What can be asked of the engine. Dialects parse bytes into these; values are in range when they get here.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::change::{Ending, IdempotencyKey};
use crate::ids::{ClaimId, Kind, ResourceKey, Token};
use crate::time::Wall;

#[derive(Clone, Debug)]
pub enum Command {
    /// Give a resource a capacity; registers a pool.
    Configure {
        resource: ResourceKey,
        capacity: u32,
    },
    /// Take the registration away. A pool's claims end with it; a claimed resource goes back to one slot.
    Unconfigure {
        resource: ResourceKey,
    },
    /// Ask for a slot: borrow, claim, lock.
    Acquire(Box<Acquire>),
    /// Extend a pool's lease.
    Renew {
        resource: ResourceKey,
        claim: ClaimId,
        ttl_us: u64,
    },
    /// Give a pool's lease back.
    Return {
        resource: ResourceKey,
        claim: ClaimId,
    },
    /// Give a lock back.
    Unlock {
        resource: ResourceKey,
        client: Arc<str>,
    },
    /// Change a claim, in one step or not at all.
    Update {
        claim: ClaimId,
        update: Update,
    },
    /// The last caller that waited for this claim with its connection left, or was told that its wait is over. No caller
    /// was told of a grant, so that the claim ends also when it was granted meanwhile.
    Withdraw {
        claim: ClaimId,
    },
    /// Nothing but a time mark: shows that changes still become durable.
    Mark,
    /// A caller of this claim could not be told of it. It ends as if it had never been, unless a second caller knows.
    HandBack {
        claim: ClaimId,
        /// The others could not be told either, so that it ends though it was seen.
        heard_by_nobody: bool,
    },
    /// End a grant, whoever holds it.
    Revoke {
        resource: ResourceKey,
        token: Token,
    },
    ViewResource {
        resource: ResourceKey,
    },
    ViewLease {
        resource: ResourceKey,
        claim: ClaimId,
    },
    ViewClaim {
        claim: ClaimId,
    },
    ListClaims(Box<ClaimQuery>),
    /// Claimed resources by name, from the first name after `after`.
    ListResources {
        after: Option<Arc<str>>,
        limit: usize,
    },
    /// Whether a token is the one to heed.
    ViewFence {
        resource: ResourceKey,
        token: Token,
    },
    /// A line about each resource of every kind, from the first after `after`. The engine looks at about `scan_max`
    /// resources and holders and says where to go on.
    Survey {
        after: Option<ResourceKey>,
        scan_max: usize,
    },
    /// One resource with its holders and its queue, whatever its kind.
    Inspect {
        resource: ResourceKey,
    },
}

#[derive(Clone, Debug)]
pub struct Acquire {
    pub resource: ResourceKey,
    /// Random, drawn by the driver: the id of the claim if one comes of this.
    pub id: ClaimId,
    pub ttl_us: u64,
    pub patience: Patience,
    /// The lock dialect's `client`; elsewhere whom the claim belongs to, where callers sign on.
    pub client: Option<Arc<str>>,
    pub key: Option<IdempotencyKey>,
    pub metadata: Option<Arc<str>>,
    /// How much its client may have.
    pub quota: Quota,
}

impl Acquire {
    /// The name by which a repeated request finds the claim of the first (`Claim::name`).
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        match self.resource.kind() {
            Kind::Lock => self.client.as_ref(),
            Kind::Pool | Kind::Claim => self.key.as_ref().map(|key| &key.name),
        }
    }
}

/// How much one client may have at once, counted over all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Claims that wait or hold.
    pub live_max: u32,
    /// Claims that wait.
    pub waiting_max: u32,
}

impl Quota {
    /// As much as there is.
    pub const NONE: Quota = Quota { live_max: u32::MAX, waiting_max: u32::MAX };
}

/// How long a caller stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// With its connection, this long. Zero: now or not at all.
    For { wait_us: u64 },
    /// By itself, until it is granted or ended: the claims dialect.
    Standing,
}

/// What may be changed of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Update {
    pub ttl_us: Option<u64>,
    pub timeout_us: Option<u64>,
    pub status: Option<Wish>,
}

/// The status a caller wants its claim to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Active,
    Released,
    Revoked,
    Aborted,
    Withdrawn,
}

impl Wish {
    /// How the claim ends if the wish comes true; `Active` ends nothing.
    pub fn ending(self) -> Option<Ending> {
        match self {
            Wish::Active => None,
            Wish::Released => Some(Ending::Released),
            Wish::Revoked => Some(Ending::Revoked),
            Wish::Aborted => Some(Ending::Aborted),
            Wish::Withdrawn => Some(Ending::Withdrawn),
        }
    }
}

/// A page of claims, oldest first. The engine looks at no more than `scan_max` claims in one call and says where to
/// go on, so that no list holds up other callers.
#[derive(Clone, Debug)]
pub struct ClaimQuery {
    pub filter: ClaimFilter,
    /// Go on after this place in the order of creation; zero is the beginning.
    pub after: u64,
    pub limit: usize,
    pub scan_max: usize,
}

/// Which claims to show. Every part that is given must hold; claims without a ttl never match a ttl range.
#[derive(Clone, Debug, Default)]
pub struct ClaimFilter {
    pub resource: Option<Arc<str>>,
    pub status: Option<StatusFilter>,
    pub ttl_us: Option<RangeInclusive<u64>>,
    pub created: Option<RangeInclusive<Wall>>,
    pub active_us: Option<RangeInclusive<u64>>,
    pub waiting_us: Option<RangeInclusive<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFilter {
    Waiting,
    Active,
    Ended(Ending),
}
