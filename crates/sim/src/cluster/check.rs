//! Invariants of nodes at every step, and of everything once the world has come to rest.

use leasehold_cluster::{Bulletin, Message, Node, targets};
use leasehold_engine::{Command, Effect};
use leasehold_journal::{Denial, Happened, Position};

use super::ClusterWorld;
use super::client::CallState;
use crate::ledger::EntryState;
use crate::ledger::invariant::{Check, ensure, s15_replay};

impl ClusterWorld {
    /// An ask for a claim that its owner knows was let in before: no bound stops it.
    pub(super) fn check_turned_away(&mut self, from: usize, to: usize, message: &Message) -> Check {
        match message {
            Message::Ask { ask, partition, request, .. } => {
                if let Command::Acquire(acquire) = &request.command {
                    self.asked.insert((from, *ask), (*partition, acquire.id));
                }
                Ok(())
            }
            Message::Answer { ask, answer, .. } => {
                let Some((partition, claim)) = self.asked.get(&(to, *ask)).copied() else { return Ok(()) };
                let owned = self.machines[from].node.as_ref().and_then(|node| node.owned(partition));
                let is_known = owned.is_some_and(|owned| owned.engine().is_known(claim));
                let is_turned_away = answer.answer == Err(Denial::Overloaded);
                ensure(!(is_known && is_turned_away), "S12", || format!("{claim:?} is known, and was turned away"))
            }
            _ => Ok(()),
        }
    }

    /// C8: an ask comes from the node that stands for its caller.
    pub(super) fn check_message(&mut self, from: usize, message: &Message) -> Check {
        let Message::Ask { request, sending, .. } = message else { return Ok(()) };
        self.counts.asks += 1;
        self.counts.asked_again += u64::from(*sending > 1);
        self.counts.hand_backs += u64::from(matches!(request.command, Command::HandBack { .. }));
        let Command::Acquire(acquire) = &request.command else { return Ok(()) };
        let is_its = |call: &super::Call| call.claim() == Some(acquire.id) && call.machine == from;
        let is_known = self.calls.values().rev().any(is_its) || !self.asks.acquisitions.contains(&acquire.id);
        ensure(is_known, "C8", || format!("m{from} passed an ask on: {:?}", acquire.id))
    }

    /// C7, and what an owner has.
    pub(super) fn check_node(&mut self, n: usize) -> Check {
        let Some(node) = self.machines[n].node.as_ref().filter(|node| self.knows_of_loss(node)) else { return Ok(()) };
        for partition in self.plan.partitions.all() {
            let ledger = &self.ledgers[partition as usize];
            if let Some(follower) = node.follower(partition) {
                let head = follower.head().0;
                ensure(head <= ledger.head, "C7", || format!("a follower is at {head}, {} is durable", ledger.head))?;
                if head == ledger.head && head > 0 && self.counts.steps.is_multiple_of(64) {
                    s15_replay::same("a follower", &follower.engine().facts(), &ledger.standby.facts())?;
                }
            }
            if let Some(owned) = node.owned(partition) {
                self.counts.orphans += u64::from(owned.has_orphans());
                if owned.epoch().0 == ledger.epoch {
                    let durable = owned.durable().0;
                    ensure(durable <= ledger.head, "C1", || {
                        format!("{durable} is durable, the store has {}", ledger.head)
                    })?;
                }
                if self.counts.steps.is_multiple_of(64) {
                    owned.check();
                }
            }
        }
        Ok(())
    }

