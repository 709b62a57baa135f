//! One engine, one journal stream, one clock: everything about a partition that is not IO.
//!
//! ```text
//!            submit / leave / tick                     take_batch            append_done
//! driver ──────────▶ engine.handle(now, command) ──▶ [ batch fills ] ──▶ store ──▶ gate.release ──▶ poll_told
//!                        │                                                             ▲           poll_effects
//!                        └── answer, effects ──────────── gate.hold(position) ─────────┘
//! ```
//!
//! The driver owns threads, clocks and the store; it passes readings of its clocks in and carries batches to the
//! store. A simulation can do the same with clocks and stores of its own. `R` is the driver's handle to the caller.
//!
//! A claim whose caller could not be told is handed back: the driver reports an undelivered answer with
//! [`Partition::hand_back`], and a caller that left while parked with [`Partition::leave`]. Both are ordered like any
//! other command.

mod check;
mod clock;
mod company;
mod parked;
mod reign;
mod serve;
#[cfg(test)]
mod tests;

use leasehold_engine::{
    ClaimId, Command, Effect, Engine, Fact, Moment, Outbox, Refusal, Reply, Time, Totals, Wall, planted,
};

pub use clock::{STRETCH_MAX_US, ServiceClock};
use company::Company;
pub use parked::Ticket;
use parked::{ParkedCallers, Turn};
pub use reign::Orphans;

use crate::gate::Gate;
use crate::limits::PartitionLimits;
use crate::record::{Batch, BatchWriter};
use crate::{Epoch, Position};

/// How often the driver has to run while a lease is held, so that all of that time counts.
pub const TICK_US: u64 = 50_000;

/// Callers that are answered in one step because their time is up, or because the store is late. Other callers get
/// their turn in between: a step holds the driver's lock.
const CALLERS_PER_STEP: usize = 256;

/// The memory that a change in the batch takes beside its bytes: its effect, and the answer that waits for it.
const BYTES_PER_CHANGE: usize = 256;

/// While leases are live, service time is written down at least this often.
const MARK_EVERY_US: u64 = 1_000_000;
/// … and less often while the next deadline is far away: a crash then costs at most this part of the remaining time,
const MARK_PART_OF_REST: u64 = 60;
/// … but never more than this.
const MARK_AT_LEAST_EVERY_US: u64 = 30_000_000;

/// A reading of the driver's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clocks {
    /// Monotonic, from an origin of the driver's choice.
    pub mono_us: u64,
    /// The wall clock, for times that are shown.
    pub wall: Wall,
}

/// A caller's command and how long the caller listens.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request {
    /// The command for the engine.
    pub command: Command,
    /// How long to hold the answer back in the hope of news: a claim getting its turn, a status changing. Callers
    /// that stand in a pool's or lock's queue name their patience in the command instead.
    pub listen_us: u64,
    /// For a claim that is looked at: the answer is held back only while the claim waits.
    pub only_while_waiting: bool,
}

impl From<Command> for Request {
    fn from(command: Command) -> Self {
        Request { command, listen_us: 0, only_while_waiting: false }
    }
}

/// Why a caller does not get what it asked for.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Denial {
    /// The engine said no.
    Refused(Refusal),
    /// The store did not confirm in time. The caller was promised nothing.
    StoreLate,
    /// Too many callers are waiting for an answer already.
    Overloaded,
    /// As many bytes wait for the store as may. Nothing was done.
    StoreBehind,
    /// The service stops: ask another one, or this one later.
    ShuttingDown,
    /// The partition has another owner. Nothing was done here: ask there.
    Moved,
    /// The partition has another owner, and whether this was done is unknown.
    Lost,
    /// Some node of the cluster does not know this command yet. Nothing was done.
    EarlierVersion,
}

impl From<Refusal> for Denial {
    fn from(refusal: Refusal) -> Self {
        Denial::Refused(refusal)
    }
}

