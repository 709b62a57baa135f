//! Histories: what clients of a service asked and heard, and whether that can be true. The service itself is not asked.
//!
//! Every answer carries its position in the journal, so the order need not be guessed (`order`): sorted by position, the
//! answers are a witness. Two checks go along it.
//!
//! * [`check`] knows pools. It carries what may have happened unheard as bounds, in one walk of O(n log n), however many
//!   calls went unanswered, and overlooks a little. The simulation runs it on every world.
//! * [`search`] knows pools, claims and locks, and overlooks nothing that the answers show: calls without an answer are
//!   tried at every position where they may have happened, and as never having happened.
//!
//! What happens without anybody asking is allowed where it could have happened: a lease runs out, but not before the time
//! of asking + ttl. Downtime only makes leases longer, so this holds whatever the service went through.
//!
//! One clock for all `start_us` and `end_us`; the server's clocks do not matter.

mod order;
mod parse;
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

/// One call, and what came of it.
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
        answer: Answer,
        stamp: Stamp,
    },
    /// No answer, or one that promises nothing (502, 503).
    Unknown {
        /// When the process that it was sent to was gone for certain: it has happened by then, or never.
        gone_us: Option<u64>,
    },
}

/// What was asked. The names of pools, claimed resources and locks do not meet.
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
    /// How a resource is.
    View {
        resource: String,
    },
    /// How a lease is.
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

/// What is to become of a claim.
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

    /// The name under which asking twice happens once.
    pub fn key(&self) -> Option<&str> {
        match self {
            Call::Acquire { key, .. } | Call::Claim { key, .. } => key.as_deref(),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Configured,
    /// Whether there was something to delete.
    Deleted(bool),
    /// Holds a slot of a pool: after asking, renewing or looking.
    Held {
        lease: String,
        slot: u32,
        token: u64,
    },
    /// Stands in line.
    Waiting {
        lease: String,
    },
    /// Whether it was held until then.
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
    /// What was asked makes no sense. It is told without a look at anything, so only its place is of interest.
    Malformed,
    /// What the key stood for has ended.
    KeySpent,
    /// A claim is active.
    Active {
        claim: String,
        token: u64,
    },
    /// A claim waits, and its place is this; 1 is next.
    InLine {
        claim: String,
        place: u32,
    },
    /// A claim has ended, in this way.
    Ended {
        claim: String,
        how: End,
    },
    /// A wish came to nothing: the claim waits, or has ended.
    Refused {
        status: Status,
    },
    NoClaim,
    /// The lock is the caller's.
    Locked {
        token: u64,
        how: Taken,
    },
    /// The lock is another's.
    LockedBy {
        holder: String,
        in_grace: bool,
    },
    /// Only who holds a lock gives it back.
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
    /// Given back because nobody could be told of it.
    Withdrawn,
}

/// What a claim is.
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

/// Why a history cannot be.
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
