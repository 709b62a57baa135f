//! Instants that a world of the simulation meets once in thousands: nodes in a time of their own, whose calls to the
//! store the test carries out when it likes.

use std::collections::BTreeMap;

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{
    CheckpointId, Config, Done, Draw, Message, Node, NodeId, Op, Out, PeerAddress, Reign, SharedError,
};
use leasehold_engine::Wall;
use leasehold_journal::Clocks;

use super::common;

const NODE_TTL_US: u64 = 60_000_000;
const TICK_US: u64 = 10_000;
const LINK: u64 = 1;

/// Nodes on one shelf, with one partition.
struct Stage {
    shelf: Shelf,
    lives: BTreeMap<NodeId, Life>,
    nodes: Vec<Node>,
    now_us: u64,
    /// Calls to the store like this are held back, for the test to carry out.
    is_held: fn(&Op) -> bool,
    held: Vec<(usize, u64, Op)>,
    sent: Vec<(usize, PeerAddress, Message)>,
    answers: usize,
    went_back: usize,
    has_ended: bool,
    /// Nodes that are added get links to the others.
    has_links: bool,
    is_stopped: Vec<bool>,
}

impl Stage {
    fn new(nodes: usize, look_us: u64) -> Stage {
        let mut stage = Stage {
            shelf: Shelf::default(),
            lives: BTreeMap::new(),
            nodes: Vec::new(),
            now_us: 1_000_000,
            is_held: |_| false,
            held: Vec::new(),
            sent: Vec::new(),
            answers: 0,
            went_back: 0,
            has_ended: false,
            has_links: true,
            is_stopped: Vec::new(),
        };
        for number in 0..nodes {
            stage.add(number, look_us);
            stage.pass(2_000_000);
        }
        stage
    }

    fn add(&mut self, number: usize, look_us: u64) {
        let config = Config { look_us, node_ttl_us: NODE_TTL_US, ..common::config(address(number), 1) };
        let mut drawn = 1_000 * (number as u128 + 1);
        let draw = Draw(Box::new(move || {
            drawn += 1;
            drawn
        }));
        self.nodes.push(Node::new(config, draw));
        self.is_stopped.push(false);
        for other in (0..number).filter(|_| self.has_links).collect::<Vec<_>>() {
            self.drive(number, |node, clocks| node.handle_link(clocks, &address(other), Some(LINK)));
            self.drive(other, |node, clocks| node.handle_link(clocks, &address(number), Some(LINK)));
        }
    }

