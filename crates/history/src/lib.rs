//! Histories: the calls and answers of a service's clients, and a check whether they can be true. The checks never ask
//! the service itself.
//!
//! Every answer carries its position in the journal, so the order need not be guessed (`order`): sorted by position,
//! the answers are a witness. Two checks go along it.
//!
//! * [`check`] knows pools. It carries possible unheard effects as bounds, in one walk of O(n log n), however many
//!   calls went unanswered, and overlooks a little. The simulation runs it on every world.
//! * [`search`] knows pools, claims and locks, and overlooks nothing that the answers show: it tries calls without an
//!   answer at every position where they may have happened, and as never having happened.
//!
//! Effects that need no call are allowed where they could have happened: a lease runs out, but not before the time of
//! asking + ttl. Downtime only makes leases longer, so this holds through every fault of the service.
//!
//! One clock for all `start_us` and `end_us`; the server's clocks do not matter.

mod order;
mod parse;
mod print;
mod row;
mod search;
mod walk;

use std::fmt;

pub use parse::{ParseError, parse};
pub use search::{Rules, Searched, search};
pub use walk::check;

/// The epoch and position of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    pub position: u64,
    pub epoch: u64,
}

/// One call and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub client: String,
    pub start_us: u64,
    pub call: Call,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered {
        end_us: u64,
        answer: HeardAnswer,
        stamp: Stamp,
    },
    /// No answer, or one that promises nothing (502, 503).
    Unknown {
        /// When the process that it was sent to was gone for certain: it has happened by then, or never.
        gone_us: Option<u64>,
    },
}

/// A call of a client. Pools, claimed resources and locks have separate name spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    // Pools.
    Configure {
        resource: String,
        capacity: u32,
    },
    Delete {
        resource: String,
    },
    Acquire {
        resource: String,
        ttl_us: u64,
        key: Option<String>,
    },
    Renew {
        resource: String,
        lease: String,
        ttl_us: u64,
    },
    Release {
        resource: String,
        lease: String,
    },
    /// Shows a resource.
    View {
        resource: String,
    },
    /// Shows a lease.
    ViewLease {
        resource: String,
        lease: String,
    },
    // Claims.
    Claim {
        resource: String,
        ttl_us: u64,
        key: Option<String>,
    },
    Update {
        resource: String,
        claim: String,
        wish: Wish,
    },
    ViewClaim {
        resource: String,
        claim: String,
    },
    // Locks.
    Lock {
        resource: String,
        client: String,
        ttl_us: u64,
    },
    Unlock {
        resource: String,
        client: String,
    },
    ViewLock {
        resource: String,
    },
}

/// The requested end of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    Active,
    Ttl { ttl_us: u64 },
    Released,
    Revoked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Pool,
    Claim,
    Lock,
}

impl Call {
    pub fn resource(&self) -> &str {
        match self {
            Call::Configure { resource, .. }
            | Call::Delete { resource }
            | Call::Acquire { resource, .. }
            | Call::Renew { resource, .. }
            | Call::Release { resource, .. }
            | Call::View { resource }
            | Call::ViewLease { resource, .. }
            | Call::Claim { resource, .. }
            | Call::Update { resource, .. }
            | Call::ViewClaim { resource, .. }
            | Call::Lock { resource, .. }
            | Call::Unlock { resource, .. }
            | Call::ViewLock { resource } => resource,
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Call::Configure { .. }
            | Call::Delete { .. }
            | Call::Acquire { .. }
            | Call::Renew { .. }
            | Call::Release { .. }
            | Call::View { .. }
            | Call::ViewLease { .. } => Kind::Pool,
            Call::Claim { .. } | Call::Update { .. } | Call::ViewClaim { .. } => Kind::Claim,
            Call::Lock { .. } | Call::Unlock { .. } | Call::ViewLock { .. } => Kind::Lock,
        }
    }

    /// The idempotency key of the call.
    pub fn key(&self) -> Option<&str> {
        match self {
            Call::Acquire { key, .. } | Call::Claim { key, .. } => key.as_deref(),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeardAnswer {
    Configured,
    /// `true` if there was a pool to delete.
    Deleted(bool),
    /// Holds a slot of a pool: after asking, renewing or looking.
    Held {
        lease: String,
        slot: u32,
        token: u64,
    },
    /// The claim stands in line.
    Waiting {
        lease: String,
    },
    /// `true` if the lease was held until then.
    Released(bool),
    Seen {
        capacity: u32,
        in_use: u32,
    },
    /// No slot was free.
    Full,
    /// The lease is not, or no longer, held.
    NotHeld,
    NoResource,
    /// The call makes no sense. The service answers it without a look at any state, so only the position counts.
    Malformed,
    /// The lease that the key stood for has ended.
    KeySpent,
    /// A claim is active.
    Active {
        claim: String,
        token: u64,
    },
    /// A claim waits at this place in line; 1 is next.
    InLine {
        claim: String,
        place: u32,
    },
    /// A claim has ended, in this way.
    Ended {
        claim: String,
        how: End,
    },
    /// A wish was refused: the claim waits, or has ended.
    Refused {
        status: Status,
    },
    NoClaim,
    /// The caller holds the lock.
    Locked {
        token: u64,
        how: Taken,
    },
    /// Another client holds the lock.
    LockedBy {
        holder: String,
        in_grace: bool,
    },
    /// Only the holder of a lock gives it back.
    NotTheHolder,
    LockSeen {
        /// Client and token.
        holder: Option<(String, u64)>,
        is_expired: bool,
    },
}

/// How a claim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    Released,
    Revoked,
    Expired,
    /// Handed back because its caller could not be told of it.
    Withdrawn,
}

/// The status of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Waiting,
    Active,
    Ended(End),
}

/// How a lock came to its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    Acquired { from: Option<String> },
    Renewed,
}

/// Why a history is impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The op that does not fit, by its place in the history.
    pub op: usize,
    pub why: String,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op {}: {}", self.op, self.why)
    }
}

impl std::error::Error for Contradiction {}
