//! An exhaustive small scope of ownership: three nodes, one partition, on the real shelf. Every interleaving of
//! burying, taking, reading the tail, appending, confirming, letting go, and of calls to the store that are applied,
//! heard, lost and applied late, breadth first. A node may sleep anywhere: that is an interleaving like any other.
//!
//! The nodes are small: an engine is the number of its last change. An answer is a read that was decided at some
//! instant; when it leaves, its node must have been the owner at that instant, and must have seen all that was durable.

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{
    Append, Birth, Cursor, Landing, Link, NodeId, NodeRecord, Partitions, Piece, Reign, Seen, SharedError, Sum, Taking,
};
use leasehold_engine::{Change, Moment, Time, Wall, planted};
use leasehold_journal::record::BatchReader;
use leasehold_journal::{BatchWriter, Position};

const NODES: usize = 3;

/// How far a walk got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    pub states: usize,
    pub steps: usize,
    /// Every state up to this depth was seen.
    pub depth: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Out,
    /// Taken; the tail is not read.
    Tail,
    /// The first batch of the epoch is not durable.
    First,
    Serving,
    /// The letting go was sent.
    LettingGo,
}

#[derive(Clone, Debug)]
enum Op {
    Take(Taking),
    LetGo(Reign),
    Append(Append),
    Confirm(u64),
    Bury(Seen<NodeRecord>),
}

#[derive(Clone, Debug)]
enum Heard {
    Reign(Reign),
    Landing(Landing),
    Yes,
    Fenced,
}

#[derive(Clone, Debug)]
struct Flight {
    op: Op,
    applied: Option<Heard>,
}

/// A read that waits for its proof.
#[derive(Clone, Copy, Debug)]
struct Read {
    head: u64,
    /// The node was the owner when it decided, and had seen everything durable.
    is_true: bool,
    proof: u64,
}

#[derive(Clone, Debug)]
struct Small {
    life: Life,
    reign: Option<Reign>,
    phase: Phase,
    head: u64,
    last: Link,
    flight: Option<Flight>,
    read: Option<Read>,
    proofs: u64,
    proven: u64,
    is_dead: bool,
}

#[derive(Clone, Debug)]
struct Board {
    shelf: Shelf,
    nodes: Vec<Small>,
    /// A call that its node has given up on, and that may still be applied, once or more.
    stray: Option<(usize, Op)>,
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Take(usize),
    ReadTail(usize),
    Append(usize),
    Decide(usize),
    Confirm(usize),
    LetGo(usize),
    Bury(usize, usize),
    Apply(usize),
    Hear(usize),
    /// The node hears nothing, and the call is applied later or never.
    Lose(usize),
    ApplyStray,
}

/// Walks until there are so many states, or no more. Panics with the way there when a rule is broken.
pub fn walk(states_max: usize) -> Explored {
    let mut seen = BTreeSet::new();
    let start = Board::new();
    seen.insert(start.digest());
    let mut frontier = VecDeque::from([(start, 0_u32, Vec::new())]);
    let mut walked = Explored::default();
    while let Some((state, depth, way)) = frontier.pop_front() {
        walked.depth = depth;
        if seen.len() >= states_max {
            break;
        }
        for action in state.actions() {
            walked.steps += 1;
            let mut next = state.clone();
            let mut way: Vec<Deed> = way.clone();
            way.push(action);
            if let Err(what) = next.step(action) {
                panic!("small scope of ownership: {what}, after {way:?}");
            }
            if seen.insert(next.digest()) {
                frontier.push_back((next, depth + 1, way));
            }
        }
    }
    walked.states = seen.len();
    walked
}

impl Board {
    fn new() -> Self {
        let mut shelf = Shelf::default();
        let birth =
            Birth { partitions: Partitions::new(1), format: leasehold_cluster::format::FORMAT, secret: [0; 32] };
        let mut nodes = Vec::new();
        for n in 0..NODES as u128 {
            let record = NodeRecord::new(NodeId(n + 1), "");
            let (life, _) = shelf.join(&record, &birth).expect("an empty store");
            nodes.push(Small {
                life,
                reign: None,
                phase: Phase::Out,
                head: 0,
                last: Link::default(),
                flight: None,
                read: None,
                proofs: 0,
                proven: 0,
                is_dead: false,
            });
        }
        // Node 0 owns it and serves.
        let mut state = Board { shelf, nodes, stray: None };
        for action in [Deed::Take(0), Deed::Apply(0), Deed::Hear(0), Deed::ReadTail(0), Deed::Append(0)] {
            state.step(action).expect("an orderly start");
        }
        for action in [Deed::Apply(0), Deed::Hear(0)] {
            state.step(action).expect("an orderly start");
        }
        assert_eq!(state.nodes[0].phase, Phase::Serving);
        state
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{self:?}").hash(&mut hasher);
        hasher.finish()
    }