/// An answer on its way out.
#[derive(Debug)]
pub struct Told<R> {
    /// The caller.
    pub to: R,
    /// The engine's reply, or why there is none.
    pub answer: Result<Reply, Denial>,
    /// The order in which things happened: this answer saw every change up to here and none after.
    pub epoch: Epoch,
    /// The last change that this answer depends on.
    pub position: Position,
    /// Set when the answer tells its caller of the claim it asked for: if it cannot be delivered, hand this back.
    pub untold: Option<ClaimId>,
    /// Service time when the answer was made; of one that has left, when it left, as it says what is left of a lease at
    /// that time.
    pub said_at: Time,
}

impl<R> Told<R> {
    fn leave(&mut self, now: Moment) {
        let since = std::mem::replace(&mut self.said_at, now.at);
        if since == now.at || planted!(RestOverstated) {
            return;
        }
        match &mut self.answer {
            Ok(reply) => reply.leave(since, now),
            Err(Denial::Refused(refusal)) => refusal.leave(now),
            Err(
                Denial::StoreLate
                | Denial::Overloaded
                | Denial::StoreBehind
                | Denial::ShuttingDown
                | Denial::Moved
                | Denial::Lost
                | Denial::EarlierVersion,
            ) => {}
        }
    }
}

/// An effect that is durable: its place in the journal, its time, and the effect itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The owner's epoch when it happened.
    pub epoch: Epoch,
    /// The position of the change it is about. No two effects have the same position.
    pub position: Position,
    /// The wall clock when it happened.
    pub wall: Wall,
    /// The effect.
    pub effect: Effect,
}

/// Why nothing new is taken on, if it is not.
#[derive(Clone, Copy, Debug, Default)]
struct Room {
    /// The store has little room left.
    is_full: bool,
    /// The batch being filled has as many bytes as it may.
    is_behind: bool,
}

/// Empties `from` into `to`. An empty vector with room to spare changes places with it, so that nothing is copied.
fn hand_over<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
    if from.is_empty() {
        return;
    }
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

/// An engine with its clock, its batch, its gate and its parked callers. `R` is the driver's handle to a caller.
#[derive(Debug)]
pub struct Partition<R> {
    number: u32,
    engine: Engine,
    clock: ServiceClock,
    epoch: Epoch,
    limits: PartitionLimits,
    /// `true` if changes are written down at all. If not, every change counts as durable at once.
    is_journaled: bool,
    /// The batch being filled.
    batch: BatchWriter,
    /// The state that only a partition of a cluster needs; unused in the embedded service.
    reign: reign::Reign,
    /// The last change made, durable or not.
    head: Position,
    /// The append under way: its last position, and the proof that it is.
    in_flight: Option<(Position, u64)>,
    /// Since when changes have waited to become durable, or since one of them last did.
    undurable_since_mono_us: Option<u64>,
    answers: Gate<Told<R>>,
    effects: Gate<Happened>,
    parked: ParkedCallers<R>,
    company: Company,
    /// Callers whose claim got its turn in this step: their update is tried after the step is over and answered.
    turns: Vec<Turn<R>>,
    /// Ready to leave.
    told: Vec<Told<R>>,
    told_effects: Vec<Happened>,
    /// The wall clock as it was last read.
    wall: Wall,
    /// Service time as of the last change that was written down.
    marked_at: Time,
    is_shutting_down: bool,
    room: Room,
    out: Outbox,
}

impl<R> Partition<R> {
    /// Goes on from a recovered engine. Callers that were parked before the restart are gone, so their claims are
    /// withdrawn.
    pub fn new(
        engine: Engine,
        number: u32,
        epoch: Epoch,
        head: Position,
        at: Time,
        limits: PartitionLimits,
        clocks: Clocks,
    ) -> Self {
        let mut partition = Self::bare(engine, number, epoch, head, at, limits, clocks);
        let orphans =
            if planted!(WaitersSurviveRestart) { Vec::new() } else { partition.engine.waiting_with_connection() };
        for claim in orphans {
            let is_forgotten = planted!(KeptForgottenAtRestart);
            partition.order(
                clocks,
                if is_forgotten {
                    Command::HandBack { claim, heard_by_nobody: true }
                } else {
                    Command::Withdraw { claim }
                },
            );
        }
        partition
    }

