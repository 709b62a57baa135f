//! Instants that a world of the simulation meets once in thousands: nodes in a time of their own, whose calls to the store
//! the test carries out when it likes.

use std::collections::BTreeMap;

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{
    Birth, CheckpointId, Config, Done, Draw, Message, Node, NodeId, Op, Out, Partitions, PeerAddress, Reign,
    SharedError, claim_id,
};
use leasehold_engine::{Acquire, Command, Limits, Options, Patience, Quota, ResourceKey, Wall};
use leasehold_journal::{Clocks, PartitionLimits};

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
        };
        for number in 0..nodes {
            stage.add(number, look_us);
            stage.pass(2_000_000);
        }
        stage
    }

    fn add(&mut self, number: usize, look_us: u64) {
        let config = Config {
            address: address(number),
            birth: Birth { partitions: Partitions::new(1), format: leasehold_cluster::format::FORMAT, secret: [1; 32] },
            limits: Limits::default(),
            partition_limits: PartitionLimits {
                callers_max: 1_000,
                store_timeout_us: 10_000_000,
                backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
            },
            node_ttl_us: 60_000_000,
            settle_us: 0,
            beat_us: 1_000_000,
            look_us,
            checkpoint_every: 1_000_000,
            forget_us: 60_000_000,
        };
        let mut drawn = 1_000 * (number as u128 + 1);
        let draw = Draw(Box::new(move || {
            drawn += 1;
            drawn
        }));
        self.nodes.push(Node::new(config, draw));
        for other in 0..number {
            self.drive(number, |node, clocks| node.handle_link(clocks, &address(other), Some(LINK)));
            self.drive(other, |node, clocks| node.handle_link(clocks, &address(number), Some(LINK)));
        }
    }

    fn pass(&mut self, us: u64) {
        let end_us = self.now_us + us;
        while self.now_us < end_us {
            self.now_us += TICK_US;
            for n in 0..self.nodes.len() {
                self.drive(n, Node::tick);
            }
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        while !self.sent.is_empty() {
            for (from, to, message) in std::mem::take(&mut self.sent) {
                let to = (0..self.nodes.len()).find(|n| address(*n) == to).expect("one of these nodes");
                self.drive(to, |node, clocks| node.handle_message(clocks, &address(from), LINK, message));
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
        self.drive(n, |node, clocks| node.call(clocks, caller, 0, lock(caller).into()));
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

fn lock(number: u64) -> Command {
    let resource = ResourceKey::Lock(format!("lock-{number}").into());
    Command::Acquire(Box::new(Acquire {
        id: claim_id(&resource, u128::from(number)),
        resource,
        ttl_us: 3_600_000_000,
        patience: Patience::For { wait_us: 0 },
        client: Some("client".into()),
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
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
        assert!(!stage.has_ended, "it ended and has told nobody");
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
    // The read of its newest batch is under way when the next one lands, unheard, and a checkpoint sweeps the one before.
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
