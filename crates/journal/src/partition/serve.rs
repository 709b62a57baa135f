//! How a partition serves: commands to the engine, changes to the batch, answers and effects to the gate, news to the
//! callers parked on a claim.

use leasehold_engine::{
    Change, ClaimId, ClaimStatus, Command, Effect, Ending, Kind, Known, LockNews, Moment, Outbox, Patience, Refusal,
    Reply, What,
};
use leasehold_engine::{Time, Wish, planted};

use super::parked::{ForWhat, Parked, Ticket, Turn};
use super::{CALLERS_PER_STEP, Clocks, Denial, Happened, Partition, Request, Told};

/// While shutting down, an answer waits no longer than this for the store.
const CLOSING_PATIENCE_US: u64 = 5_000_000;

/// An answer and the claim that it tells its caller of.
struct Said {
    answer: Result<Reply, Denial>,
    untold: Option<ClaimId>,
}

impl<R> Partition<R> {
    pub(super) fn serve(&mut self, clocks: Clocks, request: Request, to: R) -> Option<Ticket> {
        let Request { command, listen_us, only_while_waiting } = request;
        let now = self.pass_time(clocks, Some(&command));
        let asked = AskedFor::of(&command);
        let known = match &command {
            Command::Acquire(acquire) => self.engine.led_to(acquire),
            _ => None,
        };
        if let (true, Command::Acquire(acquire)) = (self.reign.is_shared, &command) {
            self.reign.orphans.remove(&acquire.id);
        }
        let answer = self.decide(clocks, now, command);
        if answer == Err(Refusal::StoreFull) && self.room.is_behind {
            // The store is not confirming, so this answer must not wait for it. It says nothing of the state.
            self.tell_now(to, Denial::StoreBehind);
            return None;
        }
        let untold = asked.fresh().and_then(|id| self.count_in(id, known, answer.as_ref().ok()?));
        let listen_until = now.at.plus(listen_us);
        let (claim, for_what, until) = match (asked, answer) {
            (AskedFor::Slot { resource, wait_us, .. }, Ok(Reply::Waiting(claim))) => {
                let until = if planted!(WaitOfTheLongest) { Time::NEVER } else { now.at.plus(wait_us) };
                (claim, ForWhat::Slot { resource }, until)
            }
            (AskedFor::Turn { .. }, Ok(Reply::Waiting(claim))) => {
                if listen_us == 0 {
                    let answer = self.view(now, claim);
                    self.say(clocks, to, Said { answer, untold });
                    return None;
                }
                (claim, ForWhat::Turn, listen_until)
            }
            (AskedFor::Activation { claim, update }, Err(Refusal::Contended)) if listen_us > 0 => {
                (claim, ForWhat::Update(update), listen_until)
            }
            (AskedFor::News { claim }, Ok(Reply::Claim(view)))
                if listen_us > 0
                    && view.history.ended.is_none()
                    && (!only_while_waiting || view.status == ClaimStatus::Waiting) =>
            {
                (claim, ForWhat::News, listen_until)
            }
            (_, answer) => {
                self.say(clocks, to, Said { answer: answer.map_err(Denial::from), untold });
                return None;
            }
        };
        let parked = Parked { to, claim, for_what, until };
        if self.is_store_late(clocks.mono_us) {
            self.give_up_on(clocks, parked);
            return None;
        }
        let is_first = !self.parked.is_awaited(claim);
        let ticket = self.parked.park(parked);
        if is_first && self.engine.is_attentive(claim) {
            self.order(clocks, Command::Attend { claim, is_attended: true });
        }
        Some(ticket)
    }

    /// A caller that was parked on this claim is not any more.
    fn unattend(&mut self, clocks: Clocks, claim: ClaimId) {
        if self.engine.is_attentive(claim) && !self.parked.is_awaited(claim) {
            self.order(clocks, Command::Attend { claim, is_attended: false });
        }
    }

