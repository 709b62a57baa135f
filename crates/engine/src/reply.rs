//! The engine's answers: a reply with views of state, or a refusal that names the holder, the resource and the time
//! left. No HTTP here: each dialect has one exhaustive match over `Refusal`.

use std::sync::Arc;

use crate::change::Ending;
use crate::fittings::{FittingsView, NamedSlot, PauseView, SlotView};
use crate::ids::{ClaimId, ResourceKey, Token};
use crate::survey::{FenceView, Inspection, SurveyPage};
use crate::time::{Moment, Time, Wall};

/// The engine's answer to a command.
pub type Answer = Result<Reply, Refusal>;

/// A positive answer, with views that hold copies of the state they show.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Reply {
    /// A pool or a claimed resource: registered or looked at.
    Resource(ResourceView),
    /// `true` if there was a registration to remove.
    Unconfigured(bool),
    /// A pool's lease: borrowed, renewed or looked at.
    Lease(LeaseView),
    /// `true` if the lease was still held.
    Returned(bool),
    /// A lock: taken, renewed or looked at.
    Lock(LockView, LockNews),
    /// The lock was given back.
    Unlocked,
    /// The claim that the key stood for, or that the client leaving a lock's queue had.
    Spent(Spent),
    /// A pool or a lock with the caller's place in its queue.
    Place(Box<PlaceView>),
    /// The present holder of a claimed resource, and the claim of a key.
    Holding(Box<HoldingView>),
    /// A claim of the claims dialect: made, changed or looked at.
    Claim(Box<ClaimView>),
    /// The claim ended as its caller wished.
    ClaimEnded(Ending),
    /// A page of claims.
    Claims(ClaimPage),
    /// A page of claimed resources, by name.
    Resources(ResourcePage),
    /// `true` if the grant still existed and this command ended it.
    Revoked(bool),
    /// The verdict on a token.
    Fence(FenceView),
    /// A slice of all resources.
    Survey(SurveyPage),
    /// One resource in full.
    Inspection(Box<Inspection>),
    /// Not an answer yet: the claim stands in the queue and its caller is to be parked on it.
    Waiting(ClaimId),
    /// An empty answer, to commands that have no caller.
    Done,
    /// `true` if there was a pause to end.
    Resumed(bool),
}

/// The claim that spending a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Spent {
    /// A lease.
    Held,
    /// A place in the queue.
    Waited,
    /// The key stood for no live claim.
    Nothing,
}

/// A pool or a lock as one of its callers sees it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PlaceView {
    /// The resource or the lock as every caller sees it.
    pub seen: Reply,
    /// While the caller waits: 1 is next.
    pub queue_position: Option<u32>,
    /// All callers in the queue.
    pub waiting: u32,
    /// The holder, or the first of them, where holders have names.
    pub holder: Option<Arc<str>>,
    /// While the caller waits: when it may expect a slot, as far as the past tells.
    pub eta_us: Option<u64>,
}

/// A claimed resource as a caller sees it that knows its claim by a key.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HoldingView {
    /// Its number of slots.
    pub capacity: u32,
    /// Slots that are held.
    pub in_use: u32,
    /// Claims in its queue.
    pub waiting: u32,
    /// The last token granted on it while it has been known.
    pub latest: Token,
    /// The holder, of several the one in the lowest slot.
    pub holder: Option<ClaimView>,
    /// The claim that the key stands for, also after it ended.
    pub keyed: Option<ClaimView>,
    /// Why nothing is granted, however many slots are free.
    pub pause: Option<PauseView>,
}

/// A pool or a claimed resource, with its first holders and waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ResourceView {
    /// Its key.
    pub resource: ResourceKey,
    /// Its number of slots.
    pub capacity: u32,
    /// `true` if a caller gave it this capacity, `false` if it is the default.
    pub configured: bool,
    /// Slots that are held.
    pub in_use: u32,
    /// Claims in its queue.
    pub waiting: u32,
    /// Its holders by slot, at most `HOLDERS_SHOWN`. Filled for claimed resources only: a pool's leases are secrets.
    pub holders: Vec<Holder>,
    /// Its waiters, in order. Filled like `holders`, at most `QUEUE_SHOWN`.
    pub queue: Vec<Holder>,
    /// The name that people see in place of its id.
    pub label: Option<Arc<str>>,
    /// Its fittings; `None` where it has none.
    pub fittings: Option<Box<FittingsView>>,
}

/// A holder or a waiter of a claimed resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Holder {
    /// Its claim.
    pub claim: ClaimId,
    /// Since when it holds or waits, by the wall clock.
    pub since: Wall,
}

/// A pool's lease that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LeaseView {
    /// Its id, which only its holder knows.
    pub claim: ClaimId,
    /// Its slot, counted from 0.
    pub slot: u32,
    /// The fencing token of its grant.
    pub token: Token,
    /// When it ends unless it is renewed.
    pub deadline: Time,
    /// The moment this view was taken, to count the rest of the lease from.
    pub now: Moment,
    /// The name and data of its slot, where slots have names.
    pub named: Option<Box<NamedSlot>>,
}