    fn actions(&self) -> Vec<Deed> {
        let mut actions = Vec::new();
        for (n, node) in self.nodes.iter().enumerate() {
            match &node.flight {
                Some(flight) if flight.applied.is_none() => actions.extend([Deed::Apply(n), Deed::Lose(n)]),
                Some(_) => actions.extend([Deed::Hear(n), Deed::Lose(n)]),
                None if node.is_dead => {}
                None => match node.phase {
                    Phase::Out => {
                        actions.push(Deed::Take(n));
                        actions.extend((0..NODES).filter(|other| *other != n).map(|other| Deed::Bury(n, other)));
                    }
                    Phase::Tail => actions.push(Deed::ReadTail(n)),
                    Phase::First => actions.push(Deed::Append(n)),
                    Phase::Serving => {
                        actions.extend([Deed::Append(n), Deed::LetGo(n)]);
                        if node.read.is_some() {
                            actions.push(Deed::Confirm(n));
                        }
                    }
                    Phase::LettingGo => actions.push(Deed::LetGo(n)),
                },
            }
            let serves = match node.phase {
                Phase::Serving => true,
                Phase::Tail => planted!(ServedBeforeTail),
                Phase::LettingGo => planted!(GiverServesOn),
                Phase::Out | Phase::First => false,
            };
            if serves && node.read.is_none() && !node.is_dead {
                actions.push(Deed::Decide(n));
            }
        }
        if self.stray.is_some() {
            actions.push(Deed::ApplyStray);
        }
        actions
    }

    fn step(&mut self, action: Deed) -> Result<(), String> {
        match action {
            Deed::Take(n) => {
                let Ok(map) = self.shelf.map() else { return Ok(()) };
                let seen = map.owners[0].clone();
                let owner = seen.value.node;
                let is_free = owner.is_none_or(|owner| !map.is_alive(owner)) || planted!(TakenWithoutBurial);
                if is_free {
                    let dead = owner.and_then(|owner| map.node(owner).cloned());
                    let node = self.nodes[n].life.node;
                    let (epoch, at) = (seen.value.epoch.next(), seen.value.at);
                    self.fly(n, Op::Take(Taking { partition: 0, seen, dead, node, epoch, at }));
                }
            }
            Deed::ReadTail(n) => self.read_tail(n)?,
            Deed::Append(n) => {
                let node = &mut self.nodes[n];
                let Some(reign) = node.reign else { return Ok(()) };
                let mut writer = BatchWriter::new(0, reign.epoch(), Position(node.head + 1));
                writer.push(Moment { at: Time(node.head), wall: Wall(0) }, &Change::Marked);
                let append = Append { reign, before: node.last, batch: writer.seal() };
                // It is in the engine at once, durable or not; an append is a proof of what was decided before.
                node.head += 1;
                node.proofs += 1;
                self.fly(n, Op::Append(append));
            }
            Deed::Decide(n) => {
                let is_true = self.is_latest(n);
                let node = &mut self.nodes[n];
                let proof = if planted!(ProofBegunBefore) { node.proofs } else { node.proofs + 1 };
                node.read = Some(Read { head: node.head, is_true, proof });
                if planted!(AnswerWithoutProof) {
                    self.leave(n, u64::MAX)?;
                }
            }
            Deed::Confirm(n) => {
                self.nodes[n].proofs += 1;
                let proof = self.nodes[n].proofs;
                self.fly(n, Op::Confirm(proof));
            }
            Deed::LetGo(n) => {
                self.nodes[n].phase = Phase::LettingGo;
                let Some(reign) = self.nodes[n].reign else { return Ok(()) };
                self.fly(n, Op::LetGo(reign));
            }
            Deed::Bury(n, other) => {
                let node = self.nodes[other].life.node;
                let Some(seen) = self.shelf.map().ok().and_then(|map| map.node(node).cloned()) else { return Ok(()) };
                if !seen.value.is_buried {
                    self.fly(n, Op::Bury(seen));
                }
            }
            Deed::Apply(n) => {
                let Some(flight) = self.nodes[n].flight.clone() else { return Ok(()) };
                let heard = self.apply(n, &flight.op)?;
                self.nodes[n].flight = Some(Flight { applied: Some(heard), ..flight });
            }
            Deed::Hear(n) => {
                if let Some(Flight { op, applied: Some(heard) }) = self.nodes[n].flight.take() {
                    self.hear(n, op, heard)?;
                }
            }
            Deed::Lose(n) => {
                if let Some(flight) = self.nodes[n].flight.take() {
                    if let (Op::Append(append), false) = (&flight.op, self.nodes[n].is_dead) {
                        // The identical batch again.
                        let append = append.clone();
                        self.fly(n, Op::Append(append));
                    }
                    if planted!(GiverResumes) && matches!(flight.op, Op::LetGo(_)) {
                        self.nodes[n].phase = Phase::Serving;
                    }
                    self.stray = Some((n, flight.op));
                }
            }
            Deed::ApplyStray => {
                if let Some((n, op)) = self.stray.take() {
                    self.apply(n, &op)?;
                }
            }
        }
        Ok(())
    }

    fn fly(&mut self, n: usize, op: Op) {
        self.nodes[n].flight = Some(Flight { op, applied: None });
    }

    fn durable(&self) -> u64 {
        self.shelf.batches(0).map(|batch| batch.last.0).max().unwrap_or(0)
    }

