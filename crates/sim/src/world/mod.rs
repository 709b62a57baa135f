//! The world: one queue of events in one thread. Time jumps from event to event; chance comes from the seed.
//!
//! Nodes do what the server's driver does, with the same calls in the same order (`serve`, `append`, `checkpoint`);
//! what is simulated is everything around them.

mod append;
mod bodies;
mod checkpoint;
mod client;
mod clocks;
mod forestall;
mod hear;
mod node;
mod record;
mod rest;
mod serve;
mod watch;
mod wishes;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use leasehold_engine::ClaimId;
use leasehold_journal::{Batch, MemoryOpener, Store};

use bodies::{Call, CallId, Client, Message, Node};

use crate::disk::Disk;
use crate::fault::{Fault, FaultCounts};
use crate::ledger::invariant::Violation;
use crate::ledger::{Asks, Ledger, When};
use crate::plan::{Cuts, Deployment, Plan};
use crate::rng::Rng;
use crate::sometimes::{Rare, RareCounts};
use crate::story::Story;

/// The events of the world. Node events name the incarnation they were meant for, and are void in another.
#[derive(Debug)]
enum Event {
    /// A client has time to do something.
    Act(usize),
    /// A client's patience with a call is over.
    GiveUp(CallId),
    Arrive(CallId),
    /// The node notices that a caller is gone.
    HangUp(CallId),
    /// The answer leaves the process.
    Wire(CallId),
    Hear(CallId),
    /// The connection broke before an answer came.
    Broken(CallId),
    Tick {
        node: usize,
        seq: u64,
    },
    /// The write and sync of a batch to the node's own disk are over.
    Synced {
        node: usize,
        incarnation: u64,
    },
    AtStore(Message),
    FromStore(Message),
    Resend {
        node: usize,
        incarnation: u64,
        request: u64,
    },
    KeepAlive {
        node: usize,
        incarnation: u64,
    },
    Checkpoint {
        node: usize,
        incarnation: u64,
    },
    LookAtRoom {
        node: usize,
        incarnation: u64,
    },
    /// The store's work beside appends is over.
    KeptUp {
        node: usize,
        incarnation: u64,
    },
    Start(usize),
    Resume {
        node: usize,
        seq: u64,
    },
    /// The disk has room again.
    RoomAgain {
        is_full: bool,
    },
    /// A fault strikes.
    Strike,
    Calm,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct RunReport {
    pub violation: Option<Violation>,
    pub steps: u64,
    pub faults: FaultCounts,
    pub rare: RareCounts,
    pub crashes: u64,
    pub recoveries: u64,
    pub answers: u64,
    pub changes: u64,
    pub story: String,
    /// A digest of all events; equal for equal runs.
    pub digest: u64,
}

pub struct World {
    plan: Plan,
    now_us: u64,
    seq: u64,
    events: BTreeMap<(u64, u64), Event>,
    chance: Rng,
    store_rng: Rng,
    strike_rng: Rng,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    calls: Vec<Call>,
    disk: Disk,
    far: MemoryOpener,
    /// Every store that was ever opened: a message may arrive for one whose process is long gone.
    stores: Vec<Box<dyn Store>>,
    /// Ownership as the store has it (a cluster): until when the owner's lease runs.
    owned_until_us: u64,
    /// The node that opened the stream last.
    owner: Option<usize>,
    /// Being written when its process died.
    lost: Option<(Batch, Vec<When>)>,
    ledger: Ledger,
    asks: Asks,
    /// Claims that an answer told their caller of: it left the process, and no check can tell whether it arrived.
    known: BTreeSet<ClaimId>,
    /// The last expiry of each lease: position and when.
    expired: BTreeMap<ClaimId, (u64, When)>,
    fair_us: u64,
    served_us: u64,
    outages: u64,
    /// The latest service time that any owner saw.
    service_seen: u64,
    is_calm: bool,
    strikes: BTreeSet<Fault>,
    out: RunReport,
    rare: RareCounts,
    story: Story,
    digest: u64,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("plan", &self.plan).field("now_us", &self.now_us).finish_non_exhaustive()
    }
}

macro_rules! tell {
    ($world:expr, $($what:tt)*) => {
        $world.story.line($world.now_us, format_args!($($what)*))
    };
}
pub(crate) use tell;

