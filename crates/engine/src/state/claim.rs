//! One claim. A million of these are live at once, so parts that only some kinds have are boxed in `Extra`.

use std::sync::Arc;

use super::{Cix, Rix};
use crate::change::{Ending, IdempotencyKey, Lease};
use crate::fact::Status;
use crate::ids::{ClaimId, Token};
use crate::time::{Moment, Time, Wall};

#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) id: ClaimId,
    pub(crate) resource: Rix,
    pub(crate) status: Status,
    /// A second caller knows of it: it is not handed back when the first one leaves.
    pub(crate) seen: bool,
    pub(crate) slot: u32,
    /// The place in the order of creation; queues are in this order.
    pub(crate) order: u64,
    /// Zero until it is granted.
    pub(crate) token: Token,
    /// While waiting, when its caller gives up; afterwards, when its lease ends.
    pub(crate) deadline: Time,
    /// Where it stands in `State::deadlines`; `NEVER` when it does not.
    pub(crate) indexed_at: Time,
    pub(crate) created_at: Time,
    /// Meaningful once it has a token.
    pub(crate) granted_at: Time,
    /// The ttl its next grant starts with.
    pub(crate) ttl_us: u64,
    /// Neighbours in the queue, while waiting.
    pub(crate) queue_next: Cix,
    pub(crate) queue_prev: Cix,
    /// The snapshot that has it already.
    pub(crate) saved_in: u32,
    pub(crate) extra: Option<Box<Extra>>,
}

/// The parts that only some claims have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) client: Option<Arc<str>>,
    /// Boxed, so that a claim without one takes up a pointer for it.
    pub(crate) principal: Option<Box<Arc<str>>>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) metadata: Option<Arc<str>>,
    pub(crate) grace_us: u64,
    pub(crate) keep_us: u64,
    /// For claims that are shown to people with their history.
    pub(crate) created_wall: Wall,
    pub(crate) granted_wall: Wall,
    pub(crate) ended: Option<Moment>,
}

impl Claim {
    pub(crate) fn is_granted(&self) -> bool {
        self.token.0 != 0
    }

    /// Waiting or holding: counts against the limit of live claims.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.status, Status::Waiting | Status::Active | Status::Grace)
    }

    /// Ended or lapsed: only remembered.
    pub(crate) fn is_retained(&self) -> bool {
        matches!(self.status, Status::Lapsed | Status::Ended(_))
    }

    pub(crate) fn grace_us(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.grace_us)
    }

    /// How long its place outlives the last call that waits on it.
    pub(crate) fn keep_us(&self) -> u64 {
        self.extra.as_ref().map_or(0, |extra| extra.keep_us)
    }

    pub(crate) fn lease(&self) -> Lease {
        Lease { deadline: self.deadline, grace_us: self.grace_us() }
    }

    /// When the clock alone changes its status; `NEVER` if it does not.
    pub(crate) fn due_at(&self) -> Time {
        match self.status {
            Status::Waiting if planted!(WaiterNeverGivesUp) => Time::NEVER,
            Status::Waiting | Status::Active => self.deadline,
            Status::Grace if planted!(GraceOffByOne) => self.deadline.plus(self.grace_us().saturating_sub(1)),
            Status::Grace => self.deadline.plus(self.grace_us()),
            Status::Lapsed | Status::Ended(_) => Time::NEVER,
        }
    }

    pub(crate) fn client(&self) -> Option<&Arc<str>> {
        self.extra.as_ref()?.client.as_ref()
    }

    /// The name that a lock's client signed on with.
    pub(crate) fn principal(&self) -> Option<&Arc<str>> {
        self.extra.as_ref()?.principal.as_deref()
    }

    pub(crate) fn key(&self) -> Option<&IdempotencyKey> {
        self.extra.as_ref()?.key.as_ref()
    }

    pub(crate) fn ended(&self) -> Option<Moment> {
        self.extra.as_ref()?.ended
    }

    /// How it ended, if it has. A lock past its deadline has expired, though its last holder may come back.
    pub(crate) fn ending(&self) -> Option<Ending> {
        match self.status {
            Status::Ended(how) => Some(how),
            Status::Grace | Status::Lapsed => Some(Ending::Expired),
            Status::Waiting | Status::Active => None,
        }
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }
}