    /// Returns whether this node is the owner at this instant, and has seen everything durable.
    fn is_latest(&self, n: usize) -> bool {
        let Ok(map) = self.shelf.map() else { return false };
        let owner = &map.owners[0];
        let is_owner =
            self.nodes[n].reign.is_some_and(|reign| reign.owner == owner.value && reign.version == owner.version);
        is_owner && self.nodes[n].head >= self.durable()
    }

    fn apply(&mut self, n: usize, op: &Op) -> Result<Heard, String> {
        let heard = match op {
            Op::Take(taking) => {
                let before = self.shelf.map().map(|map| map.owners[0].clone()).unwrap_or_default();
                match self.shelf.take(taking) {
                    Ok(reign) => {
                        let is_new = before.version != reign.version;
                        if is_new && reign.epoch() <= before.value.epoch {
                            return Err(format!("C3: epoch {} follows {}", reign.epoch(), before.value.epoch));
                        }
                        if is_new
                            && before
                                .value
                                .node
                                .is_some_and(|node| self.shelf.map().is_ok_and(|map| map.is_alive(node)))
                        {
                            return Err("C3: a partition was taken from the living".to_owned());
                        }
                        Heard::Reign(reign)
                    }
                    Err(_) => Heard::Fenced,
                }
            }
            Op::LetGo(reign) => yes(self.shelf.let_go(reign, Time(0))),
            Op::Append(append) => {
                let owner = self.shelf.map().map(|map| map.owners[0].clone()).unwrap_or_default();
                let before = self.shelf.revision();
                let landing = self.shelf.append(append).unwrap_or(Landing::Full);
                if self.shelf.revision() != before && owner.version != append.reign.version {
                    return Err("C1: a batch of an old reign got in".to_owned());
                }
                let is_there = self.shelf.batches(0).any(|batch| *batch == append.batch);
                if landing == Landing::Durable && !is_there {
                    return Err("C1: a batch was called durable and is not there".to_owned());
                }
                Heard::Landing(landing)
            }
            Op::Confirm(_) => yes(self.shelf.confirm(self.nodes[n].life)),
            Op::Bury(seen) => yes(self.shelf.bury(seen)),
        };
        Ok(heard)
    }

    fn hear(&mut self, n: usize, op: Op, heard: Heard) -> Result<(), String> {
        match (op, heard) {
            (Op::Take(_), Heard::Reign(reign)) => {
                self.nodes[n].reign = Some(reign);
                self.nodes[n].phase = Phase::Tail;
                if planted!(TailReadBeforeTaking) {
                    self.nodes[n].phase = Phase::Serving;
                }
            }
            (Op::Append(append), Heard::Landing(Landing::Durable)) => {
                let node = &mut self.nodes[n];
                node.last = Link::to(&append.batch);
                if node.phase == Phase::First {
                    node.phase = Phase::Serving;
                }
                // Every append began after what was decided before it.
                let proof = node.proofs;
                self.leave(n, proof)?;
            }
            (Op::Append(_), Heard::Landing(Landing::Behind)) => {
                return Err("C3: an owner went on elsewhere than at the end of the stream".to_owned());
            }
            (Op::Append(_) | Op::LetGo(_), _) => self.step_down(n),
            (Op::Confirm(proof), Heard::Yes) => self.leave(n, proof)?,
            (Op::Confirm(_), _) => {
                self.step_down(n);
                self.nodes[n].is_dead = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// The read leaves, if this proof or an earlier one is what it waits for.
    fn leave(&mut self, n: usize, proof: u64) -> Result<(), String> {
        let node = &mut self.nodes[n];
        node.proven = node.proven.max(proof);
        let Some(read) = node.read.filter(|read| read.proof <= node.proven) else { return Ok(()) };
        node.read = None;
        if read.is_true {
            Ok(())
        } else {
            Err(format!("S11: node {n} answered at {} and was not the owner", read.head))
        }
    }

    fn step_down(&mut self, n: usize) {
        let node = &mut self.nodes[n];
        (node.reign, node.phase, node.read) = (None, Phase::Out, None);
        (node.head, node.last) = (0, Link::default());
    }

    fn read_tail(&mut self, n: usize) -> Result<(), String> {
        let page = match self.shelf.read(0, Cursor::After(Position::START)) {
            Ok(page) => page,
            Err(SharedError::Gone) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let node = &mut self.nodes[n];
        let Some(reign) = node.reign else { return Ok(()) };
        if page.owner.value != reign.owner || page.owner.version != reign.version {
            self.step_down(n);
            return Ok(());
        }
        (node.head, node.last) = (0, Link::default());
        for piece in &page.pieces {
            let Piece::Batch { record, .. } = piece else { continue };
            let header = BatchReader::open(record).map_err(|error| error.to_string())?.header();
            node.head = header.last().0;
            node.last = Link { first: header.first, sum: Sum::of(record) };
        }
        if page.next.is_none() {
            node.phase = Phase::First;
        }
        Ok(())
    }
}

fn yes(result: Result<(), SharedError>) -> Heard {
    if result.is_ok() { Heard::Yes } else { Heard::Fenced }
}
