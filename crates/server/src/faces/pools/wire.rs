//! Pools and leases as JSON: the shapes of answers, from which their bytes and their schemas come.

use leasehold_engine::{LeaseView, PauseView, PlaceView, Reply, ResourceView, Spent, Time};
use schemars::JsonSchema;
use serde::Serialize;

use crate::code::Code;
use crate::faces::fittings::{Fittings, Paused, SlotGranted};
use crate::faces::terms::{Rest, Terms};
use crate::http::json::value::{FencingToken, FloatSeconds, May, UnixSeconds, UuidText};

/// A pool.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Pool<'a> {
    id: UuidText,
    /// How many slots it has.
    count: u32,
    /// Live leases. More than `count` after it was lowered.
    in_use: u32,
    /// `count` less `in_use`, at least 0.
    available: u32,
    /// The name that people see in place of its id, if it has one.
    #[serde(skip_serializing_if = "May::is_missing")]
    label: May<String>,
    #[serde(flatten)]
    fittings: Fittings<'a>,
    /// About a member of the body that is ignored and was probably meant to be another.
    #[serde(skip_serializing_if = "May::is_missing")]
    warning: May<String>,
}

impl<'a> Pool<'a> {
    pub(super) fn of(id: u128, view: &'a ResourceView, warning: Option<String>) -> Self {
        Pool {
            id: UuidText(id),
            count: view.capacity,
            in_use: view.in_use,
            available: view.capacity.saturating_sub(view.in_use),
            label: May(view.label.as_deref().map(str::to_owned)),
            fittings: Fittings::of(view.fittings.as_deref()),
            warning: May(warning),
        }
    }
}

/// A pool as a caller sees it, with the place of one borrow where its key is given.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PoolSeen<'a> {
    #[serde(flatten)]
    pool: Pool<'a>,
    /// Callers in line.
    waiting: u32,
    /// The place in line of the key's borrow; 1 is next, null when it does not wait.
    #[serde(skip_serializing_if = "May::is_missing")]
    #[schemars(range(min = 1))]
    queue_position: May<Option<u32>>,
    /// The holder of a slot, or the first of them, where it gave itself a name or callers sign on; else null.
    #[serde(skip_serializing_if = "May::is_missing")]
    holder: May<Option<&'a str>>,
    /// While the key's borrow waits: seconds until it may expect a slot. An estimate, not a promise; null while too few
    /// leases have ended to tell.
    #[serde(skip_serializing_if = "May::is_missing")]
    eta_s: May<Option<FloatSeconds>>,
}

impl<'a> PoolSeen<'a> {
    pub(super) fn of(id: u128, view: &'a ResourceView) -> Self {
        PoolSeen {
            pool: Pool::of(id, view, None),
            waiting: view.waiting,
            queue_position: May(None),
            holder: May(None),
            eta_s: May(None),
        }
    }

    pub(super) fn by_borrower(id: u128, view: &'a PlaceView) -> Self {
        let Reply::Resource(pool) = &view.seen else {
            unreachable!("a place in a pool's queue is shown with the pool")
        };
        PoolSeen {
            pool: Pool::of(id, pool, None),
            waiting: view.waiting,
            queue_position: May(Some(view.queue_position)),
            holder: May(Some(view.holder.as_deref())),
            eta_s: May(view.queue_position.map(|_| view.eta_us.map(FloatSeconds))),
        }
    }
}

/// The lease or place of a borrow that was given up.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GivenUp {
    /// A lease was held, and is given back.
    returned: bool,
    /// A place in line was left.
    withdrawn: bool,
}

impl GivenUp {
    pub(super) fn of(had: Spent) -> Self {
        GivenUp { returned: had == Spent::Held, withdrawn: had == Spent::Waited }
    }
}

/// The members that every answer about a lease begins with.
#[derive(Debug, Serialize, JsonSchema)]
struct Slot {
    /// The lease, a secret of its borrower.
    lease: UuidText,
    /// The slot, from 0. No other live lease has it.
    position: u32,
    /// When it ends, no later than it really does.
    expires_at_unix: UnixSeconds,
}

impl Slot {
    /// The time does not overstate: it counts from when the lease was looked at, and fractions are cut off.
    fn of(view: &LeaseView) -> Self {
        Slot {
            lease: UuidText(view.claim.0),
            position: view.slot,
            expires_at_unix: UnixSeconds(view.now.wall_at(view.deadline).0),
        }
    }
}

/// A lease that was just given or renewed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Lease<'a> {
    #[serde(flatten)]
    slot: Slot,
    #[serde(flatten)]
    terms: Terms,
    token: FencingToken,
    /// The slot with its name and data, where the slots of the pool have names.
    #[serde(rename = "slot", skip_serializing_if = "May::is_missing")]
    named: May<SlotGranted<'a>>,
    /// About a member of the body that is ignored and was probably meant to be another.
    #[serde(skip_serializing_if = "May::is_missing")]
    warning: May<String>,
}

impl<'a> Lease<'a> {
    pub(super) fn of(view: &'a LeaseView, asked_at: Time, clamped: bool, warning: Option<String>) -> Self {
        let terms = Terms::new(asked_at, view.now.at, view.deadline, clamped);
        let (token, named) = (FencingToken(view.token.0), named(view));
        Lease { slot: Slot::of(view), terms, token, named, warning: May(warning) }
    }
}

fn named(view: &LeaseView) -> May<SlotGranted<'_>> {
    May(view.named.as_deref().map(|named| SlotGranted::of(view.slot, named)))
}

/// A lease that was only looked at.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LeaseSeen<'a> {
    #[serde(flatten)]
    slot: Slot,
    #[serde(flatten)]
    rest: Rest,
    token: FencingToken,
    /// The slot with its name and data, where the slots of the pool have names.
    #[serde(rename = "slot", skip_serializing_if = "May::is_missing")]
    named: May<SlotGranted<'a>>,
}

impl<'a> LeaseSeen<'a> {
    pub(super) fn of(view: &'a LeaseView) -> Self {
        let rest = Rest::of(view.deadline.since(view.now.at));
        LeaseSeen { slot: Slot::of(view), rest, token: FencingToken(view.token.0), named: named(view) }
    }
}

/// The answer to a lease that is given back.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Returned {
    /// False for a lease that expired, was returned before, or never was.
    pub(super) returned: bool,
}

/// No slot became free in time.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct NoneFree<'a> {
    error: &'static str,
    #[schemars(extend("const" = Code::NoneFree.as_str()))]
    code: &'static str,
    /// Callers in line now.
    waiting: u32,
    /// Seconds until a caller that waits from now on may expect a slot. An estimate, not a promise; null while too few
    /// leases have ended to tell.
    eta_s: Option<FloatSeconds>,
    /// While nothing is granted, however many slots are free.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
}

impl<'a> NoneFree<'a> {
    pub(super) fn of(waiting: u32, eta_us: Option<u64>, pause: Option<&'a PauseView>) -> Self {
        NoneFree {
            error: "no resource available",
            code: Code::NoneFree.as_str(),
            waiting,
            eta_s: eta_us.map(FloatSeconds),
            paused: May(pause.map(Paused::of)),
        }
    }
}
