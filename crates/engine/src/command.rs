//! The commands of the engine. Dialects parse bytes into these; values are in range when they get here.

use std::ops::{Add, RangeInclusive};
use std::sync::Arc;

use crate::change::{Ending, IdempotencyKey, Particulars};
use crate::fittings::NamedSlot;
use crate::ids::{ClaimId, Kind, ResourceKey, Token};
use crate::time::Wall;

/// A request to the engine, with every value in range: [`Engine::handle`](crate::Engine::handle) decides what it does.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command {
    /// Give a resource a capacity; registers a pool.
    Configure {
        /// A pool or a claimed resource.
        resource: ResourceKey,
        /// Its number of slots. Lowering it recalls no lease.
        capacity: u32,
        /// The name that people see in place of a pool's id.
        label: Labeling,
    },
    /// Take the registration away. A pool's claims end with it; a claimed resource goes back to one slot.
    Unconfigure {
        /// A pool or a claimed resource.
        resource: ResourceKey,
    },
    /// Ask for a slot: borrow, claim, lock.
    Acquire(Box<Acquire>),
    /// Extend a pool's lease.
    Renew {
        /// The pool of the lease.
        resource: ResourceKey,
        /// The lease.
        claim: ClaimId,
        /// The new time to live, counted from now.
        ttl_us: u64,
    },
    /// Give a pool's lease back.
    Return {
        /// The pool of the lease.
        resource: ResourceKey,
        /// The lease.
        claim: ClaimId,
    },
    /// Give a lock back, or leave its queue.
    Unlock {
        /// The lock.
        resource: ResourceKey,
        /// The client that gives it back, which only the last holder may, or that leaves the queue.
        client: Arc<str>,
        /// Only the grant of this token, and no place in the queue.
        token: Option<Token>,
    },
    /// End the claim that an idempotency key stands for, and spend the key, so that a late copy of its request gets
    /// nothing.
    Spend(Box<Spend>),
    /// Change a claim, in one step or not at all.
    Update {
        /// A claim of the claims dialect.
        claim: ClaimId,
        /// The wanted changes.
        update: Update,
    },
    /// The last caller that waited for this claim with an open connection left, or was told that its wait is over. No
    /// caller was told of a grant, so the claim ends even if it was granted meanwhile.
    Withdraw {
        /// The claim to withdraw.
        claim: ClaimId,
    },
    /// The first caller is parked on a waiting claim of the claims dialect, or the last one is not any more. While one
    /// is parked there, the claim counts as asked about, and its grant needs no confirmation.
    Attend {
        /// The claim that callers are parked on.
        claim: ClaimId,
        /// `true` while there is one.
        is_attended: bool,
    },
    /// Write only a time mark: shows that changes still become durable.
    Mark,
    /// A caller of this claim could not be told of it. The claim ends as if it had never existed, unless a second
    /// caller knows of it.
    HandBack {
        /// The claim that an undelivered answer told of.
        claim: ClaimId,
        /// The other callers could not be told either, so the claim ends although it was seen.
        heard_by_nobody: bool,
    },
    /// End a grant or a wait, no matter which client it belongs to.
    Revoke {
        /// The resource of the claim.
        resource: ResourceKey,
        /// The claim that ends.
        which: Revocable,
    },
    /// Show a pool, a claimed resource or a lock.
    ViewResource {
        /// The resource to show.
        resource: ResourceKey,
    },
    /// The same view of a pool or a lock, with this caller's place in the queue.
    ViewPlace {
        /// The pool or the lock.
        resource: ResourceKey,
        /// The idempotency key of a borrow, the client of a lock.
        name: Arc<str>,
    },
    /// Show the present holder of a claimed resource, and the claim of an idempotency key.
    ViewHolding {
        /// A claimed resource.
        resource: ResourceKey,
        /// The key whose claim to show.
        key: Option<Arc<str>>,
    },
    /// Show a pool's lease that is held.
    ViewLease {
        /// The pool of the lease.
        resource: ResourceKey,
        /// The lease.
        claim: ClaimId,
    },
    /// Show a claim of the claims dialect, also after it ended, as long as it is retained.
    ViewClaim {
        /// The claim to show.
        claim: ClaimId,
    },
    /// Show a page of claims, oldest first.
    ListClaims(Box<ClaimQuery>),
    /// Claimed resources by name, from the first name after `after`.
    ListResources {
        /// The last name of the page before; `None` for the first page.
        after: Option<Arc<str>>,
        /// The most resources of one page.
        limit: usize,
        /// The most resources to look at under the lock, shown or not.
        scan_max: usize,
    },
    /// Show whether a token is current, for a resource that guards itself.
    ViewFence {
        /// The resource that the token is for.
        resource: ResourceKey,
        /// The token of a caller that wants to act.
        token: Token,
    },
    /// A line about each resource of every kind, from the first after `after`. The engine looks at about `scan_max`
    /// resources and holders in one call and says where to go on.
    Survey {
        /// The last resource of the slice before; `None` for the first slice.
        after: Option<ResourceKey>,
        /// About how many resources and holders one slice looks at.
        scan_max: usize,
        /// Lines carry the texts of their holders and waiters, for a search. A slice then looks at waiters, too.
        with_texts: bool,
    },
    /// One resource with its holders and its queue, whatever its kind.
    Inspect {
        /// The resource to show.
        resource: ResourceKey,
    },
    /// Give a resource a capacity, and its slots names and data.
    NameSlots(Box<NameSlots>),
    /// Grant no slot of this resource until it is resumed. Leases, renewals, returns and queues go on.
    Pause {
        /// A resource of any kind.
        resource: ResourceKey,
        /// Why, for people to read.
        reason: Arc<str>,
        /// How long, in service time; until it is resumed if `None`.
        for_us: Option<u64>,
    },
    /// End the pause of a resource.
    Resume {
        /// A resource of any kind.
        resource: ResourceKey,
    },
    /// Take a slot out of service, or back into service. Its holder keeps it.
    ServeSlot {
        /// A pool or a claimed resource.
        resource: ResourceKey,
        /// The number of the slot.
        slot: u32,
        /// Why it is out of service; `None` takes it back into service.
        out: Option<Arc<str>>,
    },
}

