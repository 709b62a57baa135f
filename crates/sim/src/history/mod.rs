//! Histories: what clients of any server asked and heard, and whether that can be true.
//!
//! Every answer carries its position in the journal, so nothing has to be guessed: sorted by position, the answers are
//! a witness, and one walk along it against a simple sequential model decides (`check`), in O(n log n). What happens
//! without anybody hearing of it is allowed where it could have happened: a lease runs out, but not before the time of
//! asking + ttl; a call without an answer took effect at any time after it was sent, or never. The walk carries those
//! possibilities along and narrows them down when an answer shows which was true.
//!
//! One clock for all `start_us` and `end_us`; the server's clocks do not matter.

mod check;
mod parse;
mod row;

use std::fmt;

pub use check::check;
pub use parse::{ParseError, parse};

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
    /// No answer, or one that promises nothing (502).
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
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
            | Call::ViewLease { resource, .. } => resource,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Configured,
    /// Whether there was something to delete.
    Deleted(bool),
    /// Holds a slot: after asking, renewing or looking.
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
