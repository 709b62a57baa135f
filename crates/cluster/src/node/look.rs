//! Decisions of a node from the map: which nodes it suspects and buries, which partitions it takes and which it lets
//! go, and where calls are sent. Clocks only say when to try; the store compares, so a wrong guess costs a pause.

use leasehold_engine::planted;
use leasehold_journal::Clocks;

use super::seat::Phase;
use super::{HERE, Node};
use crate::ids::{NodeId, Peer};
use crate::map::{Map, NodeRecord, Reign, Seen};
use crate::message::{Op, PeerAddress};
use crate::placement;
use crate::relay::Route;
use crate::store::Taking;

/// Between two burials by nodes in line.
const BURY_STEP_US: u64 = 300_000;
/// Between two takings by nodes in line.
const TAKE_STEP_US: u64 = 500_000;
/// Between two partitions that a node gives away.
const MOVE_EVERY_US: u64 = 200_000;
/// Partitions that are taken at a time.
const TAKES_MAX: usize = 4;

/// The signs of life that this node has seen of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    beat: u64,
    /// How long it has been silent, on our clock, while our own beats succeeded.
    silent_us: u64,
    /// Since when it has been there; zero at our own first look.
    since_us: u64,
    buried_since_us: Option<u64>,
}

impl Node {
    pub(super) fn look(&mut self, clocks: Clocks, map: Map) {
        let Some(life) = self.life else { return };
        let is_first = self.looked_at_us.is_none();
        let passed_us = self.looked_at_us.map_or(0, |at| clocks.mono_us.saturating_sub(at));
        self.looked_at_us = Some(clocks.mono_us);
        self.look_back(clocks, &map);
        let is_alive = map.is_alive(life);
        self.map = Some(map);
        if !is_alive {
            self.die(clocks);
            return;
        }
        self.watch(clocks, passed_us, is_first);
        self.note_moves(clocks);
        self.agree(clocks, is_first);
        self.bury_silent(clocks);
        self.take_free(clocks);
        self.give_away(clocks);
        self.reroute(clocks);
    }

    fn watch(&mut self, clocks: Clocks, passed_us: u64, is_first: bool) {
        let Some(map) = &self.map else { return };
        // When the store was away for us, others were silent because of that.
        let is_heard = clocks.mono_us.saturating_sub(self.beaten_at_us) < self.config.beat_us * 3 / 2;
        let charged_us = passed_us.min(self.config.look_us * 2);
        for Seen { value, .. } in &map.nodes {
            let since_us = if is_first { 0 } else { clocks.mono_us };
            let fresh = Watched { beat: value.beat, silent_us: 0, since_us, buried_since_us: None };
            let watched = self.watched.entry(value.node).or_insert(fresh);
            if watched.beat != value.beat {
                (watched.beat, watched.silent_us) = (value.beat, 0);
            } else if planted!(SuspectedInOutage) {
                watched.silent_us += passed_us;
            } else if is_heard {
                watched.silent_us += charged_us;
            }
            if value.is_buried {
                watched.buried_since_us.get_or_insert(clocks.mono_us);
            }
        }
        let nodes = &map.nodes;
        self.watched.retain(|node, _| nodes.iter().any(|seen| seen.value.node == *node));
    }

    /// How long this node has not seen a new beat of another, as far as it counted.
    pub fn silent_us(&self, node: NodeId) -> u64 {
        self.watched.get(&node).map_or(0, |watched| watched.silent_us)
    }

    fn note_moves(&mut self, clocks: Clocks) {
        let Some(map) = &self.map else { return };
        let watched = &self.watched;
        self.moves.look(clocks, map, |node| watched.get(&node).map_or(0, |watched| watched.silent_us));
    }

    fn bury_silent(&mut self, clocks: Clocks) {
        let (Some(map), Some(life)) = (&self.map, self.life) else { return };
        let living: Vec<NodeId> = map.living().map(|record| record.node).collect();
        let mut ops = Vec::new();
        for seen in &map.nodes {
            let node = seen.value.node;
            let Some(watched) = self.watched.get(&node).filter(|_| node != life) else { continue };
            let others: Vec<NodeId> = living.iter().copied().filter(|other| *other != node).collect();
            let place = placement::rank(node.0, &others, life);
            if !seen.value.is_buried {
                // A process that died has lost its links as well, and need not be waited for as long: one beat has
                // to be half a beat late.
                let is_lost = self.peers.is_lost(&seen.value.address);
                let ttl_us = if is_lost { self.config.node_ttl_us / 2 } else { self.config.node_ttl_us };
                if watched.silent_us >= ttl_us + place * BURY_STEP_US {
                    ops.push(Op::Bury(seen.clone()));
                }
            } else if watched.buried_since_us.is_some_and(|at| clocks.mono_us >= at + self.config.forget_us)
                && !map.owners.iter().any(|owner| owner.value.node == Some(node))
                && map.owners.iter().all(|owner| owner.value.epoch >= seen.value.epoch_floor)
                && place == 0
            {
                ops.push(Op::Forget(seen.clone()));
            }
        }
        for op in ops {
            self.ask_store(op);
        }
    }

