//! How many calls share a transaction: one node in a time of its own, with a store that takes a while, and callers that
//! ask again some time after their answers, as those of other nodes do.

use std::collections::BTreeMap;

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{Done, Draw, Node, NodeId, Op, Out, Partitions, SharedError};
use leasehold_engine::{Command, ResourceKey, Wall};
use leasehold_journal::Clocks;

use super::common;

const APPEND_US: u64 = 3_000;
const TICK_US: u64 = 10_000;
const MEASURED_US: u64 = 1_000_000;

enum Event {
    Tick,
    Wake,
    Ask(u64),
    Stored(u64, Result<Done, SharedError>),
}

struct Loop {
    node: Node,
    shelf: Shelf,
    lives: BTreeMap<NodeId, Life>,
    now_us: u64,
    seq: u64,
    events: BTreeMap<(u64, u64), Event>,
    /// How long each caller takes to ask again.
    back_us: fn(u64) -> u64,
    appends: u64,
    answers: u64,
}

impl Loop {
    fn new(back_us: fn(u64) -> u64) -> Loop {
        let config = common::config("m0".into(), 4);
        let node = Node::new(config, Draw(Box::new(|| 7)));
        let (shelf, events) = (Shelf::default(), BTreeMap::new());
        let mut it =
            Loop { node, shelf, lives: BTreeMap::new(), now_us: 0, seq: 0, events, back_us, appends: 0, answers: 0 };
        it.at(0, Event::Tick);
        it.run_until(2_000_000);
        assert!((0..4).all(|partition| it.node.is_serving(partition)));
        it
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.seq += 1;
        self.events.insert((at_us, self.seq), event);
    }

    fn run_until(&mut self, end_us: u64) {
        while let Some(((at_us, _), event)) = self.events.pop_first() {
            self.now_us = at_us;
            let clocks = Clocks { mono_us: at_us, wall: Wall(at_us) };
            match event {
                Event::Tick => {
                    self.node.tick(clocks);
                    self.at(at_us + TICK_US, Event::Tick);
                }
                Event::Wake => self.node.wake(clocks),
                Event::Ask(caller) => {
                    let (partition, command) = renewal(caller, self.seq);
                    self.node.call(clocks, caller, partition, command.into());
                }
                Event::Stored(op, result) => self.node.handle_store(clocks, op, result),
            }
            self.carry_out();
            if at_us >= end_us {
                return;
            }
        }
    }

    fn carry_out(&mut self) {
        while let Some(out) = self.node.poll() {
            match out {
                Out::Store(op, asked) => {
                    let is_append = matches!(asked, Op::Append(_));
                    self.appends += u64::from(is_append);
                    let result = asked.apply(&mut self.shelf, &mut self.lives, self.node.life());
                    let took_us = if is_append { APPEND_US } else { 500 };
                    self.at(self.now_us + took_us, Event::Stored(op, result));
                }
                Out::Answer(caller, answer) => {
                    assert!(answer.answer.is_ok(), "{:?}", answer.answer);
                    self.answers += 1;
                    self.at(self.now_us + (self.back_us)(caller), Event::Ask(caller));
                }
                _ => {}
            }
        }
        if let Some(at_us) = self.node.gathers_until_us() {
            self.at(at_us.max(self.now_us), Event::Wake);
        }
    }

    /// The calls that were answered in a second, and the transactions for them.
    fn measure(&mut self, callers: u64) -> (u64, u64) {
        for caller in 0..callers {
            self.at(self.now_us + caller, Event::Ask(caller));
        }
        self.run_until(self.now_us + 100_000);
        let (answers, appends) = (self.answers, self.appends);
        self.run_until(self.now_us + MEASURED_US);
        (self.answers - answers, self.appends - appends)
    }
}

/// Each caller has a lock of its own and takes it again and again.
fn renewal(caller: u64, number: u64) -> (u32, Command) {
    let name = format!("lock-{caller}");
    let partition = Partitions::new(4).expect("a power of two").of(&ResourceKey::Lock(name.as_str().into()));
    (partition, common::lock(&name, number))
}

#[test]
fn callers_that_ask_again_together_share_a_transaction() {
    let (answers, appends) = Loop::new(|caller| 50 + 40 * caller).measure(21);
    println!("21 callers: {answers} calls in {appends} transactions");
    // Without gathering the first of a round has one of its own, and all others wait for it.
    assert!(appends > 100 && answers >= 17 * appends, "{answers} calls in {appends} transactions");
    assert!(answers >= 21 * 220, "{answers} calls in a second");
}

#[test]
fn a_lone_caller_waits_for_no_other() {
    let (answers, appends) = Loop::new(|_| 50).measure(1);
    assert!(appends > 100 && appends <= answers + 2, "{answers} calls in {appends} transactions");
    assert!(answers >= MEASURED_US / (APPEND_US + 50) - 5, "{answers} calls in a second");
}

#[test]
fn callers_that_stay_away_are_waited_for_once() {
    let mut crowd = Loop::new(|caller| if caller == 0 { 50 } else { 10_000_000 });
    let (answers, _) = crowd.measure(21);
    assert!(answers >= MEASURED_US / (APPEND_US + 50) - 10, "{answers} calls in a second");
}