    /// The claim that a caller that asked under `id` learns of, unless another caller knows of it for certain. `known`:
    /// the claim as it was before the command.
    fn count_in(&mut self, id: ClaimId, known: Option<Known>, reply: &Reply) -> Option<ClaimId> {
        let claim = told_claim(reply)?;
        if claim == id {
            return Some(claim);
        }
        if !self.company.is_shared(claim) {
            // A lock is renewed by its holder. The first answer decides until it has left: answers that are held were
            // made after the grant.
            let is_renewal = matches!(reply, Reply::Lock(..));
            let oldest_at = self.answers.oldest().map(|held| held.said_at);
            let has_left = |known: Known| oldest_at.is_none_or(|oldest_at| oldest_at > known.granted_at);
            if known.is_some_and(|known| known.is_seen || is_renewal && has_left(known)) {
                return None;
            }
        }
        self.company.joined(claim);
        Some(claim)
    }

    /// A caller could not be told of this claim: the claim is handed back, unless another caller was told, or may still
    /// be.
    pub(super) fn give_back(&mut self, clocks: Clocks, claim: ClaimId) {
        let heard_by_nobody = self.company.left(claim) && !planted!(SharedNotHandedBack);
        self.order(clocks, Command::HandBack { claim, heard_by_nobody });
    }

    /// A command without a caller. Time does not act here: due deadlines are handled before or after, never in between.
    pub(super) fn order(&mut self, clocks: Clocks, command: Command) {
        let now = self.now(clocks);
        let withdrawn = if let Command::Withdraw { claim } = command { Some(claim) } else { None };
        let answer = self.decide(clocks, now, command);
        assert_eq!(answer, Ok(Reply::Done), "only commands without an answer are ordered");
        // Not for a claim that stays because it was asked about: its callers may have been told of it long ago.
        if let Some(claim) = withdrawn.filter(|claim| self.engine.keeps_place(*claim)) {
            self.company.vacated(claim);
        }
    }

    /// Reads the clock and handles due deadlines, and always those of the claim that `command` is about. Time acts only
    /// here, in a step of its own: a caller granted by it learns of its grant as it was then, whatever a command does
    /// to it next.
    pub(super) fn pass_time(&mut self, clocks: Clocks, command: Option<&Command>) -> Moment {
        let now = self.now(clocks);
        let mut out = std::mem::take(&mut self.out);
        match command {
            Some(command) => self.engine.handle_time_before(now, command, &mut out),
            None => self.engine.handle_time(now, &mut out),
        }
        self.write_down(clocks, now, out);
        now
    }

    fn decide(&mut self, clocks: Clocks, now: Moment, command: Command) -> leasehold_engine::Answer {
        let mut out = std::mem::take(&mut self.out);
        let named = match &command {
            Command::Renew { claim, .. } => Some(*claim),
            Command::Update { claim, update } if update.ttl_us.is_some() => Some(*claim),
            _ => None,
        };
        if planted!(DueInTheStepOfTheCommand) {
            self.engine.handle_time_before(now, &command, &mut out);
        }
        let answer = self.engine.handle(now, command, &mut out);
        if let Some(claim) = named.filter(|_| answer.is_ok()) {
            // A caller that names the claim by its id knows of it.
            self.company.known(claim);
        }
        self.write_down(clocks, now, out);
        answer
    }

