//! Between a deadline and the tick that handles it: no thread wakes in the very instant it asked for, and the first
//! event after it finds time that has passed and was not handled yet.

use leasehold_engine::Command;

use super::bodies::CallId;
use super::wishes::pool;
use super::{Event, World};
use crate::fault::Fault;
use crate::ledger::invariant::Check;
use crate::sometimes::Rare;

/// For so long after it overslept, the pulse does not again.
const SOBER_US: u64 = 300_000;

impl World {
    /// The pulse sleeps on, so that more becomes due. Returns whether it does.
    pub(super) fn oversleeps(&mut self, node: usize) -> bool {
        // Not all the time: due deadlines are handled within a bounded number of ticks.
        let is_tired =
            self.nodes[node].process.as_ref().is_some_and(|process| self.now_us > process.overslept_us + SOBER_US);
        if !is_tired || !self.is_due(node) || !self.fails_at(Fault::PulseOversleeps, 3 * self.plan.rate) {
            return false;
        }
        let late_us = self.chance.range(5_000, 90_000);
        let at_us = self.now_us + late_us;
        if let Some(process) = &mut self.nodes[node].process {
            process.is_pulse_late = true;
            process.overslept_us = at_us;
            process.tick_at_us = at_us;
            process.tick_seq += 1;
            let seq = process.tick_seq;
            self.at(at_us, Event::Tick { node, seq });
        }
        true
    }

    /// The pulse is about to run: another event may come before.
    pub(super) fn forestall(&mut self, node: usize) -> Check {
        let process = self.nodes[node].process.as_mut();
        let was_late = process.is_some_and(|process| std::mem::take(&mut process.is_pulse_late));
        if !self.is_due(node) {
            return Ok(());
        }
        if self.fails_at(Fault::HangUpAtDeadline, 4 * self.plan.rate)
            && let Some(id) = self.some_parked(node)
        {
            self.hit(Rare::LeftWhenDue);
            self.leave_call(id);
            self.hang_up(id)?;
        }
        if self.fails_at(Fault::RequestAtDeadline, if was_late { 700 } else { self.plan.rate }) {
            self.ask_when_due(node)?;
        }
        if self.fails_at(Fault::ShutDownAtDeadline, self.plan.rate / 8) {
            self.hit(Rare::ShutDownWhenDue);
            self.shut_down(node)?;
        }
        Ok(())
    }

    /// Returns whether a deadline has passed since the partition last looked at its clock.
    fn is_due(&self, node: usize) -> bool {
        let Some(process) = &self.nodes[node].process else { return false };
        let left_us = process.partition.engine().next_deadline().map(|due| due.since(process.partition.service_time()));
        left_us.is_some_and(|left_us| left_us <= self.now_us - process.read_us)
    }

    /// One of the callers that wait at this node.
    fn some_parked(&mut self, node: usize) -> Option<CallId> {
        let incarnation = self.nodes[node].incarnation;
        let is_here = |id: &usize| {
            let call = &self.calls[*id];
            call.is_parked() && call.node == node && call.incarnation == incarnation
        };
        let parked: Vec<usize> = (0..self.calls.len()).filter(is_here).collect();
        if parked.is_empty() { None } else { Some(CallId(parked[self.chance.index(parked.len())])) }
    }

    fn ask_when_due(&mut self, node: usize) -> Check {
        let client = self.chance.index(self.clients.len());
        // One that is waited for, if there is one.
        let is_awaited = |n: &usize| self.ledger.rows.get(&pool(*n)).is_some_and(|row| !row.queue.is_empty());
        let awaited = (0..self.plan.pools).find(is_awaited);
        let resource = pool(awaited.unwrap_or(self.chance.index(self.plan.pools)));
        let (command, listen_us) = if self.chance.chance(if awaited.is_some() { 600 } else { 100 }) {
            (Command::Unconfigure { resource }, 0)
        } else {
            let Some(wish) = self.wish(client) else { return Ok(()) };
            wish
        };
        let id = self.make_call(client, command, listen_us, 0);
        self.calls[id.0].node = node;
        self.arrive(id)
    }
}