/// A capacity with names for the slots.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NameSlots {
    /// A pool or a claimed resource.
    pub resource: ResourceKey,
    /// Its number of slots: the number of names, where there are names.
    pub capacity: u32,
    /// The names and data of the slots; `None` takes the names away.
    pub slots: Option<Arc<[NamedSlot]>>,
    /// The name that people see in place of a pool's id.
    pub label: Labeling,
}

/// A request for a slot: a borrow, a claim or a lock.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Acquire {
    /// The resource to take a slot of.
    pub resource: ResourceKey,
    /// Random, drawn by the driver: the id of the claim if this command makes one.
    pub id: ClaimId,
    /// The time to live of the lease, counted from its grant.
    pub ttl_us: u64,
    /// How long the caller waits for a slot.
    pub patience: Patience,
    /// The lock dialect's `client`; elsewhere the owner of the claim, where callers sign on.
    pub client: Option<Arc<str>>,
    /// The owner of a lock's claim, where callers sign on: its client may have any name. None elsewhere.
    pub principal: Option<Arc<str>>,
    /// The caller's name for this request, where it gave one.
    pub key: Option<IdempotencyKey>,
    /// The caller's JSON, as it was sent; shown with the claim, never read here.
    pub metadata: Option<Arc<str>>,
    /// How much the owner may have.
    pub quota: Quota,
    /// Parts that only some requests have.
    pub options: Options,
}

impl Acquire {
    /// The principal that the claim will belong to, and be counted for.
    pub fn owner(&self) -> Option<&Arc<str>> {
        owner(self.resource.kind(), self.client.as_ref(), self.principal.as_ref())
    }
}

/// The principal that a claim of this kind belongs to. The client of a lock is a name that its caller chose, so that it
/// owns nothing; elsewhere it is the name that its caller signed on with.
pub(crate) fn owner<T>(kind: Kind, client: Option<T>, principal: Option<T>) -> Option<T> {
    match kind {
        Kind::Lock => principal,
        Kind::Pool | Kind::Claim => client,
    }
}

/// Parts of a request that only some requests have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Options {
    /// The answer to a lock's client that has the lock already.
    pub renewal: Renewal,
    /// The fingerprint that an earlier version computed for the same request, so that keys survive an upgrade.
    pub former_fingerprint: Option<u64>,
    /// How long the place in the queue outlives the last call that waits there. Zero: it does not outlive that call.
    pub keep_us: u64,
    /// Parts that stay with the claim.
    pub particulars: Particulars,
    /// Whether the key may name another claim once its own has ended.
    pub key_reuse: KeyReuse,
}

/// The label of a resource, as a command leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Labeling {
    /// The label stays as it is.
    #[default]
    Kept,
    /// This label, or none.
    Set(Option<Arc<str>>),
}

