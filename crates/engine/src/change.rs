//! Changes: the record of what happened. They are the only thing that is written down and the only thing that mutates
//! state (`Engine::apply`). Each carries a decision, never the input of one: slots, tokens and deadlines are in it,
//! limits and settings are not.

use std::sync::Arc;

use crate::fittings::NamedSlot;
use crate::ids::{ClaimId, ResourceKey, Token};
use crate::time::Time;

/// One decided step of the state machine: the unit of the journal, and the only input of `Engine::apply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A time mark: nothing happened, but service time got this far.
    Marked,
    /// The store lost changes in which tokens may have been given out: they go on above this one.
    Jumped {
        /// Every token from now on is higher.
        last_token: Token,
    },
    /// A pool was registered or resized, or a claimed resource was given a capacity.
    Configured {
        /// The pool, or the claimed resource; locks always have one slot.
        resource: ResourceKey,
        /// Its number of slots from now on. Holders above it keep their slots until they end.
        capacity: u32,
    },
    /// A resource got a label, or lost it.
    Labeled {
        /// A resource that was given a capacity.
        resource: ResourceKey,
        /// The name that people see in place of its id.
        label: Option<Arc<str>>,
    },
    /// A pool was deleted, or a claimed resource went back to its default. Claims that had to end did so before.
    Unconfigured {
        /// The pool, or the claimed resource.
        resource: ResourceKey,
    },
    /// A claim entered at the end of its resource's queue.
    Claimed(Box<Claimed>),
    /// A repeated call joined a claim: a second caller knows of it now and waits until `wait_until`.
    Joined {
        /// The claim that the repeated request led to.
        claim: ClaimId,
        /// The end of the longest wait on it.
        wait_until: Time,
    },
    /// A claim keeps its place until `wait_until`, unless another call joins it: the last call that waited on it is
    /// gone, or it was asked about.
    Kept {
        /// The waiting claim.
        claim: ClaimId,
        /// When it gives up its place.
        wait_until: Time,
    },
    /// A waiting claim got a slot.
    Granted {
        /// The claim that waited until now.
        claim: ClaimId,
        /// Its slot, the lowest free one.
        slot: u32,
        /// The fencing token of this grant, above all tokens before it.
        token: Token,
        /// The deadline and the grace that it begins with.
        lease: Lease,
    },
    /// A caller was parked on the claim when it was granted, so that the grant needs no confirmation.
    Confirmed {
        /// The claim that was granted just now.
        claim: ClaimId,
    },
    /// The lease of a holder got a new end. A lock that had expired is held again.
    Renewed {
        /// The holder.
        claim: ClaimId,
        /// The new deadline and grace; the token stays.
        lease: Lease,
    },
    /// A claim's timeout, the ttl of its next activation, was changed.
    Retimed {
        /// The claim, waiting or active.
        claim: ClaimId,
        /// The ttl of its next activation; a lease that runs keeps its own.
        ttl_us: u64,
    },
    /// A lock's lease ran out; only its last holder may come back.
    GraceBegan {
        /// The last holder of the lock.
        claim: ClaimId,
    },
    /// The grace of a lock ran out; any client may take it. Its last holder stays visible.
    GraceOver {
        /// The last holder of the lock.
        claim: ClaimId,
    },
    /// A claim ended. It frees its slot or leaves the queue, and is kept for reading where its kind asks for it.
    Ended {
        /// The claim that ended.
        claim: ClaimId,
        /// Why it ended.
        how: Ending,
    },
    /// The retention time of an ended claim is over.
    Forgotten {
        /// The ended claim, or the last holder of a lapsed lock.
        claim: ClaimId,
    },
    /// No slot of a resource is granted from now on.
    Paused {
        /// A resource of any kind.
        resource: ResourceKey,
        /// Why, for people to read.
        reason: Arc<str>,
        /// When the pause ends by itself; `Time::NEVER` if it does not.
        until: Time,
    },
    /// The pause of a resource is over.
    Resumed {
        /// The resource that was paused.
        resource: ResourceKey,
    },
    /// A slot is out of service from now on, or back in service.
    SlotServed {
        /// A pool or a claimed resource.
        resource: ResourceKey,
        /// The number of the slot.
        slot: u32,
        /// Why it is out of service; `None` when it is back.
        out: Option<Arc<str>>,
    },
    /// The slots of a resource got names and data, or lost them.
    SlotsNamed {
        /// A resource that was given a capacity.
        resource: ResourceKey,
        /// One of each slot.
        slots: Option<Arc<[NamedSlot]>>,
    },
}