    /// Nodes that partitions may be with.
    fn settled(&self, clocks: Clocks) -> Vec<NodeId> {
        let Some(map) = &self.map else { return Vec::new() };
        let is_settled = |record: &&NodeRecord| {
            let since_us = self.watched.get(&record.node).map_or(0, |watched| watched.since_us);
            since_us == 0 || clocks.mono_us >= since_us + self.config.settle_us
        };
        // This node knows that it drains before the store shows it.
        let drains = |record: &NodeRecord| record.is_draining || (self.is_draining && self.life == Some(record.node));
        let is_free = |record: &&NodeRecord| !drains(record) && !map.drained.contains(&record.node);
        let free: Vec<NodeId> = map.living().filter(is_free).filter(is_settled).map(|record| record.node).collect();
        if free.is_empty() { map.living().filter(is_free).map(|record| record.node).collect() } else { free }
    }

    pub(super) fn target_of(&self, partition: u32) -> Option<NodeId> {
        let map = self.map.as_ref()?;
        let at = self.looked_at_us.unwrap_or_default();
        let nodes = self.settled(Clocks { mono_us: at, ..Clocks::default() });
        placement::targets(map.meta.partitions, &nodes).get(partition as usize).copied().flatten()
    }

    fn take_free(&mut self, clocks: Clocks) {
        let (Some(life), false) = (self.life, self.is_draining) else { return };
        let nodes = self.settled(clocks);
        let Some(map) = &self.map else { return };
        let targets = placement::targets(map.meta.partitions, &nodes);
        let mut takings = Vec::new();
        let mut adopted = Vec::new();
        for (n, seen) in map.owners.iter().enumerate() {
            let seat = &mut self.seats[n];
            if seat.phase != Phase::Following || seat.is_op_open {
                continue;
            }
            let is_free = seen.value.node.is_none_or(|node| !map.is_alive(node));
            if seen.value.node == Some(life) {
                // A taking of ours that was not heard.
                adopted.push((n, Reign { partition: seat.partition, owner: seen.value, version: seen.version }));
            }
            if !is_free && !planted!(TakenWithoutBurial) {
                seat.free_since_us = None;
                continue;
            }
            let since_us = *seat.free_since_us.get_or_insert(clocks.mono_us);
            let place = match targets[n] {
                Some(target) if target == life => 0,
                _ => 1 + placement::rank(n as u128, &nodes, life),
            };
            if takings.len() < TAKES_MAX && clocks.mono_us >= since_us + place * TAKE_STEP_US {
                seat.is_op_open = true;
                let taking = taking(map, seat.partition, seen, life);
                let floor = if planted!(FloorForgotten) { taking.epoch } else { self.floor };
                takings.push(Taking { epoch: taking.epoch.max(floor), ..taking });
            }
        }
        for (n, reign) in adopted {
            if reign.epoch() >= self.floor {
                self.adopt(clocks, n, reign);
            } else if self.floor_told >= self.floor {
                // The next taker finds the floor in the store.
                self.give_up_past(n, reign);
            }
        }
        for taking in takings {
            self.ask_store(Op::Take(taking));
        }
    }

    /// Goes on under a reign that the store says is ours, after reading the stream again.
    pub(super) fn adopt(&mut self, clocks: Clocks, n: usize, reign: Reign) {
        let seat = &mut self.seats[n];
        seat.reign = Some(reign);
        seat.phase = Phase::Tail;
        self.follow(clocks, n);
    }

    fn give_away(&mut self, clocks: Clocks) {
        let Some(life) = self.life else { return };
        let nodes = self.settled(clocks);
        let Some(map) = &self.map else { return };
        let targets = placement::targets(map.meta.partitions, &nodes);
        let is_drained = self.is_draining || map.drained.contains(&life);
        for (n, target) in targets.into_iter().enumerate() {
            let is_elsewhere = target.is_some_and(|target| target != life) || is_drained;
            if self.seats[n].phase != Phase::Serving || !is_elsewhere {
                continue;
            }
            if clocks.mono_us < self.moved_at_us + MOVE_EVERY_US && !is_drained {
                break;
            }
            self.moved_at_us = clocks.mono_us;
            self.close(clocks, n);
            if !is_drained {
                break;
            }
        }
    }

    /// Tells the relay which way each partition is asked by: after a look at the map, and when a link came or went.
    pub(super) fn reroute(&mut self, clocks: Clocks) {
        for n in 0..self.seats.len() {
            let partition = self.seats[n].partition;
            let route = self.find_route(partition);
            if self.relay.route(clocks.mono_us, partition, route) {
                self.unsaid.insert(partition);
            }
        }
    }

    fn find_route(&mut self, partition: u32) -> Option<Route> {
        let map = self.map.as_ref()?;
        let owner = map.owners.get(partition as usize)?.value;
        let record = &map.node(owner.node?).filter(|seen| !seen.value.is_buried)?.value;
        let address: PeerAddress = record.address.as_str().into();
        let to = self.peers.number(&address);
        let link = if to == Peer::ME { Some(HERE) } else { self.peers.link(to) };
        Some(Route { to, epoch: owner.epoch, link })
    }
}

/// The taking of a free partition, with the latest service time that is known of it.
fn taking(map: &Map, partition: u32, seen: &Seen<crate::map::Owner>, node: NodeId) -> Taking {
    let dead = seen.value.node.and_then(|node| map.node(node).cloned());
    let mark = dead.as_ref().and_then(|dead| {
        if planted!(MarkOfAnotherEpoch) {
            return dead.value.marks.iter().map(|mark| mark.at).max();
        }
        dead.value.mark_of(partition, seen.value.epoch)
    });
    let mark = mark.filter(|_| !planted!(TimeOfTakeLost)).unwrap_or_default();
    let (epoch, at) = (seen.value.epoch.next(), seen.value.at.max(mark));
    Taking { partition, seen: seen.clone(), dead, node, epoch, at }
}
