//! How a node serves: requests in, answers out, callers that leave. The protocol is that of the server's driver: an
//! answer is handed to its caller inside the process first; a caller that is gone by then hands it back.

use leasehold_engine::{ClaimId, Command, Refusal, Reply, Time};
use leasehold_journal::{Denial, Request, Told};

use super::bodies::{CallId, CallState, Pulse};
use super::node::End;
use super::{Event, World, tell};
use crate::fault::Fault;
use crate::history::Stamp;
use crate::ledger::Entry;
use crate::ledger::invariant::{self, Check};
use crate::sometimes::Rare;

impl World {
    pub(super) fn arrive(&mut self, id: CallId) -> Check {
        let node = self.calls[id.0].node;
        if self.is_deferred(node, || Event::Arrive(id)) || !self.is_certain(node) {
            if self.nodes[node].process.is_none() && !self.nodes[node].is_stopped {
                self.after(500, Event::Broken(id));
            }
            return Ok(());
        }
        if self.nodes[node].process.is_none() {
            self.after(500, Event::Broken(id));
            return Ok(());
        }
        let clocks = self.clocks(node);
        let incarnation = self.nodes[node].incarnation;
        let when = self.when();
        let call = &mut self.calls[id.0];
        call.incarnation = incarnation;
        call.arrived = Some(when);
        call.state = CallState::AtServer(None);
        let request = Request { listen_us: call.listen_us, ..call.command.clone().into() };
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        process.pulse.asked += 1;
        let ticket = process.partition.submit(clocks, request, id);
        let call = &mut self.calls[id.0];
        call.state = CallState::AtServer(ticket);
        let is_hung_up = call.is_hung_up;
        let awaits_turn = ticket.is_some() && matches!(call.command, Command::Update { .. });
        self.rare.hit_if(awaits_turn, Rare::ActivationAwaited);
        self.log_time(node);
        if is_hung_up {
            // The request was on its way when its caller left: the driver drops it as soon as it looks.
            self.calls[id.0].is_hung_up = false;
            self.hang_up(id)?;
        }
        self.deliver(node)?;
        self.pump(node);
        Ok(())
    }

    /// Everything that follows any call of the partition: the next batch, and when to tick.
    pub(super) fn pump(&mut self, node: usize) {
        self.take_batch(node);
        let Some(process) = &self.nodes[node].process else { return };
        if process.is_closing && process.in_flight.is_none() && process.partition.is_at_rest() {
            self.end_process(node, End::ShutDown);
            return;
        }
        let Some(wake_us) = process.partition.next_wake() else { return };
        let at_us = self.world_us(node, wake_us).max(self.now_us);
        let Some(process) = &mut self.nodes[node].process else { return };
        if at_us < process.tick_at_us && !process.is_pulse_late {
            process.tick_at_us = at_us;
            process.tick_seq += 1;
            let seq = process.tick_seq;
            self.at(at_us, Event::Tick { node, seq });
        }
    }

    pub(super) fn tick(&mut self, node: usize, seq: u64) -> Check {
        if self.nodes[node].process.as_ref().is_none_or(|process| process.tick_seq != seq) {
            return Ok(());
        }
        if self.is_deferred(node, || Event::Tick { node, seq }) || !self.is_certain(node) {
            return Ok(());
        }
        if self.oversleeps(node) {
            return Ok(());
        }
        self.forestall(node)?;
        let clocks = self.clocks(node);
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        process.tick_at_us = u64::MAX;
        process.partition.tick(clocks);
        let now_us = self.now_us;
        if now_us >= process.pulse.since_us + 1_000_000 {
            process.pulse = Pulse { since_us: now_us, ..Pulse::default() };
        }
        process.pulse.ticks += 1;
        let (next, at) = (process.partition.engine().next_deadline(), process.partition.service_time());
        self.rare.hit_if(next.is_some_and(|next| next <= at), Rare::MoreDueThanOneStep);
        invariant::l9_pulse::on_tick(process.pulse.ticks, process.pulse.asked)?;
        self.log_time(node);
        self.deliver(node)?;
        self.pump(node);
        Ok(())
    }

    /// Answers that may leave are handed to their callers.
    pub(super) fn deliver(&mut self, node: usize) -> Check {
        let mut told = Vec::new();
        let mut effects = Vec::new();
        if let Some(process) = &mut self.nodes[node].process {
            process.partition.poll_told(&mut told);
            process.partition.poll_effects(&mut effects);
        }
        let mut undelivered = Vec::new();
        for told in told {
            self.check_answer(node, &told)?;
            self.check_times(node, &told)?;
            let Told { to, answer, epoch, position, untold, .. } = told;
            let call = &mut self.calls[to.0];
            call.answer = Some((answer, Stamp { epoch: epoch.0, position: position.0 }));
            if call.is_hung_up {
                call.state = CallState::Over;
                undelivered.extend(untold);
                continue;
            }
            call.state = CallState::InChannel { untold };
            let leaves_now = call.hangs_up_at_answer;
            let delay_us = self.chance.below(60);
            self.after(delay_us, Event::Wire(to));
            if leaves_now {
                self.leave_call(to);
                let notice_us = self.chance.below(90);
                self.after(notice_us, Event::HangUp(to));
            }
        }
        self.hand_back(node, &undelivered)
    }