    fn pass(&mut self, us: u64) {
        let end_us = self.now_us + us;
        while self.now_us < end_us {
            self.now_us += TICK_US;
            for n in (0..self.nodes.len()).filter(|n| !self.is_stopped[*n]).collect::<Vec<_>>() {
                self.drive(n, Node::tick);
            }
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        while !self.sent.is_empty() {
            for (from, to, message) in std::mem::take(&mut self.sent) {
                let to = (0..self.nodes.len()).find(|n| address(*n) == to).expect("one of these nodes");
                if !self.is_stopped[to] {
                    self.drive(to, |node, clocks| node.handle_message(clocks, &address(from), LINK, message));
                }
            }
        }
    }

    fn drive(&mut self, n: usize, act: impl FnOnce(&mut Node, Clocks)) {
        let clocks = Clocks { mono_us: self.now_us, wall: Wall(self.now_us) };
        act(&mut self.nodes[n], clocks);
        while let Some(out) = self.nodes[n].poll() {
            match out {
                Out::Store(op, asked) if (self.is_held)(&asked) => self.held.push((n, op, asked)),
                Out::Store(op, asked) => {
                    let result = asked.apply(&mut self.shelf, &mut self.lives, self.nodes[n].life());
                    self.nodes[n].handle_store(clocks, op, result);
                }
                Out::Send(to, message) => self.sent.push((n, to, message)),
                Out::Answer(_, answer) => {
                    assert!(answer.answer.is_ok(), "{:?}", answer.answer);
                    self.answers += 1;
                }
                Out::WentBack { .. } => self.went_back += 1,
                Out::Ended => self.has_ended = true,
                Out::Happened(_) => {}
            }
        }
    }

    /// A call that was held back is carried out, or not, and its node hears of it.
    fn hear(&mut self, held: usize, result: impl FnOnce(&Op, &mut Shelf) -> Result<Done, SharedError>) {
        let (n, op, asked) = self.held.remove(held);
        let result = result(&asked, &mut self.shelf);
        self.drive(n, |node, clocks| node.handle_store(clocks, op, result));
    }

    fn call(&mut self, n: usize, caller: u64) {
        let asked = common::lock(&format!("lock-{caller}"), caller);
        self.drive(n, |node, clocks| node.call(clocks, caller, 0, asked.into()));
        self.deliver();
    }

    fn reign(&self) -> Reign {
        let owner = self.shelf.map().unwrap().owners[0].clone();
        Reign { partition: 0, owner: owner.value, version: owner.version }
    }
}

fn address(number: usize) -> PeerAddress {
    format!("m{number}").into()
}

#[test]
fn a_draining_node_that_alone_knows_of_a_lost_past_tells_before_it_ends() {
    let mut stage = Stage::new(1, 200_000);
    let past = stage.shelf.clone();
    stage.call(0, 1);
    stage.pass(3_000_000);
    assert_eq!(stage.answers, 1);
    stage.shelf = past;
    // The store goes back; the beat that would tell of it does not come through for a while, and all else does.
    stage.is_held = |op| matches!(op, Op::Beat(_));
    stage.drive(0, Node::drain);
    stage.pass(3_000_000);
    assert!(stage.went_back > 0, "it has noticed");
    for _ in 0..3 {
        assert!(!stage.has_ended, "it ended and has not told");
        stage.hear(0, |_, _| Err(SharedError::Away("late".to_owned())));
        stage.pass(3_000_000);
    }
    stage.is_held = |_| false;
    stage.hear(0, |_, _| Err(SharedError::Away("late".to_owned())));
    stage.pass(5_000_000);
    assert!(stage.has_ended, "what it knew is told");
    let (told, known) = (stage.shelf.map().unwrap().epoch_floor(), stage.nodes[0].epoch_floor());
    assert!(told >= known && told.0 > 0, "the store says {told}, the node knew {known}");
}

#[test]
fn a_newest_batch_that_is_read_beside_an_append_is_not_missed() {
    let mut stage = Stage::new(1, 200_000);
    stage.call(0, 1);
    stage.pass(100_000);
    let reign = stage.reign();
    let before = stage.shelf.head(0);
    // The read of its newest batch is under way when the next one lands, unheard, and a checkpoint sweeps the one
    // before.
    stage.is_held = |op| matches!(op, Op::Read(..) | Op::Append(_));
    while stage.held.is_empty() {
        stage.pass(TICK_US);
    }
    assert!(matches!(stage.held[0].2, Op::Read(..)), "{:?}", stage.held[0]);
    stage.call(0, 2);
    stage.pass(100_000);
    let (_, _, append) = stage.held.iter().find(|(.., op)| matches!(op, Op::Append(_))).cloned().expect("an append");
    append.apply(&mut stage.shelf, &mut stage.lives, None).unwrap();
    let id = CheckpointId { epoch: reign.epoch(), upto: before };
    stage.shelf.put_chunk(&reign, id, 0, vec![1]).unwrap();
    stage.shelf.finish_checkpoint(&reign, id, 1).unwrap();
    while stage.shelf.sweep(&reign).unwrap() {}
    assert!(stage.shelf.batches(0).all(|batch| batch.last > before), "the batch that is looked for is swept");
    let read = stage.held.iter().position(|(.., op)| matches!(op, Op::Read(..))).expect("a read");
    stage.hear(read, |op, shelf| op.apply(shelf, &mut BTreeMap::new(), None));
    assert_eq!(stage.went_back, 0, "a later batch is there");
    // The append that was not heard of is sent again, and its caller is answered.
    stage.is_held = |_| false;
    while !stage.held.is_empty() {
        stage.hear(0, |_, _| Err(SharedError::Away("unheard".to_owned())));
    }
    stage.pass(3_000_000);
    assert_eq!((stage.answers, stage.went_back), (2, 0));
}

#[test]
fn a_partition_of_a_node_that_ends_is_served_and_known_elsewhere_at_once() {
    // Nodes that look at the store every twenty seconds, unless they are told to.
    let mut stage = Stage::new(3, 20_000_000);
    stage.pass(60_000_000);
    let owner = (0..3).find(|n| stage.nodes[*n].is_serving(0)).expect("one serves");
    stage.drive(owner, Node::drain);
    stage.deliver();
    let began_us = stage.now_us;
    let next = loop {
        stage.pass(TICK_US);
        assert!(stage.now_us < began_us + 100_000, "the next owner serves by now");
        if let Some(next) = (0..3).find(|n| *n != owner && stage.nodes[*n].is_serving(0)) {
            break next;
        }
    };
    let life = stage.nodes[next].life();
    stage.pass(200_000);
    let other = 3 - owner - next;
    let known = stage.nodes[other].map().unwrap().owners[0].value.node;
    assert_eq!(known, life, "node {other} does not know that node {next} serves");
}

/// How long the others wait for a node that says nothing any more, from its last beat.
fn silent_for_us(stage: &mut Stage, silent: usize) -> u64 {
    let life = stage.nodes[silent].life().unwrap();
    stage.is_stopped[silent] = true;
    let since_us = stage.now_us;
    while stage.shelf.map().unwrap().is_alive(life) {
        stage.pass(TICK_US);
        assert!(stage.now_us < since_us + 2 * NODE_TTL_US, "it is never buried");
    }
    stage.now_us - since_us
}

#[test]
fn a_node_whose_links_are_lost_is_waited_for_half_as_long() {
    // A beat before, and the other in line after it.
    let (least_us, most_us) = (NODE_TTL_US - 2_000_000, NODE_TTL_US + 2_000_000);
    let mut linked = Stage::new(2, 200_000);
    let took_us = silent_for_us(&mut linked, 1);
    assert!((least_us..most_us).contains(&took_us), "with a link: {took_us} us");

    let mut lost = Stage::new(2, 200_000);
    lost.drive(0, |node, clocks| node.handle_link(clocks, &address(1), None));
    let took_us = silent_for_us(&mut lost, 1);
    assert!((least_us / 2..most_us / 2).contains(&took_us), "with a link that is lost: {took_us} us");

    // An address that never led anywhere says nothing of its node.
    let mut never = Stage::new(1, 200_000);
    never.has_links = false;
    never.add(1, 200_000);
    never.pass(2_000_000);
    let took_us = silent_for_us(&mut never, 1);
    assert!((least_us..most_us).contains(&took_us), "without a link: {took_us} us");
}
