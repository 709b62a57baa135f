//! The deterministic state machine of Leasehold: it knows which client holds or waits for which resource, and until
//! when.
//!
//! # The contract
//!
//! The engine does no IO and has no clock, no thread, no randomness and no hashing that differs between runs. Time and
//! fresh ids come in with each command; changes, effects and answers come out.
//!
//! * [`Engine::handle_time`] handles the deadlines that are due. [`Engine::handle_time_before`] does the same ahead of
//!   a command: a bounded number of claims, and always those that the command is about. Time is a step of its own: the
//!   driver reports it before the command runs, so that a caller granted by it learns of its grant as it was then.
//! * [`Engine::handle`] decides what a command does, after `handle_time_before` at the same `now`. It applies each
//!   [`Change`] and pushes it onto the [`Outbox`], in order, then pushes the [`Effect`]s to tell once those changes are
//!   durable, and returns the [`Answer`]. It never expires a claim.
//! * [`Engine::apply`] is the only function that mutates state. Replaying every change ever pushed, in order and each
//!   with its [`Moment`], gives an equal engine ([`Engine::facts`]): recovery and standbys work that way.
//! * [`Engine::next_deadline`] says when to call `handle_time` again if no command comes.
//! * `now` never goes backwards from one call to the next.
//! * No answer, refusal or view may leave the process before the changes that the engine had pushed by then are
//!   durable. The driver keeps that promise with the gate.
//!
//! The driver loop; `Partition` in `leasehold-journal` has it in full:
//!
//! ```
//! use leasehold_engine::{Command, Engine, Labeling, Limits, Moment, Outbox, ResourceKey, Time, Wall};
//!
//! let mut engine = Engine::new(Limits::default());
//! let mut out = Outbox::default();
//! let mut now = Moment { at: Time(0), wall: Wall(1_700_000_000_000_000) };
//!
//! // Something is asked:
//! let command = Command::Configure { resource: ResourceKey::Pool(1), capacity: 4, label: Labeling::Kept };
//! engine.handle_time_before(now, &command, &mut out);
//! let answer = engine.handle(now, command, &mut out);
//! // 1. append out.changes to the journal, each with `now`
//! // 2. once that is durable: send `answer`, tell out.effects
//! assert_eq!(out.changes.len(), 1);
//! assert!(answer.is_ok());
//! out.clear();
//!
//! // Nothing is asked until the next deadline:
//! while let Some(due_at) = engine.next_deadline() {
//!     now.at = due_at; // wait for it
//!     engine.handle_time(now, &mut out);
//!     // 1. and 2. as above
//! }
//! ```
//!
//! # Invariants
//!
//! After every step ([`Engine::check`] asserts them): at most `capacity` holders of a resource, unless the capacity was
//! lowered, and then no grants; every holder in a slot of its own; tokens strictly increase; no free slot while a claim
//! waits, unless the resource is paused or the slot is out of service; queues in order of creation.

#![warn(missing_docs)]

/// `true` when the simulation has planted this bug on purpose. Always `false` in a real build.
#[cfg(not(feature = "planted"))]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        false
    };
}
#[cfg(feature = "planted")]
#[doc(hidden)]
#[macro_export]
macro_rules! planted {
    ($bug:ident) => {
        $crate::planted::is_armed($crate::planted::Bug::$bug)
    };
}

mod apply;
mod change;
mod check;
mod command;
mod decide;
mod effect;
mod fact;
mod fittings;
mod holds;
mod ids;
pub mod limits;
#[cfg(feature = "planted")]
pub mod planted;
mod prune;
mod reply;
mod state;
mod survey;
mod tell;
mod time;
mod view;