/// The caller's side of a new claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The id that the driver drew for it.
    pub claim: ClaimId,
    /// The resource it asks for a slot of.
    pub resource: ResourceKey,
    /// The ttl its lease starts with when it is granted.
    pub ttl_us: u64,
    /// When the caller gives up, for callers that stand in the queue with an open connection.
    pub wait_until: Time,
    /// How long its place outlives the last call that waits on it.
    pub keep_us: u64,
    /// The caller: the lock dialect's `client`, elsewhere the name the caller signed on with.
    pub client: Option<Arc<str>>,
    /// For a lock, the name that its caller signed on with.
    pub principal: Option<Arc<str>>,
    /// The caller's name for the request, where it gave one.
    pub key: Option<IdempotencyKey>,
    /// The caller's JSON, as it was sent. Opaque here.
    pub metadata: Option<Arc<str>>,
    /// Parts that few claims have.
    pub particulars: Particulars,
}

/// The parts of a claim that few claims have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Particulars {
    /// The name that a pool's borrower gave itself, for people to read.
    pub holder: Option<Arc<str>>,
    /// A waiting claim that is not asked about for this long is withdrawn. Zero: it waits for ever.
    pub wait_ttl_us: u64,
    /// A grant made while no caller was parked on the claim lasts this long unless the claim is asked about. Zero: it
    /// needs no confirmation, or has it.
    pub confirm_us: u64,
}

impl Particulars {
    /// Returns whether the claim has none of them.
    pub fn is_empty(&self) -> bool {
        *self == Particulars::default()
    }
}

/// The time-bounded side of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// When the lease ends unless it is renewed.
    pub deadline: Time,
    /// How long after the deadline only this holder may come back. Zero except for locks.
    pub grace_us: u64,
}

/// A caller's name for one request, so that a repeated request takes effect once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct IdempotencyKey {
    /// The text of the caller's `Idempotency-Key`, unique on its resource.
    pub name: Arc<str>,
    /// A digest of the request. The same key with another request is a mistake of the caller.
    pub fingerprint: u64,
}

/// Declares `Ending`: a new one is in every table as soon as it is here.
macro_rules! endings {
    ($($(#[$doc:meta])+ $name:ident => $word:literal,)+) => {
        /// How a claim ended.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum Ending {
            $($(#[$doc])+ $name,)+
        }

        impl Ending {
            /// All endings, in the order of arrays by ending.
            pub const ALL: [Ending; [$($word),+].len()] = [$(Ending::$name),+];

            /// The ending in one word, as claims and events show it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Ending::$name => $word,)+
                }
            }
        }
    };
}

endings! {
    /// Its holder gave it back.
    Released => "released",
    /// Its lease ran out.
    Expired => "expired",
    /// An operator or another caller ended it, waiting or active.
    Revoked => "revoked",
    /// As revoked, in the words of the deployed claims service.
    Aborted => "aborted",
    /// As revoked, in the words of the deployed claims service; also a waiter whose caller left.
    Withdrawn => "withdrawn",
    /// It waited for as long as its caller had asked for.
    TimedOut => "timed_out",
    /// Its pool was deleted.
    Deleted => "deleted",
    /// It was granted, but its caller could not be told. It counts as if it had never existed, and so does its
    /// idempotency key.
    HandedBack => "handed_back",
    /// A lock whose last holder did not come back was taken by another client.
    Superseded => "superseded",
}
