//! An exhaustive small scope of relays: two real nodes, one partition, on the real shelf. Node 0 owns the partition; a
//! caller asks for a lock at each node, and one gives another lock back through node 1. Every order of sending,
//! delivering, losing a link with and without what is on it, appends that land, land unheard and do not land, a caller
//! that leaves, a failover of an owner that wakes later, and an orderly hand-over, breadth first, with a bounded number
//! of faults.
//!
//! Nodes cannot be copied: a state is the way that led to it, walked again. In each state all faults end, all that is
//! on its way arrives, callers without an answer leave, and time passes. Then nothing may wait, and nothing may be held
//! but what a caller was told of.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{
    AskAnswer, Birth, Config, Draw, Message, Node, NodeId, Op, Out, Partitions, PeerAddress, SharedError, claim_id,
};
use leasehold_engine::{Acquire, Command, LockNews, Options, Patience, Quota, Reply, ResourceKey, Wall};
use leasehold_journal::{Clocks, Denial, PartitionLimits};

use super::scope::Explored;

const NODES: usize = 2;
/// Faults on one way.
const FAULTS_MAX: usize = 2;
const TICK_US: u64 = 50_000;
const NODE_TTL_US: u64 = 1_000_000;
/// The caller that gives back what it holds.
const RETURNING: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Ask(usize),
    Leave(usize),
    /// The next message to this node arrives.
    Deliver(usize),
    /// The link is lost; what is on it arrives late.
    Break,
    /// The link is lost with all that is on it.
    Cut,
    Mend,
    /// The oldest append that is on its way.
    Land,
    LandUnheard,
    Lose,
    /// Node 0 stands still until node 1 has its partition.
    Fail,
    Wake,
    HandOver,
    /// Time passes.
    Pass,
}