pub use change::{Change, Claimed, Ending, IdempotencyKey, Lease, Particulars};
pub use command::{
    Acquire, ClaimFilter, ClaimQuery, Command, KeyReuse, Labeling, NameSlots, Options, Owned, Patience, Quota, Renewal,
    Revocable, Spend, StatusFilter, Update, Wish,
};
pub use effect::{Effect, Grant, Names, What};
pub use fact::{ClaimFact, Counters, Fact, ResourceFact, Status};
pub use fittings::{Fittings, FittingsView, NamedSlot, OutOfService, OutOfServiceView, Pause, PauseView, SlotView};
pub use holds::Holds;
pub use ids::{ClaimId, Kind, ResourceKey, Token};
pub use limits::Limits;
pub use reply::{
    Answer, ClaimPage, ClaimStatus, ClaimView, History, Holder, HoldingView, LeaseView, LockHolder, LockNews, LockView,
    PlaceView, Refusal, Reply, ResourcePage, ResourceView, Spent,
};
pub use state::bytes;
pub use survey::{FenceView, HolderLine, HolderState, Inspection, ResourceLine, ResourceState, SurveyPage, WaiterLine};
pub use tell::Retelling;
pub use time::{Moment, Time, Wall};

use std::iter::Sum;
use std::sync::Arc;

use state::State;

/// The state machine of one partition.
#[derive(Debug)]
pub struct Engine {
    limits: Limits,
    state: State,
    /// The latest `now` that came in, to assert that time never goes backwards.
    latest: Time,
    /// The journal has little room left: commands that would make the state larger are refused.
    is_store_full: bool,
}

/// The output of `handle`. Reused from call to call.
#[derive(Debug, Default)]
pub struct Outbox {
    /// To be made durable, in this order.
    pub changes: Vec<Change>,
    /// To be told once the changes are durable, in this order.
    pub effects: Vec<Effect>,
}

impl Outbox {
    /// Empties both lists and keeps their memory for the next call.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.effects.clear();
    }
}

impl Engine {
    /// An engine without any resource or claim, at service time zero.
    pub fn new(limits: Limits) -> Self {
        Engine { limits, state: State::default(), latest: Time(0), is_store_full: false }
    }

    /// Decides what a command does, applies it, and returns the answer. Call [`Engine::handle_time_before`] first: it
    /// handles the due deadlines of the claims that the command is about.
    pub fn handle(&mut self, now: Moment, command: Command, out: &mut Outbox) -> Answer {
        assert!(now.at >= self.latest, "time goes forward");
        self.latest = now.at;
        self.decide(now, command, out)
    }

    /// Handles due deadlines ahead of a command: a bounded number of claims, as [`Engine::handle_time`] does, and in
    /// any case the claim that the command is about, however many are ahead of it in line.
    pub fn handle_time_before(&mut self, now: Moment, command: &Command, out: &mut Outbox) {
        self.handle_time(now, out);
        self.touch(now, command, out);
    }

    /// Handles due deadlines, a bounded number at a time; call again while `next_deadline` is not after `now`.
    pub fn handle_time(&mut self, now: Moment, out: &mut Outbox) {
        assert!(now.at >= self.latest, "time goes forward");
        self.latest = now.at;
        self.expire_due(now, out);
    }

    /// While the store is nearly full, new claims and resources are refused. Renewals, repeated requests, releases and
    /// expiries go on: the refusal depends on whether a command would make something new, not on its name.
    pub fn set_store_full(&mut self, is_full: bool) {
        self.is_store_full = is_full;
    }

    /// Applies a change from the journal.
    pub fn apply(&mut self, now: Moment, change: &Change) {
        self.latest = self.latest.max(now.at);
        self.state.apply(now, change);
    }

    /// The news for a caller parked on this claim, now that the claim's status has changed. For callers of every kind.
    pub fn view_for_waiter(&self, now: Moment, claim: ClaimId) -> Option<Reply> {
        let cix = self.state.claim(claim)?;
        let rix = self.state.claims[cix].resource;
        let key = &self.state.resources[rix].key;
        Some(match key.kind() {
            Kind::Pool => Reply::Lease(self.state.view_lease(now, cix)),
            Kind::Claim => Reply::Claim(Box::new(self.state.view_claim(now, cix))),
            Kind::Lock => Reply::Lock(self.state.view_lock(now, key), LockNews::Seen),
        })
    }

