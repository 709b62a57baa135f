//! Making batches durable: on the node's own disk, or by messages to a store far away that get lost, doubled and late.

use std::sync::Arc;

use leasehold_engine::{ClaimId, Time};
use leasehold_journal::record::decode_batch;
use leasehold_journal::{Batch, Denial, STRETCH_MAX_US, StoreError};

use super::bodies::{Call, InFlight, Message, Said};
use super::node::{CERTAIN_US, End, OWNED_US};
use super::{Event, World, tell};
use crate::fault::Fault;
use crate::ledger::invariant::{self, Check};
use crate::ledger::{Entry, When};
use crate::plan::Deployment;
use crate::sometimes::Rare;

const RESEND_AFTER_US: u64 = 120_000;

impl World {
    /// Takes the next batch to the store, as the committer does, when there is one and none is under way.
    pub(super) fn take_batch(&mut self, node: usize) {
        let clocks = self.clocks(node);
        let plan_every = self.plan.checkpoint_every;
        let now_us = self.now_us;
        let Some(process) = &mut self.nodes[node].process else { return };
        if process.in_flight.is_some() || process.is_keeping_up {
            return;
        }
        let Some(batch) = process.partition.take_batch(clocks) else { return };
        let is_due = process.checkpoint.is_none() && process.appended >= plan_every;
        let checkpoint = is_due.then(|| process.partition.begin_checkpoint(clocks));
        self.log_time(node);
        let whens = self.decided(node, &batch);
        let Some(process) = &mut self.nodes[node].process else { return };
        process.is_pending = true;
        process.requests += 1;
        let request = process.requests;
        process.in_flight = Some(InFlight { request, batch, whens, since_us: now_us, attempts: 0, checkpoint });
        match self.plan.place {
            Deployment::Embedded => self.write(node),
            Deployment::Cluster { .. } => self.send(node),
        }
    }

    /// When each change of a batch was decided, by its service time.
    fn decided(&mut self, node: usize, batch: &Batch) -> Vec<When> {
        let decoded = decode_batch(&batch.record).expect("a batch just sealed can be read");
        let Some(process) = &mut self.nodes[node].process else { return Vec::new() };
        let log = &process.log;
        let whens = decoded.changes.iter().map(|(moment, _)| {
            let n = log.partition_point(|(at, _)| *at < moment.at.0);
            log.get(n).or(log.last()).map(|(_, when)| *when).unwrap_or_default()
        });
        let whens = whens.collect();
        let last = process.log.last().copied();
        process.log.clear();
        process.log.extend(last);
        whens
    }

    fn write(&mut self, node: usize) {
        let mut takes_us = self.store_rng.range(100, 3_000);
        if self.fails(Fault::StoreLate) {
            takes_us = self.store_rng.range(20_000, 350_000);
        }
        if self.fails_at(Fault::StoreHangs, self.plan.rate / 4) {
            takes_us = self.plan.partition_limits.store_timeout_us + self.store_rng.range(10_000, 900_000);
        }
        let incarnation = self.nodes[node].incarnation;
        let Some(process) = &self.nodes[node].process else { return };
        if let Some(in_flight) = &process.in_flight {
            self.disk.write_ahead(&in_flight.batch);
        }
        self.after(takes_us, Event::Synced { node, incarnation });
    }

    pub(super) fn synced(&mut self, node: usize, incarnation: u64) -> Check {
        if self.nodes[node].incarnation != incarnation || self.is_deferred(node, || Event::Synced { node, incarnation })
        {
            return Ok(());
        }
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        let Some(in_flight) = &process.in_flight else { return Ok(()) };
        let (batch, whens, store) = (in_flight.batch.clone(), in_flight.whens.clone(), process.store);
        match self.stores[store].append(&batch) {
            Ok(()) => {
                self.accept(&batch, &whens)?;
                self.appended(node)
            }
            Err(error) => {
                tell!(self, "append: {error}");
                self.rare.hit_if(matches!(error, StoreError::Failed { .. }), Rare::SyncFailedAndRecovered);
                self.rare.hit_if(matches!(error, StoreError::Full { .. }), Rare::DiskFullAndRecovered);
                self.end_process(node, End::Exit);
                Ok(())
            }
        }
    }