    /// C7 for observers: every node tells them of durable changes, in order, once, and all nodes of the same ones.
    pub(super) fn hear_news(&mut self, n: usize, news: &Bulletin) -> Check {
        let (partition, head) = (news.partition, self.ledgers[news.partition as usize].head);
        if self.counts.went_back > 0 {
            let knows = self.machines[n].node.as_ref().is_some_and(|node| self.knows_of_loss(node));
            if news.gap == Some(Position::START) {
                self.machines[n].told.insert(partition, Position::START);
            }
            if !knows {
                // It may tell of what was lost.
                return Ok(());
            }
        }
        let told = self.machines[n].told.entry(partition).or_default();
        *told = (*told).max(news.gap.unwrap_or_default());
        for happened in &news.happened {
            let Position(position) = happened.position;
            ensure(happened.position > *told, "C7", || format!("observers are told of {position} again or too late"))?;
            ensure(position <= head, "C7", || format!("observers are told of {position}, only {head} is durable"))?;
            *told = happened.position;
            self.counts.told += 1;
            // Its place in its step is the owner's alone to know.
            let effect = Effect { nth: 0, ..happened.effect.clone() };
            let happened = Happened { effect, ..happened.clone() };
            let first = self.told.entry((partition, position)).or_insert_with(|| happened.clone());
            ensure(*first == happened, "C7", || {
                format!("observers are told of {position} in two ways: {first:?}, {happened:?}")
            })?;
        }
        Ok(())
    }

    /// All faults are over, and some time has passed.
    pub(super) fn check_rest(&mut self) -> Check {
        let Ok(map) = self.shelf.map() else { return Ok(()) };
        for (n, machine) in self.machines.iter().enumerate() {
            let is_alive = machine.node.as_ref().and_then(Node::life).is_some_and(|life| map.is_alive(life));
            ensure(is_alive, "L6", || format!("m{n} is not a node of the cluster though all faults are over"))?;
            let open = machine.node.as_ref().map_or(0, Node::open_calls);
            ensure(open == 0, "L6", || format!("m{n} has {open} calls or hand-backs without an answer"))?;
        }
        ensure(map.nodes.len() == self.machines.len(), "L6", || {
            format!("{} nodes are recorded, {} live", map.nodes.len(), self.machines.len())
        })?;
        let living: Vec<_> = map.living().map(|record| record.node).collect();
        let targets = targets(self.plan.partitions, &living);
        for partition in self.plan.partitions.all() {
            let owner = map.owners[partition as usize].value.node;
            ensure(owner == targets[partition as usize], "L6", || {
                format!("partition {partition} is not where it belongs")
            })?;
            let serves = |node: &&Node| node.is_serving(partition);
            let serving = self.machines.iter().filter_map(|machine| machine.node.as_ref()).filter(serves).count();
            ensure(serving == 1, "L6", || format!("{serving} nodes serve partition {partition}"))?;
            let ledger = &self.ledgers[partition as usize];
            for node in self.machines.iter().filter_map(|machine| machine.node.as_ref()) {
                let engine = match (node.owned(partition), node.follower(partition)) {
                    (Some(owned), _) => owned.engine(),
                    (None, Some(follower)) => follower.engine(),
                    (None, None) => continue,
                };
                s15_replay::same("a node at rest", &engine.facts(), &ledger.standby.facts())?;
            }
        }
        self.check_jumps(&map)?;
        self.check_calls()
    }

    /// No claim is left of a caller that gave up, or was told that it got nothing.
    fn check_calls(&self) -> Check {
        for (id, call) in &self.calls {
            ensure(call.state != CallState::Open, "L6", || format!("call {id} has no answer: {:?}", call.command))?;
            let Some(claim) = call.claim() else { continue };
            let entry = self.ledgers[call.partition as usize].claims.get(&claim);
            let Some(entry) = entry.filter(|entry| entry.ended.is_none() && !entry.seen) else { continue };
            let is_same = self.machines[call.machine].boot == call.boot;
            let is_left = match call.state {
                CallState::GivenUp => is_same && entry.state != EntryState::Lapsed,
                // Its node died as well: a waiter leaves, a slot is held until its ttl.
                CallState::Dead => {
                    entry.state == EntryState::Waiting && entry.wait_until != leasehold_engine::Time::NEVER
                }
                CallState::Open | CallState::Answered => false,
            };
            ensure(!is_left, "S14", || {
                format!("the caller of {claim:?} is gone ({:?}), it is {:?}", call.state, entry.state)
            })?;
        }
        Ok(())
    }
}