    /// The resource and the owner of a claim of the claims dialect. Neither ever changes and ids are drawn once, so the
    /// driver may read them ahead of a command that depends on them.
    pub fn owner_of(&self, claim: ClaimId) -> Option<(Arc<str>, Option<Arc<str>>)> {
        let claim = &self.state.claims[self.state.claim(claim)?];
        match &self.state.resources[claim.resource].key {
            ResourceKey::Claim(name) => Some((Arc::clone(name), claim.client().cloned())),
            ResourceKey::Pool(_) | ResourceKey::Lock(_) => None,
        }
    }

    /// The claims of one owner, over all kinds.
    pub fn owned_by(&self, owner: &str) -> Owned {
        self.state.owners.get(owner).copied().unwrap_or_default()
    }

    /// Returns whether this claim exists, including claims that have ended and are still readable.
    pub fn is_known(&self, claim: ClaimId) -> bool {
        self.state.claim(claim).is_some()
    }

    /// Returns whether this claim's caller waits with an open connection, so that its wait cannot outlive the process.
    pub fn is_waiting(&self, claim: ClaimId) -> bool {
        self.state.claim(claim).is_some_and(|cix| self.state.claims[cix].status == Status::Waiting)
    }

    /// Returns whether this claim waits at a place that is kept for a while after the last caller has left it.
    pub fn keeps_place(&self, claim: ClaimId) -> bool {
        self.is_waiting(claim) && self.state.claim(claim).is_some_and(|cix| self.state.claims[cix].keep_us() > 0)
    }

    /// The claim that this request leads to, by its key or, for a lock, by its client: whether a second caller knows of
    /// it, and since when it has been held.
    pub fn led_to(&self, acquire: &Acquire) -> Option<Known> {
        let find = || self.state.resource(&acquire.resource);
        let (rix, cix) = match acquire.resource.kind() {
            Kind::Lock => {
                let (client, rix) = (acquire.client.as_ref()?, find()?);
                let renews = acquire.options.renewal != Renewal::Never;
                let held = self.state.lock_holder(rix).filter(|&cix| self.state.claims[cix].client() == Some(client));
                (rix, held.filter(|_| renews).or_else(|| self.state.waiting_client(rix, client)))
            }
            Kind::Pool | Kind::Claim => {
                // Most calls have no key, and need no look at their resource.
                let (key, rix) = (acquire.key.as_ref()?, find()?);
                (rix, self.state.named(rix, &key.name))
            }
        };
        let mut cix = cix?;
        if planted!(OwnersClaimMistaken) {
            // The claim in the lowest slot, if it has the same owner.
            let lowest = self.state.resources[rix].slots.iter().next().map(|(_, cix)| cix);
            let is_owned = |cix: &state::Cix| self.state.claims[*cix].client() == acquire.client.as_ref();
            cix = lowest.filter(is_owned).unwrap_or(cix);
        }
        let claim = &self.state.claims[cix];
        Some(Known { is_seen: claim.seen, granted_at: claim.granted_at })
    }

    /// The refusal for a caller whose wait for this resource ran out.
    pub fn refusal_for_waiter(&self, now: Moment, resource: &ResourceKey) -> Refusal {
        match (resource.kind(), self.state.resource(resource)) {
            (Kind::Lock, _) => self.locked(now, resource),
            (_, rix) => self.none_free(now, rix),
        }
    }

    /// Returns whether it matters to this claim that a caller is parked on it.
    pub fn is_attentive(&self, claim: ClaimId) -> bool {
        self.state.claim(claim).is_some_and(|cix| self.state.claims[cix].is_attentive())
    }

    /// Claims that wait with their caller's connection, or for as long as they are asked about. After a restart those
    /// connections are gone: the claims are withdrawn, or kept for as long as their callers asked.
    pub fn waiting_with_connection(&self) -> Vec<ClaimId> {
        let waiting = self.state.claims.iter().map(|(_, claim)| claim);
        waiting
            .filter(|claim| claim.status == Status::Waiting)
            .filter(|claim| claim.deadline != Time::NEVER || planted!(StandingWithdrawnAtRestart))
            .map(|claim| claim.id)
            .collect()
    }