impl World {
    /// Runs the world of a seed to its end. A panic of the engine is a violation like any other.
    pub fn run(seed: u64, cuts: &Cuts, is_told: bool) -> RunReport {
        let mut world = World::new(Plan::of(seed, cuts), is_told);
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| world.run_on()));
        let violation = match result {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(violation),
            Err(panic) => Some(Violation { invariant: "assertion", what: said_in_panic(panic.as_ref()) }),
        };
        if let Some(violation) = &violation {
            tell!(world, "VIOLATION {violation}");
        }
        let mut out = std::mem::take(&mut world.out);
        out.violation = violation;
        out.rare = std::mem::take(&mut world.rare);
        out.rare.merge(&world.ledger.rare);
        out.changes = world.ledger.head;
        out.story = world.story.text().to_owned();
        out.digest = world.digest;
        out
    }

    fn new(plan: Plan, is_told: bool) -> World {
        let seed = plan.seed;
        let nodes = match plan.place {
            Deployment::Embedded => 1,
            Deployment::Cluster { nodes } => nodes,
        };
        let mut rng = Rng::new(seed, 2);
        let mut world = World {
            now_us: 0,
            seq: 0,
            events: BTreeMap::new(),
            chance: Rng::new(seed, 3),
            store_rng: Rng::new(seed, 4),
            strike_rng: Rng::new(seed, 5),
            nodes: (0..nodes).map(|_| Node::new(&mut rng)).collect(),
            clients: (0..plan.clients).map(|n| Client::new(n, seed, &mut rng)).collect(),
            calls: Vec::new(),
            disk: Disk::default(),
            far: MemoryOpener::keeping(),
            stores: Vec::new(),
            owned_until_us: 0,
            owner: None,
            lost: None,
            ledger: Ledger::new(plan.limits.clone()),
            asks: Asks::default(),
            known: BTreeSet::new(),
            expired: BTreeMap::new(),
            fair_us: 0,
            served_us: 0,
            outages: 0,
            service_seen: 0,
            is_calm: false,
            strikes: BTreeSet::new(),
            out: RunReport::default(),
            rare: RareCounts::default(),
            story: Story::new(is_told),
            digest: 0xcbf2_9ce4_8422_2325,
            plan,
        };
        for node in 0..nodes {
            world.at(1000 * node as u64, Event::Start(node));
        }
        for client in 0..world.clients.len() {
            world.at(20_000 + client as u64, Event::Act(client));
        }
        world.at(100_000, Event::Strike);
        world.at(world.plan.chaos_us, Event::Calm);
        world
    }

    fn run_on(&mut self) -> Result<(), Violation> {
        tell!(self, "{:?}", self.plan);
        while let Some(((at_us, _), event)) = self.events.pop_first() {
            self.pass_time(at_us);
            self.out.steps += 1;
            self.note(event_number(&event));
            self.happen(event)?;
            if self.is_calm && self.is_over() {
                break;
            }
            let limit_us = self.plan.chaos_us + 10 * self.plan.calm_us;
            if self.now_us > limit_us {
                return self.never_at_rest();
            }
        }
        self.finish()
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Act(client) => self.act(client),
            Event::GiveUp(call) => self.give_up(call),
            Event::Arrive(call) => return self.arrive(call),
            Event::HangUp(call) => return self.hang_up(call),
            Event::Wire(call) => self.wire(call),
            Event::Hear(call) => return self.hear(call),
            Event::Broken(call) => self.broken(call),
            Event::Tick { node, seq } => return self.tick(node, seq),
            Event::Synced { node, incarnation } => return self.synced(node, incarnation),
            Event::AtStore(message) => return self.arrive_at_store(&message),
            Event::FromStore(message) => return self.hear_from_store(message),
            Event::Resend { node, incarnation, request } => self.resend(node, incarnation, request),
            Event::KeepAlive { node, incarnation } => self.keep_alive(node, incarnation),
            Event::Checkpoint { node, incarnation } => self.step_checkpoint(node, incarnation),
            Event::LookAtRoom { node, incarnation } => self.look_at_room(node, incarnation),
            Event::KeptUp { node, incarnation } => return self.kept_up(node, incarnation),
            Event::Start(node) => return self.start(node),
            Event::Resume { node, seq } => self.resume(node, seq),
            Event::RoomAgain { is_full: true } => self.disk.set_full(false),
            Event::RoomAgain { is_full: false } => self.disk.set_low(false),
            Event::Strike => return self.strike(),
            Event::Calm => self.calm_down(),
        }
        Ok(())
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.seq += 1;
        self.events.insert((at_us.max(self.now_us), self.seq), event);
    }

    fn after(&mut self, delay_us: u64, event: Event) {
        self.at(self.now_us + delay_us, event);
    }

    /// Returns whether a possible fault happens now.
    fn fails(&mut self, fault: Fault) -> bool {
        self.fails_at(fault, self.plan.rate)
    }

    fn fails_at(&mut self, fault: Fault, per_mille: u64) -> bool {
        // Drawn in any case, so that a fault switched off leaves the others where they were.
        let drawn = self.chance.chance(per_mille);
        let happens = drawn && !self.is_calm && self.plan.faults.contains(&fault);
        if happens {
            self.struck(fault);
        }
        happens
    }

    fn struck(&mut self, fault: Fault) {
        self.out.faults.add(fault);
        self.strikes.insert(fault);
        tell!(self, "  ! {fault}");
    }

    fn note(&mut self, value: u64) {
        for part in [self.now_us, value] {
            self.digest = (self.digest ^ part).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn hit(&mut self, rare: Rare) {
        self.rare.hit(rare);
    }
}

fn event_number(event: &Event) -> u64 {
    match event {
        Event::Act(client) => *client as u64,
        Event::GiveUp(call) | Event::Arrive(call) | Event::HangUp(call) | Event::Wire(call) => 100 + call.0 as u64,
        Event::Hear(call) | Event::Broken(call) => 200 + call.0 as u64,
        Event::Tick { node, .. } => 10 + *node as u64,
        Event::Synced { .. } => 20,
        Event::AtStore(_) => 21,
        Event::FromStore(_) => 22,
        Event::Resend { .. } => 23,
        Event::KeepAlive { .. } => 24,
        Event::Checkpoint { .. } => 25,
        Event::LookAtRoom { .. } => 26,
        Event::KeptUp { .. } => 27,
        Event::Start(node) => 30 + *node as u64,
        Event::Resume { .. } => 40,
        Event::RoomAgain { .. } => 41,
        Event::Strike => 42,
        Event::Calm => 43,
    }
}

pub(crate) fn said_in_panic(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}