    fn bare(
        engine: Engine,
        number: u32,
        epoch: Epoch,
        head: Position,
        at: Time,
        limits: PartitionLimits,
        clocks: Clocks,
    ) -> Self {
        Partition {
            number,
            engine,
            clock: ServiceClock::new(at, clocks.mono_us),
            epoch,
            limits,
            is_journaled: true,
            batch: BatchWriter::new(number, epoch, Position(head.0 + 1)),
            reign: reign::Reign::default(),
            head,
            in_flight: None,
            undurable_since_mono_us: None,
            answers: Gate::new(head),
            effects: Gate::new(head),
            parked: ParkedCallers::new(),
            company: Company::default(),
            turns: Vec::new(),
            told: Vec::new(),
            told_effects: Vec::new(),
            wall: clocks.wall,
            marked_at: at,
            is_shutting_down: false,
            room: Room::default(),
            out: Outbox::default(),
        }
    }

    /// Takes a request in. The ticket is for leaving while parked; without a ticket the answer is on its way.
    pub fn submit(&mut self, clocks: Clocks, request: Request, to: R) -> Option<Ticket> {
        let denial = if self.is_shutting_down {
            Some(if self.reign.is_closed { Denial::Moved } else { Denial::ShuttingDown })
        } else if self.reign.is_shared && self.is_asked_again(&request) {
            None
        } else if self.answers.len() + self.parked.len() >= self.limits.callers_max {
            Some(Denial::Overloaded)
        } else if self.room.is_behind && self.backlog_bytes() / 2 >= self.limits.backlog_bytes_max {
            Some(Denial::StoreBehind)
        } else {
            None
        };
        if let Some(denial) = denial {
            self.tell_now(to, denial);
            return None;
        }
        let ticket = self.serve(clocks, request, to);
        self.take_turns(clocks);
        ticket
    }

    /// A parked caller left.
    pub fn leave(&mut self, clocks: Clocks, ticket: Ticket) {
        // Time acts first, while the caller is still known: a grant that is due goes to it as an answer, which the
        // driver finds undeliverable and hands back.
        let early = if planted!(GrantedIsNotWithdrawn) { self.parked.take(ticket) } else { None };
        self.pass_time(clocks, None);
        if let Some(parked) = early.or_else(|| self.parked.take(ticket))
            && !planted!(LeaverStaysInLine)
        {
            self.abandon(clocks, &parked);
        }
        self.take_turns(clocks);
    }

    /// An answer could not be delivered: the claim it told of is handed back, unless another caller knows of it by now.
    pub fn hand_back(&mut self, clocks: Clocks, claim: ClaimId) {
        self.pass_time(clocks, None);
        self.give_back(clocks, claim);
        self.take_turns(clocks);
    }

    /// Handles the deadlines that are due. Call it at `next_wake`, or at any time.
    pub fn tick(&mut self, clocks: Clocks) {
        if self.reign.is_closed {
            return;
        }
        let now = self.pass_time(clocks, None);
        for _ in 0..CALLERS_PER_STEP {
            let Some(parked) = self.parked.take_due(now.at) else { break };
            self.answer_unchanged(clocks, now, parked);
        }
        self.give_up_on_store(clocks);
        self.take_turns(clocks);
        if self.reign.is_shared {
            self.give_up_on_orphans(clocks, now);
        } else {
            self.mark_if_due(now);
        }
    }

    /// The batch to append next: none while one is under way, or when there are no changes.
    pub fn take_batch(&mut self, clocks: Clocks) -> Option<Batch> {
        if !self.has_batch() {
            return None;
        }
        self.now(clocks);
        if planted!(UpkeepCharged) {
            self.clock.change_made();
        }
        let batch = self.reign.sealed.pop_front().unwrap_or_else(|| self.batch.seal());
        if self.room.is_behind && self.backlog_bytes() < self.limits.backlog_bytes_max {
            self.set_store_behind(false);
        }
        let proof = self.begin_proof();
        self.in_flight = Some((batch.last, proof));
        if planted!(AckBeforeSync) {
            self.release(batch.last);
        }
        Some(batch)
    }