    fn hand_back(&mut self, node: usize, claims: &[ClaimId]) -> Check {
        if claims.is_empty() {
            return Ok(());
        }
        let clocks = self.clocks(node);
        for &claim in claims {
            let was_seen = self.ledger.claims.get(&claim).is_some_and(|entry| entry.seen && entry.ended.is_none());
            self.rare.hit_if(was_seen, Rare::HandBackSkippedAsSeen);
            self.hit(Rare::HandedBackUndelivered);
            tell!(self, "hand back {claim:?}");
            if let Some(process) = &mut self.nodes[node].process {
                process.partition.hand_back(clocks, claim);
            }
        }
        self.log_time(node);
        let mut told = Vec::new();
        if let Some(process) = &mut self.nodes[node].process {
            process.partition.poll_told(&mut told);
        }
        invariant::ensure(told.is_empty(), "S6", || "an answer that depends on a new change left at once".to_owned())
    }

    /// The promises of every answer, checked before it leaves.
    fn check_answer(&mut self, node: usize, told: &Told<CallId>) -> Check {
        let position = told.position.0;
        self.out.answers += 1;
        self.note(position);
        invariant::s06_durable::on_answer(&self.ledger, position)?;
        if let Some(process) = &mut self.nodes[node].process {
            let before = std::mem::replace(&mut process.told_at, position);
            invariant::s12_order::on_answer(before, position)?;
        }
        invariant::s10_fencing::on_answer(&self.ledger, told.epoch.0, position)?;
        if !self.plan.is_careless {
            invariant::s11_certainty::on_answer(told.epoch.0, self.ledger.epoch)?;
        }
        let call = &self.calls[told.to.0];
        let was_held = call.arrived.is_some_and(|arrived| arrived.world_us < self.now_us);
        let is_read = matches!(
            call.command,
            Command::ViewResource { .. } | Command::ViewLease { .. } | Command::ViewClaim { .. }
        );
        let was_parked = matches!(call.state, CallState::AtServer(Some(_)));
        let (client, fresh) = (call.client, call.fresh());
        if self.story.is_told() {
            let text = match &told.answer {
                Ok(reply) => format!("{reply:?}"),
                Err(denial) => format!("{denial:?}"),
            };
            let short: String = text.chars().take(150).collect();
            tell!(self, "node {node} answers c{client} call {} at {position}: {short}", told.to.0);
        }
        self.rare.hit_if(was_held && is_read && !was_parked, Rare::ReadHeldAtGate);
        self.remember_question(told);
        let call = &self.calls[told.to.0];
        match &told.answer {
            Ok(reply) => self.ledger.witness(&call.command, &Ok(reply.clone()), position)?,
            Err(Denial::Refused(refusal)) => {
                if *refusal == Refusal::StoreFull && !was_held && self.is_settled(node) {
                    let process = self.nodes[node].process.as_ref();
                    let at = process.map_or(Time(0), |process| process.partition.service_time());
                    invariant::room::on_refusal(&self.ledger, &call.command, at)?;
                }
                self.ledger.witness(&call.command, &Err(refusal.clone()), position)?;
                self.asks.refused.extend(fresh);
                self.rare.hit_if(was_held && !was_parked, Rare::RefusalHeldAtGate);
                let in_grace = matches!(refusal, Refusal::Locked { in_grace: true, .. });
                self.rare.hit_if(in_grace, Rare::LockRefusedInGrace);
                self.rare.hit_if(*refusal == Refusal::StoreFull, Rare::AnsweredStoreFull);
                self.rare.hit_if(matches!(refusal, Refusal::KeySpent { .. }), Rare::KeySpentSeen);
                self.rare.hit_if(*refusal == Refusal::KeyReused, Rare::KeyReusedRefused);
                self.rare.hit_if(*refusal == Refusal::NotTheHolder, Rare::UnlockByStrangerRefused);
                self.rare.hit_if(matches!(refusal, Refusal::TooManyClaims { .. }), Rare::LimitOfClaimsReached);
                self.rare.hit_if(matches!(refusal, Refusal::TooManyWaiting { .. }), Rare::LimitOfWaitersReached);
                self.rare.hit_if(matches!(refusal, Refusal::StateFull { .. }), Rare::LimitOfBytesReached);
            }
            Err(Denial::StoreLate) => {
                self.hit(if was_parked { Rare::ParkedAnsweredStoreLate } else { Rare::AnsweredStoreLate });
                self.asks.given_up.extend(fresh);
                if let (Some(claim), Some(process)) = (fresh, &mut self.nodes[node].process) {
                    process.given_up.push(claim);
                }
            }
            Err(Denial::Moved | Denial::Lost | Denial::EarlierVersion) => {
                unreachable!("the partitions of this world are not moved")
            }
            Err(denial @ (Denial::Overloaded | Denial::StoreBehind | Denial::ShuttingDown)) => {
                self.asks.refused.extend(fresh);
                self.hit(match denial {
                    Denial::Overloaded => Rare::AnsweredOverloaded,
                    Denial::StoreBehind => Rare::AnsweredStoreBehind,
                    _ => Rare::AnsweredShuttingDown,
                });
            }
        }
        Ok(())
    }