    /// Changes go to the batch, effects to the gate, and parked callers learn of changes to their claims.
    pub(super) fn write_down(&mut self, clocks: Clocks, now: Moment, mut out: Outbox) {
        if out.changes.is_empty() {
            // Most calls find nothing due, and there is no effect without a change.
            debug_assert!(out.effects.is_empty(), "an effect is of a change");
            self.out = out;
            return;
        }
        let before = self.head;
        for change in out.changes.drain(..) {
            self.push(now, &change);
            if let Change::Ended { claim, .. } | Change::Forgotten { claim } = change
                && !planted!(CompanyOutlivesClaim)
            {
                self.company.disband(claim);
            }
        }
        for effect in out.effects.drain(..) {
            if let (Some(claim), What::Granted { .. } | What::Ended { .. }) = (effect.claim, &effect.what) {
                self.wake(clocks, now, claim, &effect);
            }
            let position = before.plus(u64::from(effect.nth));
            let happened = Happened { epoch: self.epoch, position, wall: now.wall, effect };
            self.told_effects.extend(self.effects.hold(self.head, 0, clocks.mono_us, happened));
        }
        if self.reign.is_shared {
            self.seal_if_large();
        }
        if self.out.changes.capacity() == 0 {
            self.out = out;
        }
    }

    pub(super) fn push(&mut self, now: Moment, change: &Change) {
        self.head = self.head.next();
        self.marked_at = now.at;
        if self.is_journaled {
            if !planted!(UpkeepCharged) {
                self.clock.change_made();
            }
            self.undurable_since_mono_us.get_or_insert(self.clock.seen_mono_us());
            let position = self.batch.push(now, change);
            assert_eq!(position, self.head, "the batch and the gate count alike");
            if !self.room.is_behind && self.backlog_bytes() >= self.limits.backlog_bytes_max {
                self.set_store_behind(true);
            }
        } else {
            self.release(self.head);
        }
    }

    pub(super) fn mark(&mut self, now: Moment) {
        self.push(now, &Change::Marked);
    }

    fn wake(&mut self, clocks: Clocks, now: Moment, claim: ClaimId, effect: &Effect) {
        while let Some(parked) = self.parked.take_on(claim) {
            let said = match parked.for_what {
                ForWhat::Slot { ref resource } => match &effect.what {
                    What::Granted { from, .. } => {
                        let answer = self.view(now, claim).map(|reply| acquired(reply, from.clone()));
                        Said { answer, untold: Some(claim) }
                    }
                    What::Ended { how: Ending::Deleted, .. } => refused(Refusal::NoSuchResource),
                    What::Ended { how: Ending::Revoked, .. } => refused(Refusal::TakenOut),
                    _ => refused(self.engine.refusal_for_waiter(now, resource)),
                },
                ForWhat::Turn => Said { answer: self.view(now, claim), untold: Some(claim) },
                ForWhat::News => Said { answer: self.view(now, claim), untold: None },
                ForWhat::Update(update) => {
                    // This is a command of its own: in the middle of this step, its changes would come before the
                    // answer to the caller that caused the step, and that answer has not seen them.
                    self.turns.push(Turn { to: parked.to, claim, update });
                    continue;
                }
            };
            if planted!(WokenBeforeDurable) {
                let Said { answer, untold } = said;
                let (epoch, position, said_at) = (self.epoch, self.head, now.at);
                self.told.push(Told { to: parked.to, answer, epoch, position, untold, said_at });
                continue;
            }
            self.say(clocks, parked.to, said);
        }
    }

    /// The step is over and answered: updates that waited for their claim's turn are tried now.
    pub(super) fn take_turns(&mut self, clocks: Clocks) {
        while !self.turns.is_empty() {
            let Turn { to, claim, update } = self.turns.remove(0);
            let command = Command::Update { claim, update };
            let now = self.pass_time(clocks, Some(&command));
            let answer = self.decide(clocks, now, command);
            self.say(clocks, to, Said { answer: answer.map_err(Denial::from), untold: None });
        }
    }