    /// Returns whether `take_batch` would return a batch.
    pub fn has_batch(&self) -> bool {
        self.in_flight.is_none() && self.has_changes()
    }

    /// Returns whether every change so far was taken by an append: then a checkpoint may begin.
    pub fn is_batch_empty(&self) -> bool {
        !self.has_changes()
    }

    /// About the size of the batch that `take_batch` would return.
    pub fn batch_bytes(&self) -> usize {
        self.reign.sealed.front().map_or_else(|| self.batch.bytes(), |batch| batch.record.len())
    }

    /// Returns whether changes wait that no append has taken.
    fn has_changes(&self) -> bool {
        !self.batch.is_empty() || !self.reign.sealed.is_empty()
    }

    /// The batch is durable: answers that waited for it may leave.
    pub fn append_done(&mut self, clocks: Clocks) {
        let (durable, proof) = self.in_flight.take().expect("an append was under way");
        self.now(clocks);
        self.answers.prove(proof);
        let are_more = self.has_changes();
        self.clock.became_durable(are_more && !planted!(UpkeepCharged));
        self.undurable_since_mono_us = are_more.then_some(clocks.mono_us);
        self.release(durable);
    }

    fn release(&mut self, durable: Position) {
        let now = Moment { at: self.clock.at(), wall: self.wall };
        self.told.extend(self.answers.release(durable).map(|mut told| {
            told.leave(now);
            told
        }));
        self.told_effects.extend(self.effects.release(durable));
    }

    /// Answers that may leave now.
    pub fn poll_told(&mut self, told: &mut Vec<Told<R>>) {
        hand_over(&mut self.told, told);
    }

    /// The effects that may be told now, in the order of the journal.
    pub fn poll_effects(&mut self, effects: &mut Vec<Happened>) {
        hand_over(&mut self.told_effects, effects);
    }

    /// When to call `tick` at the latest, on the monotonic clock; `None` when nothing depends on time.
    pub fn next_wake(&self) -> Option<u64> {
        let due_at = [self.engine.next_deadline(), self.parked.next_due()].into_iter().flatten().min();
        let by_deadline = due_at.and_then(|due_at| self.clock.mono_us_at(due_at));
        let by_tick = self.anybody_holds().then(|| self.mono_us() + TICK_US);
        let by_store = self.answers.oldest_mono_us().map(|oldest| oldest + self.store_patience_us());
        // Each step tells more of them, until none is left.
        let by_parked = (!self.parked.is_empty() && self.is_store_late(self.mono_us())).then(|| self.mono_us());
        [by_deadline, by_tick, by_store, by_parked].into_iter().flatten().min()
    }

    /// From now on the partition takes nothing new on. Parked callers are told so; appends under way are finished.
    pub fn shut_down(&mut self, clocks: Clocks) {
        self.is_shutting_down = true;
        if !planted!(GrantedIsNotWithdrawn) {
            self.pass_time(clocks, None);
        }
        self.dismiss(clocks);
        self.take_turns(clocks);
        let now = self.now(clocks);
        if self.anybody_holds() && !self.reign.is_shared {
            self.mark(now);
        }
    }

    /// For a store that keeps nothing: from now on there are no batches, and nothing waits for them.
    pub fn stop_journaling(&mut self) {
        assert!(self.in_flight.is_none(), "before the first append");
        self.is_journaled = false;
        if !self.batch.is_empty() {
            self.batch.seal();
        }
        self.clock.became_durable(false);
        self.undurable_since_mono_us = None;
        self.release(self.head);
    }

    /// Returns whether effects are told only after an append. If not, the thread that made a change also tells of it.
    pub fn is_journaled(&self) -> bool {
        self.is_journaled
    }

    /// Says whether the store is nearly full; the engine then refuses everything new.
    pub fn set_store_full(&mut self, is_full: bool) {
        self.room.is_full = is_full;
        self.engine.set_store_full(is_full || self.room.is_behind);
    }

    /// To the engine it is the same why the store has no room: nothing new is taken on.
    fn set_store_behind(&mut self, is_behind: bool) {
        self.room.is_behind = is_behind;
        self.engine.set_store_full(is_behind || self.room.is_full);
    }

