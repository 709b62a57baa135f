//! The end: faults stop, clients give their leases back, and everything must come to rest by itself.

use leasehold_engine::{Command, Labeling, ResourceKey, Update, Wish};

use super::bodies::CallState;
use super::node::End;
use super::wishes::pool;
use super::{Event, World, tell};
use crate::ledger::invariant::{self, Check, Violation};
use crate::sometimes::Rare;

impl World {
    pub(super) fn calm_down(&mut self) {
        tell!(self, "calm");
        self.is_calm = true;
        self.disk.set_full(false);
        self.disk.set_low(false);
        for node in 0..self.nodes.len() {
            self.nodes[node].cut_until_us = 0;
            let seq = self.nodes[node].stop_seq;
            if self.nodes[node].is_stopped {
                self.after(10_000, Event::Resume { node, seq });
            }
        }
        for client in 0..self.clients.len() {
            self.clients[client].paused_until_us = 0;
        }
    }

    /// In calm weather a client asks once more whether the service answers, gives its leases back, and is done.
    pub(super) fn wind_down(&mut self, client: usize) {
        let body = &mut self.clients[client];
        body.retries.clear();
        let is_reachable = self.owner.is_some_and(|owner| self.nodes[owner].process.is_some());
        if !is_reachable || self.clients[client].pending > 0 {
            self.after(50_000, Event::Act(client));
            return;
        }
        if let Some(holding) = self.clients[client].holdings.pop() {
            let command = self.release(client, &holding);
            self.ask(client, command, 0, 0);
        } else if let Some(claim) = self.clients[client].standing.pop() {
            let update = Update { status: Some(Wish::Withdrawn), ..Update::default() };
            self.ask(client, Command::Update { claim, update }, 0, 0);
        } else if let Some(command) = self.unfitting() {
            // A resource that grants nothing would keep its queue for ever.
            self.ask(client, command, 0, 0);
        } else if self.clients[client].probes <= self.plan.claimed {
            // A resource without a slot would keep its queue for ever, one with a single slot for long.
            let resource = match self.clients[client].probes.checked_sub(1) {
                None => pool(0),
                Some(n) => ResourceKey::Claim(format!("r{n}").into()),
            };
            self.clients[client].probes += 1;
            self.ask(client, Command::Configure { resource, capacity: 50, label: Labeling::Kept }, 0, 0);
        } else {
            return;
        }
        self.after(20_000, Event::Act(client));
    }

    /// No caller waits, no lease is held, and no call is under way.
    pub(super) fn is_over(&self) -> bool {
        let is_quiet = self.clients.iter().all(|client| client.pending == 0 && client.probes > self.plan.claimed);
        let lapsed =
            |claim| self.ledger.claims.get(claim).is_some_and(|e| e.state == crate::ledger::EntryState::Lapsed);
        is_quiet && self.ledger.live.iter().all(lapsed) && self.is_serving()
    }

    fn is_serving(&self) -> bool {
        self.owner.is_some_and(|owner| {
            self.nodes[owner].process.as_ref().is_some_and(|process| process.partition.is_at_rest())
        })
    }

    fn unanswered(&self) -> usize {
        self.calls.iter().filter(|call| !call.is_left && call.state != CallState::Over).count()
    }

    pub(super) fn never_at_rest(&mut self) -> Result<(), Violation> {
        invariant::l6_answers::at_rest(self.unanswered(), self.is_serving())?;
        invariant::l4_outages::check(&self.ledger, self.when())?;
        let left = self.ledger.live.len();
        invariant::ensure(false, "L6", || format!("{left} claims live on though all faults are over"))
    }

    /// The last look: at rest, then once more after a restart.
    pub(super) fn finish(&mut self) -> Check {
        invariant::l6_answers::at_rest(self.unanswered(), self.is_serving())?;
        invariant::l1_settled::check(&self.ledger)?;
        self.check_history()?;
        let Some(owner) = self.owner else { return Ok(()) };
        if let Some(process) = &self.nodes[owner].process {
            process.partition.check();
            let facts = process.partition.engine().facts();
            invariant::s15_replay::same("the last state", &facts, &self.ledger.standby.facts())?;
            let retained = process.partition.totals().retained;
            self.rare.hit_if(retained >= self.plan.limits.retained_max, Rare::RetainedOverflow);
        }
        self.end_process(owner, End::Killed);
        self.owned_until_us = 0;
        self.start(owner)
    }
}