    /// Starts a snapshot of the state as it is now. [`Engine::step_snapshot`] returns its facts bit by bit.
    pub fn begin_snapshot(&mut self) {
        self.state.begin_snapshot();
    }

    /// More facts of the snapshot under way, about `budget` of them. `false` when these were the last.
    pub fn step_snapshot(&mut self, budget: usize, facts: &mut Vec<Fact>) -> bool {
        self.state.step_snapshot(budget, facts)
    }

    /// Gives up on the snapshot under way.
    pub fn drop_snapshot(&mut self) {
        self.state.snapshot = None;
    }

    /// Takes in one fact of a checkpoint, in any order; then [`Engine::finish_restore`].
    pub fn restore(&mut self, fact: Fact) {
        self.state.restore(fact);
    }

    /// Ends the restore: the last fact was taken in, and all were true at `at`.
    pub fn finish_restore(&mut self, at: Time) {
        self.latest = at;
        self.state.finish_restore();
    }

    /// Every fact of the state, sorted. Engines are equal exactly when these are; for tests and tools.
    pub fn facts(&self) -> Vec<Fact> {
        self.state.facts()
    }

    /// The highest token that was ever minted here.
    pub fn last_token(&self) -> Token {
        self.state.counters.last_token
    }

    /// The numbers that the gauges show.
    pub fn totals(&self) -> Totals {
        Totals {
            resources: self.state.resources.len(),
            claims: self.state.claims.len() - self.state.retained.len(),
            waiting: self.state.waiting,
            retained: self.state.retained.len(),
            kinds: self.state.census,
            state_bytes: self.state.account.total,
            state_bytes_used: self.state.bytes_used(),
            state_bytes_max: self.limits.state_bytes_max,
        }
    }
}

/// A claim that a repeated request leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// A second caller knows of it.
    pub is_seen: bool,
    /// When it was granted; zero before that.
    pub granted_at: Time,
}

/// Counts of what is alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Resources of all kinds, configured or referred to by a claim.
    pub resources: usize,
    /// Waiting or active.
    pub claims: usize,
    /// Claims in a queue.
    pub waiting: usize,
    /// Ended, but still readable.
    pub retained: usize,
    /// In the order of `Kind::ALL`.
    pub kinds: [KindTotals; 3],
    /// The bytes that the state uses, as `bytes` accounts them: equal for equal states.
    pub state_bytes: u64,
    /// The same, and the holes that ended claims left and only new ones can use. The limit applies to this sum.
    pub state_bytes_used: u64,
    /// The limit.
    pub state_bytes_max: u64,
}

/// The totals of all partitions together.
impl Sum for Totals {
    fn sum<I: Iterator<Item = Totals>>(all: I) -> Totals {
        all.fold(Totals::default(), |mut sum, one| {
            sum.resources += one.resources;
            sum.claims += one.claims;
            sum.waiting += one.waiting;
            sum.retained += one.retained;
            for (sum, one) in sum.kinds.iter_mut().zip(one.kinds) {
                sum.resources += one.resources;
                sum.holding += one.holding;
                sum.waiting += one.waiting;
                sum.paused += one.paused;
                sum.out_of_service += one.out_of_service;
            }
            sum.state_bytes += one.state_bytes;
            sum.state_bytes_used += one.state_bytes_used;
            sum.state_bytes_max = sum.state_bytes_max.saturating_add(one.state_bytes_max);
            sum
        })
    }
}

impl Totals {
    /// The counts of this kind.
    pub fn of(&self, kind: Kind) -> KindTotals {
        self.kinds[kind as usize]
    }
}

/// Counts of what is alive of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindTotals {
    /// Resources of this kind, configured or referred to by a claim.
    pub resources: usize,
    /// Claims that hold a slot. A lock in grace is held, a lapsed one is not.
    pub holding: usize,
    /// Resources that are paused.
    pub paused: usize,
    /// Slots that are out of service.
    pub out_of_service: usize,
    /// Claims in a queue.
    pub waiting: usize,
}