    /// A batch is durable: the ledger reads it, and the clocks of clients are compared with the leases that ended in
    /// it.
    pub(super) fn accept(&mut self, batch: &Batch, whens: &[When]) -> Check {
        let head = self.ledger.head;
        let news = self.ledger.accept(batch, whens, &self.asks)?;
        if self.ledger.head > head {
            tell!(self, "durable: {}..={} of epoch {}", batch.first, batch.last, batch.epoch);
            if self.story.is_told() {
                for (moment, change) in decode_batch(&batch.record).expect("it was just read").changes {
                    tell!(self, "    {:?} {change:?}", moment.at);
                }
            }
        }
        self.note(batch.last.0);
        for (claim, position, when) in news.expired {
            self.expired.insert(claim, (position, when));
            for holding in self.clients.iter().flat_map(|client| &client.holdings) {
                if holding.claim == claim && self.ledger.claims[&claim].is_last_lease(holding.position, position) {
                    invariant::s08_lease::by_holders_clock(claim, holding.until_us, when.world_us, holding.ttl_us)?;
                }
            }
        }
        let is_closing = self.owner.and_then(|n| self.nodes[n].process.as_ref()).is_some_and(|p| p.is_closing);
        for (claim, when) in news.withdrawn {
            let entry = &self.ledger.claims[&claim];
            if entry.wait_until == Time::NEVER {
                let was_asked = self.asks.revocations.contains(&claim);
                invariant::l2_waiters::on_withdrawal_of_standing(claim, was_asked)?;
            }
            // A client that waits for a lock leaves the queue by letting go of the lock.
            let let_go = entry.client.as_ref().map(|client| (entry.resource.clone(), client.clone()));
            let was_let_go = let_go.is_some_and(|let_go| self.asks.unlocks.contains(&let_go));
            let was_asked = is_closing || was_let_go || self.asks.revocations.contains(&claim);
            invariant::l2_waiters::on_withdrawal(claim, self.has_parked(claim, entry, when), was_asked)?;
            let is_kept = entry.keep_us > 0 && !was_let_go && !self.asks.revocations.contains(&claim);
            invariant::l2_waiters::on_loss_of_kept(claim, !is_kept)?;
        }
        for (claim, when) in news.kept {
            let entry = &self.ledger.claims[&claim];
            invariant::l2_waiters::on_withdrawal(claim, self.has_parked(claim, entry, when), is_closing)?;
        }
        for claim in news.forgotten {
            // 502 promises that nothing is held, a place neither.
            let entry = &self.ledger.claims[&claim];
            let is_late = |call: &Call| matches!(call.answer, Some((Err(Denial::StoreLate), _)));
            let was_told = self.calls.iter().any(|call| is_late(call) && call.may_stand_for(claim, entry));
            invariant::l2_waiters::on_loss_of_kept(claim, was_told)?;
        }
        for (_, when) in news.claimed {
            invariant::room::on_claimed(when.is_low)?;
        }
        invariant::l4_outages::check(&self.ledger, self.when())
    }

    /// Returns whether a call waited at this place just then, with time left.
    fn has_parked(&self, claim: ClaimId, entry: &Entry, when: When) -> bool {
        self.calls.iter().any(|call| {
            let is_here = self.owner == Some(call.node) && self.nodes[call.node].incarnation == call.incarnation;
            let since_us = if call.fresh() == Some(claim) { 0 } else { entry.claimed_us };
            let was_here = is_here && call.arrived.is_some_and(|at| (since_us..when.world_us).contains(&at.world_us));
            was_here && call.is_parked() && !call.has_waited(when) && call.may_stand_for(claim, entry)
        })
    }

    /// Answers that waited for the append leave; then housekeeping, as in the committer.
    fn appended(&mut self, node: usize) -> Check {
        let clocks = self.clocks(node);
        let now_us = self.now_us;
        let incarnation = self.nodes[node].incarnation;
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        let Some(in_flight) = process.in_flight.take() else { return Ok(()) };
        let was_long = now_us - in_flight.since_us > STRETCH_MAX_US;
        process.partition.append_done(clocks);
        process.append_allowance_us = STRETCH_MAX_US;
        process.appended += 1;
        if let Some(checkpoint) = &mut process.checkpoint {
            checkpoint.changed = true;
        }
        if was_long {
            self.outages += 1;
            self.hit(Rare::AppendLongerThanStretch);
        }
        self.log_time(node);
        self.deliver(node)?;
        if let Some(start) = in_flight.checkpoint {
            self.begin_checkpoint(node, incarnation, start);
        }
        self.check_at_rest(node)?;
        self.pump(node);
        Ok(())
    }

    fn message(&self, node: usize, what: Said) -> Option<Message> {
        let process = self.nodes[node].process.as_ref()?;
        Some(Message {
            node,
            incarnation: self.nodes[node].incarnation,
            store: process.store,
            epoch: process.partition.epoch().0,
            sent_mono_us: self.mono_us(node),
            what,
            is_stray: false,
        })
    }

    fn send(&mut self, node: usize) {
        let incarnation = self.nodes[node].incarnation;
        let Some(process) = &mut self.nodes[node].process else { return };
        let Some(in_flight) = &mut process.in_flight else { return };
        in_flight.attempts += 1;
        let request = in_flight.request;
        let what = Said::Append {
            request,
            batch: Arc::new(in_flight.batch.clone()),
            whens: in_flight.whens.clone().into(),
            attempt: in_flight.attempts,
        };
        if let Some(message) = self.message(node, what) {
            self.post(&message, 1_000);
        }
        self.after(RESEND_AFTER_US, Event::Resend { node, incarnation, request });
    }

    /// Puts a message to the store on its way, if it gets that far.
    fn post(&mut self, message: &Message, usual_us: u64) {
        if self.now_us < self.nodes[message.node].cut_until_us || self.fails(Fault::StoreRequestLost) {
            return;
        }
        let mut delay_us = self.store_rng.range(usual_us / 4, usual_us * 2);
        if self.fails(Fault::StoreLate) {
            delay_us += self.store_rng.range(20_000, 400_000);
        }
        if self.fails(Fault::StoreTwice) {
            let later_us = delay_us + self.store_rng.range(1_000, 600_000);
            self.after(later_us, Event::AtStore(Message { is_stray: true, ..message.clone() }));
        }
        self.after(delay_us, Event::AtStore(message.clone()));
    }