/// A lock, held or not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LockView {
    /// The name of the lock.
    pub job: Arc<str>,
    /// The last holder, while it is remembered.
    pub holder: Option<LockHolder>,
    /// Why the lock is not granted, held or not.
    pub pause: Option<Box<PauseView>>,
    /// The moment this view was taken, to count the rest of the lease from.
    pub now: Moment,
}

/// The client that holds a lock, or held it last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LockHolder {
    /// The client's name.
    pub client: Arc<str>,
    /// The claim behind the lock.
    pub claim: ClaimId,
    /// The fencing token of its grant.
    pub token: Token,
    /// When the lease ends, or ended.
    pub deadline: Time,
    /// When the grace ends, or ended: until then only this client may take the lock.
    pub grace_until: Time,
}

/// The event behind a lock's view.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum LockNews {
    /// Only looked at.
    Seen,
    /// The client got the lock.
    Acquired {
        /// The client that let it lapse, if one did.
        from: Option<Arc<str>>,
    },
    /// The client had the lock already and got a new deadline.
    Renewed,
}

/// A claim of the claims dialect, waiting, active or ended.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimView {
    /// Its id.
    pub id: ClaimId,
    /// The name of its resource.
    pub resource: Arc<str>,
    /// Its status.
    pub status: ClaimStatus,
    /// The ttl of its next activation.
    pub timeout_us: u64,
    /// The caller's JSON, as it was sent.
    pub metadata: Option<Arc<str>>,
    /// The owner of the claim, where callers sign on.
    pub owner: Option<Arc<str>>,
    /// When it entered each status.
    pub history: History,
    /// How long it waited, or has waited so far.
    pub waiting_us: u64,
    /// How long it was active, once it was.
    pub active_us: Option<u64>,
    /// The rest of its lease, while it is active.
    pub ttl_us: Option<u64>,
    /// The token of its last grant.
    pub token: Option<Token>,
    /// While it waits: 1 is next.
    pub queue_position: Option<u32>,
    /// While it waits: the holders it waits for, the first `HOLDERS_SHOWN_TO_WAITERS` by slot …
    pub holders: Vec<Holder>,
    /// … of this many.
    pub holders_in_all: u32,
    /// While it waits: when it may expect a slot, as far as the past tells.
    pub eta_us: Option<u64>,
    /// While it waits: after how long without a question it is withdrawn; zero if it is not.
    pub wait_ttl_us: u64,
    /// Until its grant is confirmed: how long it lasts without; zero if it needs no confirmation.
    pub confirm_us: u64,
    /// While it waits: why nothing is granted, however many slots are free.
    pub pause: Option<Box<PauseView>>,
    /// While it is active: its slot, where slots have names.
    pub slot: Option<Box<SlotView>>,
    /// Its place in the order of creation, to page on from.
    pub order: u64,
    /// When this view was taken, to count the rest of the lease from.
    pub now: Time,
}

/// When a claim entered each status, by the wall clock. A claim passes through at most three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct History {
    /// When it was made.
    pub created: Wall,
    /// `true` if it stood in the queue before it was active.
    pub waited: bool,
    /// When it became active, if it did.
    pub active: Option<Wall>,
    /// When and how it ended, if it has.
    pub ended: Option<(Ending, Wall)>,
}

/// The status of a claim, as its callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ClaimStatus {
    /// In the queue.
    Waiting,
    /// Holding a slot.
    Active,
    /// Over, in this way.
    Ended(Ending),
}

/// A page of a list of claimed resources.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ResourcePage {
    /// The resources that callers see, by name.
    pub resources: Vec<ResourceView>,
    /// The name after which to go on; `None` at the end.
    pub next: Option<Arc<str>>,
}

/// A page of a list of claims.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimPage {
    /// The claims that match, oldest first.
    pub claims: Vec<ClaimView>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

impl Reply {
    /// Corrects a reply made at `since` that leaves at `now`: it then says what is left of the lease now.
    pub fn leave(&mut self, since: Time, now: Moment) {
        let elapsed_us = now.at.since(since);
        match self {
            Reply::Lease(view) => view.now = now,
            Reply::Lock(view, _) => {
                view.now = now;
                view.pause.iter_mut().for_each(|pause| pause.let_pass(elapsed_us));
            }
            Reply::Resource(view) => view.let_pass(elapsed_us),
            Reply::Resources(page) => page.resources.iter_mut().for_each(|view| view.let_pass(elapsed_us)),
            Reply::Claim(view) => view.let_pass(elapsed_us),
            Reply::Holding(view) => {
                let views = [&mut view.holder, &mut view.keyed];
                views.into_iter().flatten().for_each(|view| view.let_pass(elapsed_us));
                view.pause.iter_mut().for_each(|pause| pause.let_pass(elapsed_us));
            }
            Reply::Place(place) => place.seen.leave(since, now),
            Reply::Claims(page) => page.claims.iter_mut().for_each(|view| view.let_pass(elapsed_us)),
            Reply::Survey(page) => page.lines.iter_mut().for_each(|line| line.let_pass(elapsed_us)),
            Reply::Inspection(inspection) => inspection.let_pass(elapsed_us),
            Reply::Unconfigured(_)
            | Reply::Returned(_)
            | Reply::Unlocked
            | Reply::Spent(_)
            | Reply::ClaimEnded(_)
            | Reply::Revoked(_)
            | Reply::Resumed(_)
            | Reply::Fence(_)
            | Reply::Waiting(_)
            | Reply::Done => {}
        }
    }
}

