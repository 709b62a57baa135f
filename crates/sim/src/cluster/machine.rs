//! Machines and links: they start, die, stop, are paused with their clock, break, stall, go one way.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_cluster::{AskAnswer, Birth, Config, Draw, Message, Node, Out, PeerAddress};
use leasehold_engine::Wall;
use leasehold_journal::{Clocks, Position};

use super::{ClusterWorld, Event, limits, partition_limits, tell};
use crate::Violation;
use crate::rng::Rng;

/// How often a node is driven.
const TICK_US: u64 = 25_000;

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) address: PeerAddress,
    pub(super) node: Option<Node>,
    /// Counts its starts: what belongs to an earlier one does not arrive.
    pub(super) boot: u64,
    /// It does nothing until then.
    pub(super) paused_until_us: u64,
    /// How far its clock is behind the world's.
    pub(super) behind_us: u64,
    /// Cut from the store until then.
    pub(super) cut_until_us: u64,
    pub(super) is_draining: bool,
    /// How far it has told its observers, by partition, since its start.
    pub(super) told: BTreeMap<u32, Position>,
    /// The number of the newest link that this process was told of, for each peer.
    links: Vec<u64>,
}

impl Machine {
    pub(super) fn new(n: usize) -> Self {
        Machine {
            address: format!("m{n}").into(),
            node: None,
            boot: 0,
            paused_until_us: 0,
            behind_us: 0,
            cut_until_us: 0,
            is_draining: false,
            told: BTreeMap::new(),
            links: Vec::new(),
        }
    }
}

/// The link between two machines.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) ends: (usize, usize),
    pub(super) number: u64,
    pub(super) is_up: bool,
    /// For each direction: nothing arrives before.
    pub(super) stalled_until_us: [u64; 2],
    pub(super) last_us: [u64; 2],
}

pub(super) fn pairs(machines: usize) -> Vec<Pair> {
    let ends = (0..machines).flat_map(|a| (a + 1..machines).map(move |b| (a, b)));
    ends.map(|ends| Pair { ends, number: 1, is_up: false, stalled_until_us: [0; 2], last_us: [0; 2] }).collect()
}

impl ClusterWorld {
    pub(super) fn clocks(&self, machine: usize) -> Clocks {
        // The wall clock is right in this world, so that changes carry the instant of their decision.
        Clocks { mono_us: self.now_us - self.machines[machine].behind_us, wall: Wall(self.now_us) }
    }

    pub(super) fn start(&mut self, n: usize) -> Result<(), Violation> {
        if self.machines[n].node.is_some() {
            return Ok(());
        }
        if self.is_noticing() {
            // A node that starts knows nothing of what was lost, and may serve before those that know have noticed:
            // operators are told not to start any in that second.
            let at_us = self.noticed_us();
            self.at(at_us, Event::Start { machine: n });
            return Ok(());
        }
        let mut ids = Rng::new(self.rng.next_u64(), 7);
        let draw = Draw(Box::new(move || u128::from(ids.next_u64()) << 64 | u128::from(ids.next_u64())));
        let config = Config {
            address: Arc::clone(&self.machines[n].address),
            birth: Birth {
                partitions: Some(self.plan.partitions),
                format: leasehold_cluster::format::FORMAT,
                secret: [1; 32],
            },
            limits: limits(),
            partition_limits: partition_limits(&self.plan),
            node_ttl_us: 2_000_000,
            settle_us: 1_000_000,
            beat_us: 500_000,
            look_us: 150_000,
            checkpoint_every: self.plan.checkpoint_every,
            forget_us: 1_000_000,
        };
        let machine = &mut self.machines[n];
        machine.boot += 1;
        machine.is_draining = false;
        machine.told.clear();
        machine.links = vec![0; self.plan.machines];
        machine.node = Some(Node::new(config, draw));
        let boot = machine.boot;
        tell!(self, "m{n} starts");
        for pair in 0..self.pairs.len() {
            let (a, b) = self.pairs[pair].ends;
            if a == n || b == n {
                self.pairs[pair].is_up = false;
                let at_us = self.now_us + 1_000;
                self.at(at_us, Event::Mend { pair });
            }
        }
        self.tick(n, boot)
    }