    /// Nothing happened for as long as this caller wanted to listen.
    pub(super) fn answer_unchanged(&mut self, clocks: Clocks, now: Moment, parked: Parked<R>) {
        self.unattend(clocks, parked.claim);
        let said = match parked.for_what {
            ForWhat::Turn => Said { answer: self.view(now, parked.claim), untold: Some(parked.claim) },
            ForWhat::News => Said { answer: self.view(now, parked.claim), untold: None },
            ForWhat::Update(_) => refused(Refusal::Contended),
            ForWhat::Slot { ref resource } => {
                // The caller's own time is up. The place in the queue goes with the last caller that waits for it.
                self.abandon(clocks, &parked);
                refused(self.engine.refusal_for_waiter(now, resource))
            }
        };
        self.say(clocks, parked.to, said);
    }

    /// A parked caller is gone: a claim that only it stood for goes too.
    pub(super) fn abandon(&mut self, clocks: Clocks, parked: &Parked<R>) {
        match parked.for_what {
            ForWhat::Slot { .. } if planted!(LeaverTakesOthersAlong) || !self.parked.is_awaited(parked.claim) => {
                self.order(clocks, Command::Withdraw { claim: parked.claim });
            }
            // Another caller waits for it, so it is not the last.
            ForWhat::Slot { .. } => _ = self.company.left(parked.claim),
            ForWhat::Turn => self.give_back(clocks, parked.claim),
            ForWhat::Update(_) | ForWhat::News => {}
        }
        self.unattend(clocks, parked.claim);
    }

    /// Shutting down: each parked caller is told so, once the end of its claim is durable.
    pub(super) fn dismiss(&mut self, clocks: Clocks) {
        while let Some(parked) = self.parked.take_any() {
            if planted!(GrantedIsNotWithdrawn) {
                self.pass_time(clocks, None);
            }
            self.abandon(clocks, &parked);
            if planted!(ShutdownSaidEarly) {
                self.tell_now(parked.to, Denial::ShuttingDown);
            } else {
                self.say(clocks, parked.to, Said { answer: Err(Denial::ShuttingDown), untold: None });
            }
        }
    }

    /// While the store is away, no caller waits for ever: answers are given up after a bounded time, and their claims
    /// are handed back, in order, in case the changes become durable after all.
    pub(super) fn give_up_on_store(&mut self, clocks: Clocks) {
        let Some(long_ago) = clocks.mono_us.checked_sub(self.store_patience_us()) else { return };
        // The parked callers go first: a slot handed back below must not go to a caller that is about to be told 502.
        if self.is_store_late(clocks.mono_us) {
            for _ in 0..CALLERS_PER_STEP {
                let Some(parked) = self.parked.take_any() else { break };
                self.give_up_on(clocks, parked);
            }
            if !self.parked.is_empty() {
                return;
            }
        }
        if self.answers.oldest_mono_us().is_some_and(|oldest| oldest <= long_ago) {
            let late: Vec<Told<R>> = self.answers.give_up(long_ago).take(CALLERS_PER_STEP).collect();
            for told in late {
                if let Some(claim) = told.untold.filter(|_| !planted!(NoHandBackWhenLate)) {
                    self.give_back(clocks, claim);
                }
                self.tell_now(told.to, Denial::StoreLate);
            }
        }
    }

    /// Returns whether changes have waited to become durable for longer than any answer waits.
    pub(super) fn is_store_late(&self, mono_us: u64) -> bool {
        self.undurable_since_mono_us.is_some_and(|since| mono_us.saturating_sub(since) >= self.store_patience_us())
    }

    fn give_up_on(&mut self, clocks: Clocks, parked: Parked<R>) {
        self.abandon(clocks, &parked);
        self.tell_now(parked.to, Denial::StoreLate);
    }

    /// How long an answer waits for the store.
    pub(super) fn store_patience_us(&self) -> u64 {
        let patience_us = self.limits.store_timeout_us;
        if self.is_shutting_down { patience_us.min(CLOSING_PATIENCE_US) } else { patience_us }
    }

    fn view(&self, now: Moment, claim: ClaimId) -> Result<Reply, Denial> {
        self.engine.view_for_waiter(now, claim).ok_or(Denial::Refused(Refusal::NoSuchClaim))
    }

