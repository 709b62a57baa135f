//! Effects: the news that leave the engine once the changes are durable, for the caller parked on a claim, the log, the
//! metrics and the readers of events. `tell` makes the effect of each change.

use std::sync::Arc;

use crate::change::Ending;
use crate::ids::{ClaimId, ResourceKey, Token};

/// The news of one change, to be told once the change is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The resource that changed, or whose claim did.
    pub resource: ResourceKey,
    /// The claim it happened to; `None` when it happened to the resource.
    pub claim: Option<ClaimId>,
    /// The client of the claim, where it has one.
    pub client: Option<Arc<str>>,
    /// Names that few have.
    pub names: Option<Box<Names>>,
    /// The grant of the claim, if it ever had one.
    pub grant: Option<Grant>,
    /// The kind of news.
    pub what: What,
    /// The number of the change it tells of within its step, counted from 1.
    pub nth: u32,
}

/// The names around an effect that few claims and resources have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The name that a pool's borrower gave itself.
    pub holder: Option<Arc<str>>,
    /// The name that a lock's client signed on with.
    pub principal: Option<Arc<str>>,
    /// The name that people see in place of the resource's id.
    pub label: Option<Arc<str>>,
}

impl Names {
    /// `None` where there are no such names.
    pub(crate) fn of(
        holder: Option<&Arc<str>>,
        principal: Option<&Arc<str>>,
        label: Option<&Arc<str>>,
    ) -> Option<Box<Names>> {
        let are_some = holder.or(principal).or(label).is_some();
        are_some
            .then(|| Box::new(Names { holder: holder.cloned(), principal: principal.cloned(), label: label.cloned() }))
    }
}

/// The slot and the token of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The slot, counted from 0.
    pub slot: u32,
    /// The fencing token.
    pub token: Token,
}

/// The kind of an effect, with the figures that only its change knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The resource was registered or resized.
    Configured {
        /// Its number of slots from now on.
        capacity: u32,
    },
    /// The resource lost its registration.
    Unconfigured,
    /// No slot of the resource is granted from now on.
    Paused {
        /// Why.
        reason: Arc<str>,
        /// How long, in service time; until it is resumed if `None`.
        for_us: Option<u64>,
    },
    /// The pause of the resource is over.
    Resumed {
        /// How long it lasted.
        paused_us: u64,
    },
    /// A slot is out of service from now on, or back in service.
    SlotServed {
        /// The number of the slot.
        slot: u32,
        /// Why it is out of service; `None` when it is back.
        out: Option<Arc<str>>,
    },
    /// A claim stands in the queue.
    Queued,
    /// A claim got a slot.
    Granted {
        /// The time from the request to the grant.
        waited_us: u64,
        /// The time to live of the lease.
        ttl_us: u64,
        /// The client that let the lock lapse.
        from: Option<Arc<str>>,
    },
    /// The lease got a new end.
    Renewed {
        /// How long the slot has been held so far.
        held_us: u64,
        /// The rest of the lease from now.
        ttl_us: u64,
    },
    /// A lock expired and is in grace.
    GraceBegan {
        /// How long it was held.
        held_us: u64,
    },
    /// The grace of a lock is over: any client may take it.
    GraceOver,
    /// A claim ended, waiting or active.
    Ended {
        /// Why it ended.
        how: Ending,
        /// How long it was held, if it ever was.
        held_us: Option<u64>,
        /// How long after its deadline the claim ended. Only set for expiries.
        late_us: u64,
    },
}