    pub(super) fn tick(&mut self, n: usize, boot: u64) -> Result<(), Violation> {
        if self.machines[n].boot != boot || self.machines[n].node.is_none() {
            return Ok(());
        }
        let at_us = (self.now_us + TICK_US).max(self.machines[n].paused_until_us);
        self.at(at_us, Event::Tick { machine: n, boot });
        if self.now_us >= self.machines[n].paused_until_us {
            self.drive(n, Node::tick)?;
            self.check_node(n)?;
        }
        Ok(())
    }

    pub(super) fn wake(&mut self, n: usize, boot: u64) -> Result<(), Violation> {
        let machine = &self.machines[n];
        if machine.boot != boot || machine.node.is_none() || self.now_us < machine.paused_until_us {
            return Ok(());
        }
        self.drive(n, Node::wake)
    }

    /// Does something with a node, and carries out what it wants.
    pub(super) fn drive(&mut self, n: usize, act: impl FnOnce(&mut Node, Clocks)) -> Result<(), Violation> {
        let clocks = self.clocks(n);
        let Some(mut node) = self.machines[n].node.take() else { return Ok(()) };
        act(&mut node, clocks);
        let mut wants = Vec::new();
        while let Some(out) = node.poll() {
            wants.push(out);
        }
        let wake_us = node.gathers_until_us();
        self.machines[n].node = Some(node);
        if let Some(until_us) = wake_us {
            let (at_us, boot) = (until_us + self.machines[n].behind_us, self.machines[n].boot);
            self.at(at_us, Event::Wake { machine: n, boot });
        }
        for out in wants {
            match out {
                Out::Store(op, asked) => {
                    self.check_letting_go(n, &asked)?;
                    self.ask_store(n, op, asked);
                }
                Out::Send(to, message) => self.send(n, &to, message)?,
                Out::Answer(call, answer) => self.answer(n, call, answer)?,
                Out::Happened(news) => self.hear_news(n, &news)?,
                Out::WentBack { what, epoch } => self.noticed(n, &what, epoch)?,
                Out::Ended => {
                    tell!(self, "m{n} ended in an orderly way");
                    self.machines[n].node = None;
                    self.lose_machine(n);
                    let at_us = self.now_us + self.rng.range(200_000, 2_000_000);
                    self.at(at_us, Event::Start { machine: n });
                    break;
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: &PeerAddress, message: Message) -> Result<(), Violation> {
        let Some(to) = self.machines.iter().position(|machine| machine.address == *to) else { return Ok(()) };
        self.check_message(from, &message)?;
        self.check_turned_away(from, to, &message)?;
        let Some(pair) = self.pairs.iter().position(|pair| pair.ends == (from.min(to), from.max(to))) else {
            return Ok(());
        };
        if !self.pairs[pair].is_up {
            return Ok(());
        }
        let way = usize::from(from > to);
        let late_us = self.rng.range(100, 900);
        let pair = &mut self.pairs[pair];
        let at_us = (self.now_us + late_us).max(pair.last_us[way]).max(pair.stalled_until_us[way]);
        pair.last_us[way] = at_us;
        let link = pair.number;
        let boots = (self.machines[from].boot, self.machines[to].boot);
        self.at(at_us, Event::Deliver { from, to, boots, link, message: Box::new(message) });
        Ok(())
    }

    pub(super) fn deliver(
        &mut self,
        from: usize,
        to: usize,
        boots: (u64, u64),
        link: u64,
        message: Message,
    ) -> Result<(), Violation> {
        if self.machines[to].boot != boots.1 || self.machines[to].node.is_none() {
            return Ok(());
        }
        if self.now_us < self.machines[to].paused_until_us {
            let at_us = self.machines[to].paused_until_us;
            self.at(at_us, Event::Deliver { from, to, boots, link, message: Box::new(message) });
            return Ok(());
        }
        tell!(self, "m{from} -> m{to} #{link}: {message:?}");
        let peer = Arc::clone(&self.machines[from].address);
        self.drive(to, |node, clocks| node.handle_message(clocks, &peer, link, message))
    }

    pub(super) fn link(&mut self, of: usize, peer: usize, number: u64, is_up: bool) -> Result<(), Violation> {
        if self.now_us < self.machines[of].paused_until_us {
            let at_us = self.machines[of].paused_until_us;
            self.at(at_us, Event::Link { of, peer, number, is_up });
            return Ok(());
        }
        // The end of a link is not news once a later one is there.
        let Some(newest) = self.machines[of].links.get_mut(peer).filter(|newest| **newest <= number) else {
            return Ok(());
        };
        *newest = number;
        let number = Some(number).filter(|_| is_up);
        let peer = Arc::clone(&self.machines[peer].address);
        self.drive(of, |node, clocks| node.handle_link(clocks, &peer, number))
    }

    /// The link breaks. Messages on their way arrive late, by the old link, or not at all.
    fn break_link(&mut self, pair: usize) {
        let (a, b) = self.pairs[pair].ends;
        if !self.pairs[pair].is_up {
            return;
        }
        self.counts.breaks += 1;
        self.pairs[pair].is_up = false;
        tell!(self, "link m{a} - m{b} breaks");
        let is_lost = self.strike_rng.chance(500);
        let is_here = |event: &Event| matches!(event, Event::Deliver { from, to, .. } if (*from.min(to), *from.max(to)) == (a, b));
        let under_way: Vec<_> = self.events.iter().filter(|(_, event)| is_here(event)).map(|(key, _)| *key).collect();
        for key in under_way {
            let Some(event) = self.events.remove(&key) else { continue };
            if !is_lost {
                let at_us = key.0 + self.strike_rng.range(0, 4_000_000);
                self.at(at_us, event);
            }
        }
        for (of, peer) in [(a, b), (b, a)] {
            let at_us = self.now_us + self.strike_rng.range(0, 300_000);
            let number = self.pairs[pair].number;
            self.at(at_us, Event::Link { of, peer, number, is_up: false });
        }
        let at_us = self.now_us + self.strike_rng.range(310_000, 4_000_000);
        self.at(at_us, Event::Mend { pair });
    }

    pub(super) fn mend(&mut self, pair: usize) {
        let (a, b) = self.pairs[pair].ends;
        if self.pairs[pair].is_up || self.machines[a].node.is_none() || self.machines[b].node.is_none() {
            return;
        }
        let pair = &mut self.pairs[pair];
        pair.is_up = true;
        pair.number += 1;
        pair.stalled_until_us = [0; 2];
        pair.last_us = [self.now_us + 2_000; 2];
        let number = pair.number;
        for (of, peer) in [(a, b), (b, a)] {
            let at_us = self.now_us + self.strike_rng.range(0, 1_000);
            self.at(at_us, Event::Link { of, peer, number, is_up: true });
        }
    }

    pub(super) fn resume(&mut self, n: usize, boot: u64) {
        if self.machines[n].boot == boot {
            tell!(self, "m{n} goes on");
            self.runs_out_again(n);
        }
    }

    /// A fault, and the next one.
    pub(super) fn strike(&mut self) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        let mean_us = 1_000_000_000 / self.plan.strikes;
        let at_us = self.now_us + self.strike_rng.range(mean_us / 3, mean_us * 5 / 3);
        self.at(at_us, Event::Strike);
        if self.is_noticing() {
            return Ok(());
        }
        let n = self.strike_rng.index(self.plan.machines);
        match self.strike_rng.below(10) {
            0 | 1 => self.kill(n),
            2 | 3 => self.pause(n, false),
            4 => self.pause(n, true),
            5 => {
                let pair = self.strike_rng.index(self.pairs.len());
                self.break_link(pair);
            }
            6 => {
                let (pair, way) = (self.strike_rng.index(self.pairs.len()), self.strike_rng.index(2));
                let for_us = self.strike_rng.range(200_000, 4_000_000);
                self.counts.stalls += 1;
                tell!(self, "link {pair} stalls one way for {for_us}");
                self.pairs[pair].stalled_until_us[way] = self.now_us + for_us;
                if for_us > 3_000_000 {
                    self.break_link(pair);
                }
            }
            7 => {
                let for_us = self.strike_rng.range(300_000, 5_000_000);
                self.counts.outages += 1;
                tell!(self, "the store is away for {for_us}");
                self.store_goes_away(for_us);
                self.stands_still(None, self.now_us, self.now_us + for_us);
            }
            8 => {
                let for_us = self.strike_rng.range(500_000, 5_000_000);
                tell!(self, "m{n} is cut from the store for {for_us}");
                self.machines[n].cut_until_us = self.machines[n].cut_until_us.max(self.now_us + for_us);
                self.stands_still(Some(n), self.now_us, self.now_us + for_us);
            }
            _ => {
                if self.machines[n].node.is_some() && self.now_us >= self.machines[n].paused_until_us {
                    self.counts.drains += 1;
                    self.machines[n].is_draining = true;
                    tell!(self, "m{n} is told to end");
                    self.drive(n, Node::drain)?;
                }
            }
        }
        Ok(())
    }

    fn kill(&mut self, n: usize) {
        if self.machines[n].node.take().is_none() {
            return;
        }
        self.counts.kills += 1;
        tell!(self, "m{n} is killed");
        self.lose_machine(n);
        let at_us = self.now_us + self.strike_rng.range(200_000, 5_000_000);
        self.at(at_us, Event::Start { machine: n });
    }

    /// Its process is gone: so are its links and its callers.
    fn lose_machine(&mut self, n: usize) {
        for pair in 0..self.pairs.len() {
            let (a, b) = self.pairs[pair].ends;
            if a == n || b == n {
                self.pairs[pair].is_up = false;
                let peer = if a == n { b } else { a };
                let at_us = self.now_us + self.strike_rng.range(0, 100_000);
                let number = self.pairs[pair].number;
                self.at(at_us, Event::Link { of: peer, peer: n, number, is_up: false });
            }
        }
        self.lose_callers(n);
        self.stands_still(Some(n), self.now_us, u64::MAX);
    }

    fn pause(&mut self, n: usize, with_clock: bool) {
        if self.machines[n].node.is_none() || self.now_us < self.machines[n].paused_until_us {
            return;
        }
        let for_us = self.strike_rng.range(100_000, 6_000_000);
        tell!(self, "m{n} is paused for {for_us}, clock {}", if with_clock { "as well" } else { "running" });
        if with_clock {
            self.counts.pauses += 1;
            self.machines[n].behind_us += for_us;
        } else {
            self.counts.stops += 1;
        }
        self.machines[n].paused_until_us = self.now_us + for_us;
        self.stands_still(Some(n), self.now_us, self.now_us + for_us);
        let boot = self.machines[n].boot;
        let at_us = self.now_us + for_us;
        self.at(at_us, Event::Resume { machine: n, boot });
    }

    pub(super) fn calm(&mut self) {
        tell!(self, "calm");
        self.is_calm = true;
        // Outages that have begun run out; callers that still wait leave in a while.
        for id in self.open_calls() {
            let at_us = self.now_us + 6_000_000 + id % 1_000;
            self.at(at_us, Event::Leave { call: id });
        }
    }

    /// The caller of a call that was answered is not there any more.
    pub(super) fn undelivered(&mut self, n: usize, partition: u32, answer: &AskAnswer) -> Result<(), Violation> {
        let Some(claim) = answer.untold else { return Ok(()) };
        self.counts.undelivered += 1;
        self.drive(n, |node, clocks| node.undelivered(clocks, partition, claim))
    }
}