impl Deed {
    fn is_fault(self) -> bool {
        match self {
            Deed::Break | Deed::Cut | Deed::LandUnheard | Deed::Lose | Deed::Fail | Deed::HandOver | Deed::Leave(_) => {
                true
            }
            Deed::Ask(_) | Deed::Deliver(_) | Deed::Mend | Deed::Land | Deed::Wake | Deed::Pass => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    /// It has not asked.
    Quiet,
    Open,
    Granted,
    Released,
    /// It was told no, or that nothing is known.
    Denied,
    Left,
}

struct Ring {
    shelf: Shelf,
    lives: BTreeMap<NodeId, Life>,
    nodes: Vec<Option<Node>>,
    addresses: Vec<PeerAddress>,
    now_us: u64,
    link: u64,
    is_up: bool,
    /// To each node, with the link that they came by.
    under_way: [VecDeque<(u64, Message)>; NODES],
    appends: VecDeque<(usize, u64, Op)>,
    is_stopped: bool,
    /// Appends land at once.
    is_calm: bool,
    callers: [Caller; 3],
}

/// Walks until there are so many states, or no more. Panics with the way there when a rule is broken.
pub fn walk(states_max: usize) -> Explored {
    let mut seen = BTreeSet::from([Ring::start().digest()]);
    let mut frontier = VecDeque::from([Vec::<Deed>::new()]);
    let mut walked = Explored::default();
    let told = |what: String, way: &[Deed]| panic!("small scope of relays: {what}, after {way:?}");
    while let Some(way) = frontier.pop_front() {
        if seen.len() >= states_max {
            break;
        }
        walked.depth = u32::try_from(way.len()).expect("short");
        let deeds = Ring::after(&way).unwrap_or_else(|what| told(what, &way)).deeds(&way);
        for deed in deeds {
            walked.steps += 1;
            let next: Vec<Deed> = way.iter().copied().chain([deed]).collect();
            let ring = Ring::after(&next).unwrap_or_else(|what| told(what, &next));
            if seen.insert(ring.digest()) {
                if let Err(what) = ring.come_to_rest() {
                    told(what, &next);
                }
                frontier.push_back(next);
            }
        }
    }
    walked.states = seen.len();
    walked
}

fn lock(name: &str) -> ResourceKey {
    ResourceKey::Lock(name.into())
}

/// The command of this caller, and the node that it asks.
fn call_of(caller: usize) -> (usize, Command) {
    let client: Arc<str> = format!("c{caller}").into();
    if caller == RETURNING {
        return (1, Command::Unlock { resource: lock("held"), client, token: None });
    }
    (1 - caller, acquire("wanted", caller, client))
}

fn acquire(name: &str, caller: usize, client: Arc<str>) -> Command {
    let resource = lock(name);
    Command::Acquire(Box::new(Acquire {
        id: claim_id(&resource, 77 + caller as u128),
        resource,
        ttl_us: 3_600_000_000,
        patience: Patience::For { wait_us: 1_800_000_000 },
        client: Some(client),
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
}

impl Ring {
    fn start() -> Ring {
        let addresses: Vec<PeerAddress> = (0..NODES).map(|n| format!("m{n}").into()).collect();
        let mut ring = Ring {
            shelf: Shelf::default(),
            lives: BTreeMap::new(),
            nodes: (0..NODES).map(|_| None).collect(),
            addresses,
            now_us: 1_000_000,
            link: 1,
            is_up: false,
            under_way: [VecDeque::new(), VecDeque::new()],
            appends: VecDeque::new(),
            is_stopped: false,
            is_calm: true,
            callers: [Caller::Quiet; 3],
        };
        for n in 0..NODES {
            let config = Config {
                address: Arc::clone(&ring.addresses[n]),
                birth: Birth {
                    partitions: Partitions::new(1),
                    format: leasehold_cluster::format::FORMAT,
                    secret: [1; 32],
                },
                limits: super::limits(),
                partition_limits: PartitionLimits {
                    callers_max: 1_000,
                    store_timeout_us: 60_000_000,
                    backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
                },
                node_ttl_us: NODE_TTL_US,
                // No node is a target but the first, while it lives.
                settle_us: 3_600_000_000,
                beat_us: 300_000,
                look_us: 100_000,
                checkpoint_every: 1_000,
                forget_us: 60_000_000,
            };
            let mut drawn = 1_000 * (n as u128 + 1);
            let draw = Draw(Box::new(move || {
                drawn += 1;
                drawn
            }));
            ring.nodes[n] = Some(Node::new(config, draw));
            ring.pass(40).expect("an orderly start");
        }
        ring.set_link(true).expect("an orderly start");
        ring.pass(4).expect("an orderly start");
        let held = acquire("held", RETURNING, format!("c{RETURNING}").into());
        ring.drive(0, |node, clocks| node.call(clocks, 99, 0, held.into())).expect("an orderly start");
        ring.pass(4).expect("an orderly start");
        assert!(ring.node(0).is_some_and(|node| node.is_serving(0)), "node 0 serves");
        ring.is_calm = false;
        ring
    }

    fn after(way: &[Deed]) -> Result<Ring, String> {
        let mut ring = Ring::start();
        for deed in way {
            ring.step(*deed)?;
        }
        Ok(ring)
    }

    fn node(&self, n: usize) -> Option<&Node> {
        self.nodes[n].as_ref()
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", (&self.nodes, &self.shelf, &self.under_way, &self.appends)).hash(&mut hasher);
        format!("{:?}", (self.link, self.is_up, self.is_stopped, self.callers)).hash(&mut hasher);
        hasher.finish()
    }

    fn runs(&self, n: usize) -> bool {
        self.nodes[n].is_some() && !(n == 0 && self.is_stopped)
    }

    fn deeds(&self, way: &[Deed]) -> Vec<Deed> {
        let mut deeds = Vec::new();
        // A node that was told to end takes no calls any more.
        let takes_calls = |n: usize| self.runs(n) && (n != 0 || !way.contains(&Deed::HandOver));
        for (caller, state) in self.callers.iter().enumerate() {
            let at = call_of(caller).0;
            match state {
                Caller::Quiet if takes_calls(at) => deeds.push(Deed::Ask(caller)),
                Caller::Open if self.runs(at) => deeds.push(Deed::Leave(caller)),
                _ => {}
            }
        }
        deeds.extend((0..NODES).filter(|n| self.runs(*n) && !self.under_way[*n].is_empty()).map(Deed::Deliver));
        if self.is_up {
            deeds.extend([Deed::Break, Deed::Cut]);
        } else if self.nodes.iter().all(Option::is_some) {
            deeds.push(Deed::Mend);
        }
        if self.appends.front().is_some_and(|(n, ..)| self.runs(*n)) {
            deeds.extend([Deed::Land, Deed::LandUnheard, Deed::Lose]);
        }
        if takes_calls(0) {
            deeds.extend([Deed::Fail, Deed::HandOver]);
        } else if self.is_stopped {
            deeds.push(Deed::Wake);
        }
        if way.last() != Some(&Deed::Pass) {
            deeds.push(Deed::Pass);
        }
        let faults = way.iter().filter(|deed| deed.is_fault()).count();
        deeds.retain(|deed| !deed.is_fault() || faults < FAULTS_MAX);
        deeds
    }

    fn step(&mut self, deed: Deed) -> Result<(), String> {
        match deed {
            Deed::Ask(caller) => {
                let (n, command) = call_of(caller);
                self.callers[caller] = Caller::Open;
                self.drive(n, |node, clocks| node.call(clocks, caller as u64, 0, command.into()))
            }
            Deed::Leave(caller) => {
                self.callers[caller] = Caller::Left;
                self.drive(call_of(caller).0, |node, clocks| node.leave(clocks, caller as u64))
            }
            Deed::Deliver(n) => {
                let Some((link, message)) = self.under_way[n].pop_front() else { return Ok(()) };
                let peer = Arc::clone(&self.addresses[1 - n]);
                self.drive(n, |node, clocks| node.handle_message(clocks, &peer, link, message))
            }
            Deed::Break => self.set_link(false),
            Deed::Cut => {
                self.under_way.iter_mut().for_each(VecDeque::clear);
                self.set_link(false)
            }
            Deed::Mend => self.set_link(true),
            Deed::Land => self.land(true, true),
            Deed::LandUnheard => self.land(true, false),
            Deed::Lose => self.land(false, false),
            Deed::Fail => {
                self.is_stopped = true;
                for _ in 0..60 {
                    if self.node(1).is_some_and(|node| node.is_serving(0)) {
                        return Ok(());
                    }
                    self.pass(1)?;
                    // The first batch of the new owner is not what this is about.
                    while let Some(first) = self.appends.iter().position(|(n, ..)| *n == 1) {
                        let append = self.appends.remove(first).expect("it is there");
                        self.appends.push_front(append);
                        self.land(true, true)?;
                    }
                }
                Err("L6: a partition of a node that stands still is not taken".to_owned())
            }
            Deed::Wake => {
                self.is_stopped = false;
                self.pass(1)
            }
            Deed::HandOver => self.drive(0, Node::drain),
            Deed::Pass => self.pass(22),
        }
    }

    /// The oldest append takes effect or not, and its node hears of it or not.
    fn land(&mut self, is_applied: bool, is_heard: bool) -> Result<(), String> {
        let Some((n, op, asked)) = self.appends.pop_front() else { return Ok(()) };
        let mut result = Err(SharedError::Away("lost".to_owned()));
        if is_applied {
            let done = asked.apply(&mut self.shelf, &mut self.lives, None);
            result = if is_heard { done } else { result };
        }
        self.drive(n, |node, clocks| node.handle_store(clocks, op, result))
    }

    fn set_link(&mut self, is_up: bool) -> Result<(), String> {
        self.is_up = is_up;
        self.link += u64::from(is_up);
        let number = Some(self.link).filter(|_| is_up);
        for n in 0..NODES {
            let peer = Arc::clone(&self.addresses[1 - n]);
            // A node that stands still finds out by a link that is not there when it wakes.
            self.drive(n, |node, clocks| node.handle_link(clocks, &peer, number))?;
        }
        Ok(())
    }

    fn pass(&mut self, ticks: usize) -> Result<(), String> {
        for _ in 0..ticks {
            self.now_us += TICK_US;
            for n in (0..NODES).filter(|n| self.runs(*n)).collect::<Vec<_>>() {
                self.drive(n, Node::tick)?;
            }
        }
        Ok(())
    }

    fn drive(&mut self, n: usize, act: impl FnOnce(&mut Node, Clocks)) -> Result<(), String> {
        let clocks = Clocks { mono_us: self.now_us, wall: Wall(self.now_us) };
        let Some(mut node) = self.nodes[n].take() else { return Ok(()) };
        act(&mut node, clocks);
        let mut has_ended = false;
        while let Some(out) = node.poll() {
            match out {
                Out::Store(op, asked @ Op::Append(_)) if !self.is_calm => self.appends.push_back((n, op, asked)),
                Out::Store(op, asked) => {
                    let result = asked.apply(&mut self.shelf, &mut self.lives, node.life());
                    node.handle_store(clocks, op, result);
                }
                Out::Send(_, message) => {
                    if self.is_up {
                        self.under_way[1 - n].push_back((self.link, message));
                    }
                }
                Out::Answer(caller, answer) => self.hear(caller, &answer)?,
                Out::Happened(_) => {}
                Out::WentBack { what, .. } => return Err(format!("the store did not go back: {what}")),
                Out::Ended => has_ended = true,
            }
        }
        if has_ended {
            // Its callers go with it.
            for (caller, state) in self.callers.iter_mut().enumerate() {
                if call_of(caller).0 == n && *state == Caller::Open {
                    *state = Caller::Left;
                }
            }
            self.appends.retain(|(of, ..)| *of != n);
            self.under_way.iter_mut().for_each(VecDeque::clear);
            self.set_link(false)
        } else {
            self.nodes[n] = Some(node);
            Ok(())
        }
    }

    fn hear(&mut self, caller: u64, answer: &AskAnswer) -> Result<(), String> {
        let Some(state) = usize::try_from(caller).ok().and_then(|caller| self.callers.get_mut(caller)) else {
            return Ok(());
        };
        if *state != Caller::Open {
            return Err(format!("C6: caller {caller} is {state:?} and was answered {:?}", answer.answer));
        }
        *state = match &answer.answer {
            Ok(Reply::Lock(_, LockNews::Acquired { .. })) => Caller::Granted,
            Ok(Reply::Unlocked) => Caller::Released,
            Err(Denial::Refused(refusal)) if caller == RETURNING as u64 => {
                return Err(format!("S14: the only caller that gave its lock back heard {refusal:?}"));
            }
            Ok(reply) => return Err(format!("caller {caller} was answered {reply:?}")),
            Err(_) => Caller::Denied,
        };
        let granted = self.callers.iter().filter(|state| **state == Caller::Granted).count();
        if granted > 1 { Err("S1: two callers hold one lock".to_owned()) } else { Ok(()) }
    }

    /// All faults end, and everything comes to its end: nothing may be left that no caller knows of.
    fn come_to_rest(mut self) -> Result<(), String> {
        self.is_calm = true;
        if !self.is_up && self.nodes.iter().all(Option::is_some) {
            self.set_link(true)?;
        }
        if self.is_stopped {
            self.step(Deed::Wake)?;
        }
        self.settle(60)?;
        for caller in 0..self.callers.len() {
            if self.callers[caller] == Caller::Open {
                self.step(Deed::Leave(caller))?;
            }
        }
        self.settle(280)?;
        let Some(owner) = (0..NODES).find(|n| self.node(*n).is_some_and(|node| node.is_serving(0))) else {
            return Err("L6: the partition has no owner in the end".to_owned());
        };
        let totals = self.node(owner).and_then(|node| node.owned(0)).expect("it serves").totals();
        let granted = self.callers.iter().filter(|state| **state == Caller::Granted).count();
        let held = match self.callers[RETURNING] {
            Caller::Quiet => [1, 1],
            Caller::Released => [0, 0],
            _ => [0, 1],
        };
        let (least, most) = (granted + held[0], granted + held[1]);
        if totals.waiting > 0 || totals.claims < least || totals.claims > most {
            let (claims, waiting) = (totals.claims, totals.waiting);
            let callers = self.callers;
            return Err(format!("L7, S4: {claims} claims, {waiting} of them waiting, and callers are {callers:?}"));
        }
        Ok(())
    }

    fn settle(&mut self, ticks: usize) -> Result<(), String> {
        for _ in 0..ticks {
            while !self.appends.is_empty() {
                self.land(true, true)?;
            }
            for n in 0..NODES {
                while self.runs(n) && !self.under_way[n].is_empty() {
                    self.step(Deed::Deliver(n))?;
                }
            }
            self.pass(1)?;
        }
        Ok(())
    }
}