    /// The bytes that wait in the batch being filled.
    fn backlog_bytes(&self) -> usize {
        self.batch.bytes() + self.batch.len() * BYTES_PER_CHANGE + self.reign.sealed_bytes()
    }

    /// Returns whether every answer has left.
    pub fn is_at_rest(&self) -> bool {
        self.in_flight.is_none() && !self.has_changes() && self.answers.is_empty() && self.told.is_empty()
    }

    /// Starts a checkpoint of the state as of the last change. Only right after `take_batch`, when the batch is empty,
    /// so that the checkpoint ends where a batch does.
    pub fn begin_checkpoint(&mut self, clocks: Clocks) -> CheckpointStart {
        assert!(!self.has_changes(), "a checkpoint ends where a batch ends");
        self.engine.begin_snapshot();
        // The next owner goes on from the last change or a mark of time, and neither may be as late as this clock:
        // readers of the checkpoint must not be ahead of it.
        let is_shared = self.reign.is_shared;
        let at = if is_shared { self.marked_at } else { self.clock.at() };
        CheckpointStart { partition: self.number, upto: self.head, now: Moment { at, wall: clocks.wall } }
    }

    /// More of the checkpoint under way. `false` when these facts were the last.
    pub fn step_checkpoint(&mut self, budget: usize, facts: &mut Vec<Fact>) -> bool {
        self.engine.step_snapshot(budget, facts)
    }

    /// Gives up on the checkpoint under way.
    pub fn drop_checkpoint(&mut self) {
        self.engine.drop_snapshot();
    }

    /// The numbers that the gauges show.
    pub fn totals(&self) -> Totals {
        self.engine.totals()
    }

    /// Callers without an answer, by what they wait for.
    pub fn callers(&self) -> Callers {
        Callers { held: self.answers.len(), parked: self.parked.len() }
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The epoch of this owner.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Service time as it was last read.
    pub fn service_time(&self) -> Time {
        self.clock.at()
    }

    /// How far service time fell behind the driver's clock since this partition was opened.
    pub fn uncharged_us(&self) -> u64 {
        self.clock.uncharged_us()
    }

    /// Since when the oldest answer has waited for the store, on the monotonic clock.
    pub fn oldest_held_mono_us(&self) -> Option<u64> {
        self.answers.oldest_mono_us()
    }

    /// Everything up to here is durable.
    pub fn durable(&self) -> Position {
        if planted!(DurableForgotten) && !self.is_journaled {
            return Position(0);
        }
        self.answers.durable()
    }

    fn mono_us(&self) -> u64 {
        self.clock.seen_mono_us()
    }

    fn anybody_holds(&self) -> bool {
        self.engine.totals().claims > 0 || !self.parked.is_empty()
    }

    fn now(&mut self, clocks: Clocks) -> Moment {
        let anybody_holds = self.anybody_holds();
        self.wall = clocks.wall;
        let mono_us = if planted!(DeadlineFromTheWall) { clocks.wall.0 } else { clocks.mono_us };
        Moment { at: self.clock.advance(mono_us, anybody_holds), wall: clocks.wall }
    }

    fn mark_if_due(&mut self, now: Moment) {
        let Some(due_at) = self.engine.next_deadline() else { return };
        if !self.anybody_holds() {
            return;
        }
        let every_us = (due_at.since(now.at) / MARK_PART_OF_REST).clamp(MARK_EVERY_US, MARK_AT_LEAST_EVERY_US);
        if now.at.since(self.marked_at) >= every_us && !planted!(NoMarks) {
            self.mark(now);
        }
    }
}

/// Where a checkpoint starts from.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointStart {
    /// The partition's number.
    pub partition: u32,
    /// The checkpoint is the state after the change at this position.
    pub upto: Position,
    /// The moment of that state.
    pub now: Moment,
}

/// Callers without an answer.
#[derive(Clone, Copy, Debug)]
pub struct Callers {
    /// Their answer waits for the store.
    pub held: usize,
    /// They wait for something to happen.
    pub parked: usize,
}