    /// A caller that asked about a waiting claim gets its answer.
    fn remember_question(&mut self, told: &Told<CallId>) {
        let claim = match (&self.calls[told.to.0].command, &told.answer) {
            (Command::ViewClaim { .. } | Command::Update { .. } | Command::Acquire(_), Ok(Reply::Claim(view))) => {
                view.id
            }
            (Command::Update { claim, .. }, Err(Denial::Refused(Refusal::Contended | Refusal::StillWaiting))) => *claim,
            _ => return,
        };
        let arrived = self.calls[told.to.0].arrived;
        if let (Some(entry), Some(arrived)) = (self.ledger.claims.get_mut(&claim), arrived) {
            let latest = entry.asked.filter(|(before, _)| before.fair_us > arrived.fair_us);
            entry.asked = latest.or(Some((arrived, told.epoch.0)));
        }
    }

    /// The node notices that a caller is gone, wherever its call is by then.
    pub(super) fn hang_up(&mut self, id: CallId) -> Check {
        let node = self.calls[id.0].node;
        if self.calls[id.0].state != CallState::Flying && self.is_deferred(node, || Event::HangUp(id)) {
            return Ok(());
        }
        if std::mem::replace(&mut self.calls[id.0].is_hung_up, true) {
            return Ok(());
        }
        let call = &mut self.calls[id.0];
        match call.state {
            CallState::AtServer(Some(ticket)) => {
                if !self.is_certain(node) {
                    return Ok(());
                }
                tell!(self, "call {} left while parked", id.0);
                let clocks = self.clocks(node);
                let before = self.ledger.head;
                if let Some(process) = &mut self.nodes[node].process {
                    process.partition.leave(clocks, ticket);
                }
                self.rare.hit_if(
                    before == self.ledger.head && self.calls[id.0].answer.is_none(),
                    Rare::WaiterLeftAlreadyGranted,
                );
                self.log_time(node);
                self.deliver(node)?;
                self.pump(node);
            }
            CallState::InChannel { untold } => {
                call.state = CallState::Over;
                if self.is_certain(node) {
                    let claims: Vec<ClaimId> = untold.into_iter().collect();
                    self.hand_back(node, &claims)?;
                    self.pump(node);
                }
            }
            // Its answer will reach no caller; or it is on its way already.
            CallState::AtServer(None) | CallState::Flying | CallState::OnWire | CallState::Over => {}
        }
        Ok(())
    }

    /// The answer leaves the process. From here on no check can tell whether it arrives.
    pub(super) fn wire(&mut self, id: CallId) {
        let node = self.calls[id.0].node;
        if self.calls[id.0].incarnation != self.nodes[node].incarnation {
            return;
        }
        if !matches!(self.calls[id.0].state, CallState::InChannel { .. }) || self.is_deferred(node, || Event::Wire(id))
        {
            return;
        }
        self.calls[id.0].state = CallState::OnWire;
        self.known.extend(self.calls[id.0].told_of());
        if self.fails(Fault::ReplyLost) {
            return;
        }
        let mut delay_us = self.chance.range(50, 2_000);
        if self.fails(Fault::ReplyLate) {
            delay_us += self.chance.range(10_000, 1_500_000);
        }
        self.after(delay_us, Event::Hear(id));
    }

    /// When all changes are durable: the live state, the replayed journal and the model are compared.
    pub(super) fn check_at_rest(&mut self, node: usize) -> Check {
        let is_looked_at = self.store_rng.chance(120);
        let Some(process) = &self.nodes[node].process else { return Ok(()) };
        if process.partition.has_batch() || self.owner != Some(node) {
            return Ok(());
        }
        let incarnation = self.nodes[node].incarnation;
        let are_all_given_up = |claim: ClaimId, entry: &Entry| {
            let mut callers = self.calls.iter().filter(|call| call.may_stand_for(claim, entry));
            callers.all(|call| call.is_given_up_by(node, incarnation) || call.state == CallState::Flying)
        };
        invariant::s14_unknown::at_rest(&self.ledger, &process.given_up, are_all_given_up)?;
        invariant::l2_waiters::at_rest(&self.ledger, process.partition.callers().parked)?;
        invariant::l7_gone::at_rest(&self.ledger, |claim, entry| self.is_stood_for(claim, entry))?;
        self.check_waits(node)?;
        if is_looked_at {
            process.partition.check();
            let facts = process.partition.engine().facts();
            invariant::s15_replay::same("the live state", &facts, &self.ledger.standby.facts())?;
            invariant::s15_replay::model(&self.ledger, &facts)?;
            let account = |engine: &leasehold_engine::Engine| engine.totals().state_bytes;
            invariant::s15_replay::account(account(process.partition.engine()), account(&self.ledger.standby))?;
        }
        Ok(())
    }
}
