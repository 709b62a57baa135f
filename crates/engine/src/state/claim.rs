//! One claim. A million of these are live at once, so parts that only some kinds have are boxed in `Extra`.

use std::sync::Arc;

use super::{Cix, Rix};
use crate::change::{Ending, IdempotencyKey, Lease, Particulars};
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
    /// The ttl its next grant starts with; of a slot or a lock that is held, the ttl it was granted or renewed with.
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
    /// Boxed, so that a claim without any takes up a pointer for them.
    pub(crate) rare: Option<Box<Rare>>,
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) metadata: Option<Arc<str>>,
    pub(crate) grace_us: u64,
    pub(crate) keep_us: u64,
    /// For claims that are shown to people with their history.
    pub(crate) created_wall: Wall,
    pub(crate) granted_wall: Wall,
    pub(crate) ended: Option<Moment>,
}

/// The parts that few claims have.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    /// The name that a lock's client signed on with.
    pub(crate) principal: Option<Arc<str>>,
    pub(crate) particulars: Particulars,
    /// A caller is parked on the waiting claim. The driver sets it. It is part of no fact, because no parked caller
    /// outlives the process.
    pub(crate) is_attended: bool,
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
        self.rare()?.principal.as_ref()
    }

    /// The name that a pool's borrower gave itself.
    pub(crate) fn holder(&self) -> Option<&Arc<str>> {
        self.rare()?.particulars.holder.as_ref()
    }

    /// After how long without a question it is withdrawn from the queue; zero if it is not.
    pub(crate) fn wait_ttl_us(&self) -> u64 {
        self.rare().map_or(0, |rare| rare.particulars.wait_ttl_us)
    }

    /// For how long a grant lasts that no caller knows of; zero if it lasts as long as every other.
    pub(crate) fn confirm_us(&self) -> u64 {
        self.rare().map_or(0, |rare| rare.particulars.confirm_us)
    }

    pub(crate) fn is_attended(&self) -> bool {
        self.rare().is_some_and(|rare| rare.is_attended)
    }

    /// Returns whether it matters that a caller is parked on it.
    pub(crate) fn is_attentive(&self) -> bool {
        self.status == Status::Waiting && (self.wait_ttl_us() > 0 || self.confirm_us() > 0)
    }

    pub(crate) fn particulars(&self) -> Particulars {
        self.rare().map(|rare| rare.particulars.clone()).unwrap_or_default()
    }

    fn rare(&self) -> Option<&Rare> {
        self.extra.as_ref()?.rare.as_deref()
    }

    /// Its grant needs no confirmation any more.
    pub(crate) fn confirm(&mut self) {
        let Some(extra) = &mut self.extra else { return };
        if let Some(rare) = &mut extra.rare {
            rare.particulars.confirm_us = 0;
            if rare.principal.is_none() && rare.particulars.is_empty() {
                extra.rare = None;
            }
        }
    }

    /// The rare parts of a claim that has some.
    pub(crate) fn rare_mut(&mut self) -> Option<&mut Rare> {
        self.extra.as_mut()?.rare.as_deref_mut()
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

impl Rare {
    /// `None` for a claim that has no such part.
    pub(crate) fn of(principal: Option<Arc<str>>, particulars: Particulars) -> Option<Box<Rare>> {
        let is_empty = principal.is_none() && particulars.is_empty();
        (!is_empty).then(|| Box::new(Rare { principal, particulars, is_attended: false }))
    }
}
