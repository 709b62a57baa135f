//! What is to be told once it is durable: to the caller parked on a claim, to the log, to metrics, to whoever watches.

use std::sync::Arc;

use crate::change::Ending;
use crate::ids::{ClaimId, ResourceKey, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub resource: ResourceKey,
    /// The claim it happened to; `None` when it happened to the resource.
    pub claim: Option<ClaimId>,
    pub client: Option<Arc<str>>,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Configured {
        capacity: u32,
    },
    Unconfigured,
    /// A claim stands in the queue.
    Queued,
    Granted {
        slot: u32,
        token: Token,
        waited_us: u64,
        /// The client that let the lock lapse.
        from: Option<Arc<str>>,
    },
    Renewed {
        token: Token,
        held_us: u64,
    },
    /// A lock expired and is in grace.
    GraceBegan {
        token: Token,
        held_us: u64,
    },
    GraceOver {
        token: Token,
    },
    Ended {
        how: Ending,
        /// How long it was held, if it ever was.
        held_us: Option<u64>,
        /// How far behind its deadline the ending came. Only for expiries.
        late_us: u64,
    },
}