    /// A message that is under way arrives, whatever happens to its sender.
    pub(super) fn arrive_at_store(&mut self, message: &Message) -> Check {
        let is_owner = message.epoch == self.ledger.epoch;
        let answer = match &message.what {
            Said::KeepAlive => Said::Kept(is_owner),
            Said::Append { request, batch, whens, attempt } => {
                let was_there = self.ledger.newest.as_ref() == Some(batch);
                let result = self.stores[message.store].append(batch);
                match &result {
                    Ok(()) => {
                        self.accept(batch, whens)?;
                        self.rare.hit_if(*attempt > 1 && was_there, Rare::ResentAndAlreadyThere);
                        self.rare.hit_if(*attempt > 1 && !was_there, Rare::ResentAndApplied);
                        let sender = &self.nodes[message.node];
                        let is_gone = sender.process.is_none() || sender.incarnation != message.incarnation;
                        self.rare.hit_if(is_gone, Rare::AppendLandedAfterCrash);
                    }
                    Err(_) => self.rare.hit_if(message.is_stray && is_owner, Rare::StrayDuplicateFenced),
                }
                Said::Appended { request: *request, result: result.map_err(Arc::new) }
            }
            Said::Kept(_) | Said::Appended { .. } => return Ok(()),
        };
        if is_owner {
            self.owned_until_us = self.now_us + OWNED_US;
        }
        if self.now_us < self.nodes[message.node].cut_until_us || self.fails(Fault::StoreReplyLost) {
            return Ok(());
        }
        let delay_us = self.store_rng.range(300, 2_000);
        self.after(delay_us, Event::FromStore(Message { what: answer, ..message.clone() }));
        Ok(())
    }

    pub(super) fn hear_from_store(&mut self, message: Message) -> Check {
        let node = message.node;
        if self.nodes[node].incarnation != message.incarnation {
            return Ok(());
        }
        if self.is_deferred(node, || Event::FromStore(message.clone())) || !self.is_certain(node) {
            return Ok(());
        }
        let Some(process) = &mut self.nodes[node].process else { return Ok(()) };
        match message.what {
            Said::Kept(true) => self.confirmed(node, message.sent_mono_us),
            Said::Kept(false) => self.end_process(node, End::Exit),
            Said::Appended { request, result } => {
                if process.in_flight.as_ref().is_none_or(|in_flight| in_flight.request != request) {
                    // A second answer to the same message.
                    return Ok(());
                }
                match result {
                    Ok(()) => {
                        self.confirmed(node, message.sent_mono_us);
                        return self.appended(node);
                    }
                    Err(error) => {
                        tell!(self, "append: {error}");
                        self.hit(Rare::OwnerFencedByAppend);
                        self.end_process(node, End::Exit);
                    }
                }
            }
            Said::KeepAlive | Said::Append { .. } => {}
        }
        Ok(())
    }

    /// The outcome is unknown: the identical batch again.
    pub(super) fn resend(&mut self, node: usize, incarnation: u64, request: u64) {
        if self.nodes[node].incarnation != incarnation {
            return;
        }
        if self.is_deferred(node, || Event::Resend { node, incarnation, request }) || !self.is_certain(node) {
            return;
        }
        let in_flight = self.nodes[node].process.as_ref().and_then(|process| process.in_flight.as_ref());
        if in_flight.is_some_and(|in_flight| in_flight.request == request) {
            self.send(node);
        }
    }

    pub(super) fn keep_alive(&mut self, node: usize, incarnation: u64) {
        if self.nodes[node].incarnation != incarnation || self.nodes[node].process.is_none() {
            return;
        }
        if self.is_deferred(node, || Event::KeepAlive { node, incarnation }) || !self.is_certain(node) {
            return;
        }
        if let Some(message) = self.message(node, Said::KeepAlive) {
            self.post(&message, 1_000);
        }
        self.after(300_000, Event::KeepAlive { node, incarnation });
    }

    fn confirmed(&mut self, node: usize, sent_mono_us: u64) {
        if let Some(process) = &mut self.nodes[node].process {
            process.certain_until_us = process.certain_until_us.max(sent_mono_us + CERTAIN_US);
        }
    }

    /// Before a node acts as the owner: if its ownership may be over, the process ends and answers nothing more.
    pub(super) fn is_certain(&mut self, node: usize) -> bool {
        if self.plan.place == Deployment::Embedded {
            return true;
        }
        if self.plan.is_careless {
            return self.nodes[node].process.is_some();
        }
        let mono_us = self.mono_us(node);
        let Some(process) = &self.nodes[node].process else { return false };
        let is_certain = mono_us < process.certain_until_us;
        if !is_certain {
            self.hit(Rare::OwnerSteppedDownByClock);
            self.end_process(node, End::Exit);
        }
        is_certain
    }
}
