//! Effects: the news that leave the engine once the changes are durable, for the caller parked on a claim, the log, the
//! metrics and the readers of events. `tell` makes the effect of each change.

use std::sync::Arc;

use crate::change::Ending;
use crate::ids::{ClaimId, ResourceKey, Token};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub resource: ResourceKey,
    /// The claim it happened to; `None` when it happened to the resource.
    pub claim: Option<ClaimId>,
    pub client: Option<Arc<str>>,
    /// The grant of the claim, if it ever had one.
    pub grant: Option<Grant>,
    pub what: What,
    /// The number of the change it tells of within its step, counted from 1.
    pub nth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub slot: u32,
    pub token: Token,
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
        waited_us: u64,
        ttl_us: u64,
        /// The client that let the lock lapse.
        from: Option<Arc<str>>,
    },
    Renewed {
        held_us: u64,
        ttl_us: u64,
    },
    /// A lock expired and is in grace.
    GraceBegan {
        held_us: u64,
    },
    GraceOver,
    Ended {
        how: Ending,
        /// How long it was held, if it ever was.
        held_us: Option<u64>,
        /// How long after its deadline the claim ended. Only set for expiries.
        late_us: u64,
    },
}