/// A claim that an operator ends, named by something that is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Revocable {
    /// The grant with this token.
    Grant(Token),
    /// The waiting claim with this place in the order of creation.
    Place(u64),
}

/// When an idempotency key whose claim has ended may name a new claim. A claimed resource's keys only: those of pools
/// and locks are forgotten with a wait that came to nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum KeyReuse {
    /// Never: a copy of the request gets nothing.
    #[default]
    Never,
    /// When the claim ended without a grant, so that a caller may ask again after it waited in vain.
    AfterWait,
    /// Always: the key names a caller, not a request.
    Always,
}

/// Which grants of its own a lock's client renews by asking for the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Renewal {
    /// Any grant that the client has.
    #[default]
    Any,
    /// Only the grant with this token; the client takes no other.
    Only(Token),
    /// None: the client asks as another client would.
    Never,
}

/// An idempotency key to spend.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Spend {
    /// The resource that the key belongs to.
    pub resource: ResourceKey,
    /// The text of the caller's `Idempotency-Key`.
    pub key: Arc<str>,
    /// The lock dialect's `client`, which must be the one of the key's claim.
    pub client: Option<Arc<str>>,
    /// Random, drawn by the driver: the id of the claim that remembers a key seen for the first time.
    pub id: ClaimId,
}

/// How much one owner may have at once, counted over all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Quota {
    /// Claims that wait or hold.
    pub live_max: u32,
    /// Claims that wait.
    pub waiting_max: u32,
    /// The part of it that the owner already has in other partitions.
    pub elsewhere: Owned,
}

impl Quota {
    /// No limit.
    pub const NONE: Quota = Quota { live_max: u32::MAX, waiting_max: u32::MAX, elsewhere: Owned::NOTHING };
}

/// The claims of one owner in a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Owned {
    /// Claims that hold a slot.
    pub holding: u32,
    /// Claims that wait.
    pub waiting: u32,
}

impl Owned {
    /// No claims.
    pub const NOTHING: Owned = Owned { holding: 0, waiting: 0 };

    /// Claims that wait or hold.
    pub fn live(self) -> u32 {
        self.holding + self.waiting
    }
}

impl Add for Owned {
    type Output = Owned;

    fn add(self, other: Owned) -> Owned {
        Owned { holding: self.holding + other.holding, waiting: self.waiting + other.waiting }
    }
}

/// How long a caller stands in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Patience {
    /// The caller waits with its connection, for this long. Zero: a slot now or a refusal.
    For {
        /// The longest wait, counted from now.
        wait_us: u64,
    },
    /// The claim waits by itself until it is granted or ended: the claims dialect.
    Standing,
}

/// The parts of a claim that a caller may change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Update {
    /// A new end of the lease, counted from now; for active claims.
    pub ttl_us: Option<u64>,
    /// The ttl of the next activation.
    pub timeout_us: Option<u64>,
    /// The status to bring the claim into.
    pub status: Option<Wish>,
}

/// The status that a caller wants for its claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Wish {
    /// Hold the slot; refused unless it is the claim's turn.
    Active,
    /// Give the slot back.
    Released,
    /// End it, waiting or active.
    Revoked,
    /// As revoked, in the words of the deployed claims service.
    Aborted,
    /// As revoked, in the words of the deployed claims service.
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
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimQuery {
    /// The claims to show.
    pub filter: ClaimFilter,
    /// Go on after this place in the order of creation; zero is the beginning.
    pub after: u64,
    /// The most claims of one page.
    pub limit: usize,
    /// The most claims that one call looks at.
    pub scan_max: usize,
}

/// Which claims to show. Every part that is given must hold; claims without a ttl never match a ttl range.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimFilter {
    /// Claims on the resource of this name.
    pub resource: Option<Arc<str>>,
    /// Claims of this owner.
    pub owner: Option<Arc<str>>,
    /// Claims in one of these statuses; in any status when there are none.
    pub statuses: Vec<StatusFilter>,
    /// Active claims with this much of their lease left.
    pub ttl_us: Option<RangeInclusive<u64>>,
    /// Claims made at this time, by the wall clock.
    pub created: Option<RangeInclusive<Wall>>,
    /// Claims that were active for this long.
    pub active_us: Option<RangeInclusive<u64>>,
    /// Claims that waited for this long.
    pub waiting_us: Option<RangeInclusive<u64>>,
}

/// The status of a claim, as callers filter by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StatusFilter {
    /// In a queue.
    Waiting,
    /// Holding a slot.
    Active,
    /// Over, in this way.
    Ended(Ending),
}