    /// Gives an answer that depends on every change so far.
    fn say(&mut self, clocks: Clocks, to: R, said: Said) {
        let Said { answer, untold } = said;
        let told = Told { to, answer, epoch: self.epoch, position: self.head, untold, said_at: self.clock.at() };
        let is_early = match &told.answer {
            Ok(reply) => matches!(reply, Reply::Resource(_) | Reply::Lock(..)) && planted!(ReadBeforeDurable),
            Err(_) => planted!(RefusalBeforeDurable),
        };
        if is_early {
            self.told.push(told);
            return;
        }
        self.told.extend(self.answers.hold(self.head, self.next_proof(), clocks.mono_us, told));
    }

    /// Gives an answer that depends on no change.
    pub(super) fn tell_now(&mut self, to: R, denial: Denial) {
        let position = self.answers.durable();
        let said_at = self.clock.at();
        self.told.push(Told { to, answer: Err(denial), epoch: self.epoch, position, untold: None, said_at });
    }
}

/// The claim that this answer tells its caller of, if the caller asked for one.
fn told_claim(reply: &Reply) -> Option<ClaimId> {
    match reply {
        Reply::Waiting(claim) => Some(*claim),
        Reply::Lease(view) => Some(view.claim),
        Reply::Claim(view) => Some(view.id),
        Reply::Lock(view, _) => view.holder.as_ref().map(|holder| holder.claim),
        Reply::Resource(_)
        | Reply::Unconfigured(_)
        | Reply::Returned(_)
        | Reply::Unlocked
        | Reply::Spent(_)
        | Reply::Place(_)
        | Reply::Holding(_)
        | Reply::ClaimEnded(_)
        | Reply::Claims(_)
        | Reply::Resources(_)
        | Reply::Revoked(_)
        | Reply::Fence(_)
        | Reply::Survey(_)
        | Reply::Inspection(_)
        | Reply::Resumed(_)
        | Reply::Done => None,
    }
}

fn refused(refusal: Refusal) -> Said {
    Said { answer: Err(Denial::Refused(refusal)), untold: None }
}

/// A waiter for a lock also learns which client let it lapse.
fn acquired(reply: Reply, from: Option<std::sync::Arc<str>>) -> Reply {
    match reply {
        Reply::Lock(view, _) => Reply::Lock(view, LockNews::Acquired { from }),
        other => other,
    }
}

/// The parts of a command that are needed after it was handled.
enum AskedFor {
    Slot { resource: leasehold_engine::ResourceKey, id: ClaimId, wait_us: u64 },
    Turn { id: ClaimId },
    Activation { claim: ClaimId, update: leasehold_engine::Update },
    News { claim: ClaimId },
    Other,
}

impl AskedFor {
    fn of(command: &Command) -> AskedFor {
        match command {
            Command::Acquire(acquire) => match (acquire.resource.kind(), acquire.patience) {
                (Kind::Claim, Patience::Standing) => AskedFor::Turn { id: acquire.id },
                (Kind::Pool | Kind::Lock | Kind::Claim, patience) => AskedFor::Slot {
                    resource: acquire.resource.clone(),
                    id: acquire.id,
                    wait_us: match patience {
                        Patience::For { wait_us } => wait_us,
                        Patience::Standing => u64::MAX,
                    },
                },
            },
            Command::Update { claim, update } if update.status == Some(Wish::Active) => {
                AskedFor::Activation { claim: *claim, update: *update }
            }
            Command::ViewClaim { claim } => AskedFor::News { claim: *claim },
            _ => AskedFor::Other,
        }
    }

    /// The id of the claim that the command made, if it made one.
    fn fresh(&self) -> Option<ClaimId> {
        match self {
            AskedFor::Slot { id, .. } | AskedFor::Turn { id } => Some(*id),
            AskedFor::Activation { .. } | AskedFor::News { .. } | AskedFor::Other => None,
        }
    }
}