impl ClaimView {
    fn let_pass(&mut self, elapsed_us: u64) {
        self.ttl_us = self.ttl_us.map(|ttl_us| ttl_us.saturating_sub(elapsed_us));
        self.eta_us = self.eta_us.map(|eta_us| eta_us.saturating_sub(elapsed_us));
        self.pause.iter_mut().for_each(|pause| pause.let_pass(elapsed_us));
        self.now = self.now.plus(elapsed_us);
    }
}

impl ResourceView {
    /// A resource that nothing is known of.
    pub(crate) fn unused(resource: ResourceKey, capacity: u32) -> Self {
        ResourceView {
            resource,
            capacity,
            configured: false,
            in_use: 0,
            waiting: 0,
            holders: Vec::new(),
            queue: Vec::new(),
            label: None,
            fittings: None,
        }
    }

    fn let_pass(&mut self, elapsed_us: u64) {
        if let Some(pause) = self.fittings.as_mut().and_then(|fittings| fittings.pause.as_mut()) {
            pause.let_pass(elapsed_us);
        }
    }
}

impl Refusal {
    /// As [`Reply::leave`].
    pub fn leave(&mut self, now: Moment) {
        if let Refusal::Locked { lock, .. } = self {
            let elapsed_us = now.at.since(lock.now.at);
            lock.pause.iter_mut().for_each(|pause| pause.let_pass(elapsed_us));
            lock.now = now;
        }
    }
}

/// A negative answer: an ordinary answer, not an error.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Refusal {
    /// No such pool.
    NoSuchResource,
    /// No such claim, or it is forgotten.
    NoSuchClaim,
    /// No slot is free, and the caller would not wait or has waited long enough.
    NoneFree {
        /// Claims in the queue.
        waiting: u32,
        /// When a caller that waits from now on may expect a slot, as far as the past tells.
        eta_us: Option<u64>,
        /// Why nothing is granted, however many slots are free.
        pause: Option<Box<PauseView>>,
    },
    /// The lease is not, or no longer, held.
    NotHeld {
        /// How the lease ended, where the engine remembers it.
        how: Option<Ending>,
    },
    /// The lock is held, or in grace, by another client.
    Locked {
        /// The lock with its holder and deadlines.
        lock: Box<LockView>,
        /// The lease has ended, and only its last holder may come back.
        in_grace: bool,
        /// When a client that waits from now on may expect the lock, as far as the past tells.
        eta_us: Option<u64>,
    },
    /// An operator took the caller's claim out of the queue.
    TakenOut,
    /// Only the last holder may give a lock back.
    NotTheHolder,
    /// The claim has ended, so nothing about it changes any more.
    Ended(Ending),
    /// The claim waits, so it has no ttl and nothing to release.
    StillWaiting,
    /// The claim waits and it is not its turn.
    Contended,
    /// This idempotency key came with another request before.
    KeyReused,
    /// The lease this idempotency key stands for has ended.
    KeySpent {
        /// Its ending.
        how: Ending,
    },
    /// A node of a cluster asked again for a claim whose caller had heard nothing, and the claim was granted and has
    /// ended since. Nothing is held: the caller may ask anew.
    EndedUntold {
        /// Its ending.
        how: Ending,
    },
    /// The store is nearly full, so the engine takes nothing new on.
    StoreFull,
    /// All queues together are as long as they may be.
    TooManyWaiting {
        /// The limit.
        limit: usize,
    },
    /// The owner has as many claims as it may, or as many that wait.
    OverQuota {
        /// The limit is the one on waiting claims.
        is_about_waiting: bool,
        /// The limit of the client.
        limit: u32,
    },
    /// There are as many live claims as there may be.
    TooManyClaims {
        /// The limit.
        limit: usize,
    },
    /// There are as many resources as there may be.
    TooManyResources {
        /// The limit.
        limit: usize,
    },
    /// The state takes up as many bytes as it may.
    StateFull {
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The resource has no slot of this number.
    NoSuchSlot {
        /// Its number of slots.
        capacity: u32,
    },
    /// A slot that is held keeps its name.
    SlotHeld {
        /// The number of the slot.
        slot: u32,
        /// Its name, where it has one.
        name: Option<Arc<str>>,
    },
    /// The slots have names, and the capacity is their number.
    SlotsNamed {
        /// How many there are.
        capacity: u32,
    },
    /// As many slots of the resource are out of service as may be marked one by one.
    TooManyOutOfService {
        /// The limit.
        limit: usize,
    },
}
