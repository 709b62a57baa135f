//! A cluster in a world of our own: nodes without IO (`leasehold-cluster`), a shared store, links, machines and
//! clients.
//!
//! ```text
//! clients ─▶ machine 0: Node ──┐  links: in order, break, stall, go one way
//!            machine 1: Node ──┼─ store: latency, lost requests and replies, duplicates, outages
//!            machine 2: Node ──┘  machines: killed, stopped, paused with their clock, drained
//!                                      │
//!               answers ─▶ checks ◀─ ledgers: the durable bytes of each partition, replayed change by change
//! ```
//!
//! The rules C1 to C8 are checked at every step, and S1 to S16 against the ledgers. A seed decides everything.

#![allow(clippy::similar_names, reason = "an owner owns what is owned")]
#![allow(clippy::needless_pass_by_value, reason = "events and answers are handed over")]
#![allow(clippy::match_same_arms, reason = "without planted bugs some arms are alike")]

mod check;
mod client;
mod machine;
mod past;
pub mod relays;
pub mod scope;
mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;

use leasehold_cluster::store::{Life, Shelf};
use leasehold_cluster::{Done, Message, NodeId, Op, Partitions, SharedError};
use leasehold_engine::{ClaimId, Limits};
use leasehold_journal::{Happened, PartitionLimits};

use crate::Violation;
use crate::ledger::invariant::ensure;
use crate::ledger::{Asks, Ledger};
use crate::rng::Rng;
use client::{Call, Client};
use machine::{Machine, Pair};

/// Between the last fault and the end of a world.
const REST_US: u64 = 24_000_000;
/// Clients ask for nothing more so long before the end.
const LAST_CALLS_US: u64 = 4_000_000;
/// A follower has read a change so long after it became durable.
const FOLLOWED_US: u64 = 1_000_000;

/// More events than this at one instant are a circle of them.
const STEPS_AT_ONCE_MAX: u64 = 100_000;

/// The result of a seed.
#[derive(Clone, Debug, Default)]
pub struct ClusterReport {
    pub violation: Option<Violation>,
    pub counts: Counts,
    pub story: String,
    pub digest: u64,
}

macro_rules! counts {
    ($($name:ident),+ $(,)?) => {
        /// How often things happened.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts { $(pub $name: u64),+ }

        impl Counts {
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)+
            }

            /// Every count with its name.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),+]
            }
        }
    };
}

counts! {
    steps, answers, changes, calls, asks,
    kills, stops, pauses, drains, breaks, stalls, outages, late_requests, lost_requests, lost_replies, duplicates,
    burials, takes, takes_from_the_dead, let_gos, moved, lost, asked_again, hand_backs, left, undelivered, orphans,
    checkpoints, forgotten, proofs, proofs_refused, told, went_back, noticed, jumps,
}

#[derive(Clone, Debug)]
enum Event {
    Tick {
        machine: usize,
        boot: u64,
    },
    Arrive {
        machine: usize,
        boot: u64,
        op: u64,
        asked: Box<Op>,
        is_heard: bool,
    },
    Reply {
        machine: usize,
        boot: u64,
        op: u64,
        result: Box<Result<Done, SharedError>>,
    },
    Deliver {
        from: usize,
        to: usize,
        boots: (u64, u64),
        link: u64,
        message: Box<Message>,
    },
    /// A node has waited for callers for long enough.
    Wake {
        machine: usize,
        boot: u64,
    },
    Link {
        of: usize,
        peer: usize,
        number: u64,
        is_up: bool,
    },
    Mend {
        pair: usize,
    },
    Start {
        machine: usize,
    },
    Resume {
        machine: usize,
        boot: u64,
    },
    Act {
        client: usize,
    },
    Leave {
        call: u64,
    },
    Strike,
    /// The state of the store is kept, in a world where it goes back.
    Keep,
    GoBack,
    Calm,
}

/// The shape of a world, drawn once.
#[derive(Clone, Debug)]
struct Plan {
    machines: usize,
    clients: usize,
    partitions: Partitions,
    chaos_us: u64,
    /// Faults in a second, in thousandths.
    strikes: u64,
    callers_max: usize,
    checkpoint_every: u64,
    /// In a thousand requests to the store.
    store_faults: u64,
    wait_max_us: u64,
    ttl_max_us: u64,
    /// When the store goes back to an earlier state, in some worlds.
    goes_back_us: Option<u64>,
}

pub struct ClusterWorld {
    plan: Plan,
    now_us: u64,
    seq: u64,
    events: BTreeMap<(u64, u64), Event>,
    rng: Rng,
    store_rng: Rng,
    strike_rng: Rng,
    shelf: Shelf,
    /// A copy that lags behind, for a planted bug.
    stale: Vec<(u64, Shelf)>,
    /// Since when the store is away now and then, with less than [`storage::AT_REST_US`] between.
    store_away_since_us: u64,
    store_away_until_us: u64,
    lives: BTreeMap<NodeId, Life>,
    machines: Vec<Machine>,
    pairs: Vec<Pair>,
    clients: Vec<Client>,
    calls: BTreeMap<u64, Call>,
    ledgers: Vec<Ledger>,
    asks: Asks,
    /// The partition and the claim of each ask for one, by the machine and its number.
    asked: BTreeMap<(usize, u64), (u32, ClaimId)>,
    /// The first news that any node told its observers, by partition and position.
    told: BTreeMap<(u32, u64), Happened>,
    /// For each partition, stretches in which no service time may pass.
    unfair: Vec<Vec<(u64, u64)>>,
    buried: BTreeSet<NodeId>,
    /// When a change last became durable.
    changed_at_us: u64,
    past: past::Past,
    is_calm: bool,
    counts: Counts,
    story: Option<String>,
    digest: u64,
}

impl std::fmt::Debug for ClusterWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterWorld").field("plan", &self.plan).field("now_us", &self.now_us).finish_non_exhaustive()
    }
}

/// A line of the story, if it is told.
macro_rules! tell {
    ($world:expr, $($what:tt)*) => {
        if let Some(story) = &mut $world.story {
            use std::fmt::Write as _;
            let _ = write!(story, "{:>10} ", $world.now_us);
            let _ = writeln!(story, $($what)*);
        }
    };
}
use tell;

impl ClusterWorld {
    /// Runs the world of a seed to its end. A panic is a violation like any other.
    pub fn run(seed: u64, is_told: bool) -> ClusterReport {
        let mut world = ClusterWorld::new(seed, is_told);
        let result = std::panic::catch_unwind(AssertUnwindSafe(|| world.run_on()));
        let violation = match result {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(violation),
            Err(panic) => Some(Violation { invariant: "assertion", what: crate::world::said_in_panic(panic.as_ref()) }),
        };
        world.counts.changes = world.ledgers.iter().map(|ledger| ledger.head).sum();
        ClusterReport { violation, counts: world.counts, story: world.story.unwrap_or_default(), digest: world.digest }
    }

    fn new(seed: u64, is_told: bool) -> Self {
        let mut rng = Rng::new(seed, 101);
        let plan = Plan {
            machines: 2 + rng.index(3),
            clients: 3 + rng.index(4),
            partitions: Partitions::new(rng.pick(&[1, 1, 2, 4])).expect("a power of two"),
            chaos_us: rng.range(10_000_000, 22_000_000),
            strikes: rng.pick(&[300, 800, 1_500]),
            callers_max: rng.pick(&[3, 1_000]),
            checkpoint_every: rng.pick(&[5, 20, 1_000]),
            store_faults: rng.pick(&[2, 10, 40]),
            wait_max_us: rng.pick(&[500_000, 4_000_000, 60_000_000]),
            ttl_max_us: rng.pick(&[3_000_000, 10_000_000, 90_000_000]),
            goes_back_us: rng.chance(250).then(|| rng.range(4_000_000, 9_000_000)),
        };
        let partitions = plan.partitions.number() as usize;
        let mut world = ClusterWorld {
            now_us: 1_000_000,
            seq: 0,
            events: BTreeMap::new(),
            rng: Rng::new(seed, 102),
            store_rng: Rng::new(seed, 103),
            strike_rng: Rng::new(seed, 104),
            shelf: Shelf::default(),
            stale: Vec::new(),
            store_away_since_us: 0,
            store_away_until_us: 0,
            lives: BTreeMap::new(),
            machines: (0..plan.machines).map(Machine::new).collect(),
            pairs: machine::pairs(plan.machines),
            clients: (0..plan.clients).map(Client::new).collect(),
            calls: BTreeMap::new(),
            ledgers: (0..partitions).map(|_| Ledger { is_relayed: true, ..Ledger::new(limits()) }).collect(),
            asks: Asks::default(),
            asked: BTreeMap::new(),
            told: BTreeMap::new(),
            unfair: vec![Vec::new(); partitions],
            buried: BTreeSet::new(),
            changed_at_us: 0,
            past: past::Past::new(partitions),
            is_calm: false,
            counts: Counts::default(),
            story: is_told.then(String::new),
            digest: 0xcbf2_9ce4_8422_2325,
            plan,
        };
        for machine in 0..world.plan.machines {
            let at_us = world.now_us + 300_000 * machine as u64;
            world.at(at_us, Event::Start { machine });
        }
        for client in 0..world.plan.clients {
            world.at(1_500_000 + 10_000 * client as u64, Event::Act { client });
        }
        world.at(3_000_000, Event::Strike);
        if let Some(at_us) = world.plan.goes_back_us {
            world.at(2_000_000, Event::Keep);
            world.at(at_us, Event::GoBack);
        }
        let chaos_us = world.plan.chaos_us;
        world.at(chaos_us, Event::Calm);
        world
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.seq += 1;
        self.events.insert((at_us.max(self.now_us), self.seq), event);
    }

    fn run_on(&mut self) -> Result<(), Violation> {
        tell!(self, "{:?}", self.plan);
        let end_us = self.plan.chaos_us + REST_US;
        let mut at_once = 0;
        while let Some(((at_us, _), event)) = self.events.pop_first() {
            // Leases end when they end: followers get the time to read of it.
            if at_us > end_us.max(self.changed_at_us + FOLLOWED_US) {
                break;
            }
            at_once = if at_us == self.now_us { at_once + 1 } else { 0 };
            ensure(at_once < STEPS_AT_ONCE_MAX, "L6", || format!("time stands still at {at_us}: {event:?}"))?;
            self.now_us = at_us;
            self.counts.steps += 1;
            self.note(at_us);
            self.happen(event)?;
        }
        self.check_rest()
    }

    fn note(&mut self, number: u64) {
        self.digest = (self.digest ^ number).wrapping_mul(0x0000_0100_0000_01b3);
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Start { machine } => self.start(machine),
            Event::Tick { machine, boot } => self.tick(machine, boot),
            Event::Wake { machine, boot } => self.wake(machine, boot),
            Event::Arrive { machine, boot, op, asked, is_heard } => self.arrive(machine, boot, op, &asked, is_heard),
            Event::Reply { machine, boot, op, result } => self.reply(machine, boot, op, *result),
            Event::Deliver { from, to, boots, link, message } => self.deliver(from, to, boots, link, *message),
            Event::Link { of, peer, number, is_up } => self.link(of, peer, number, is_up),
            Event::Mend { pair } => {
                self.mend(pair);
                Ok(())
            }
            Event::Resume { machine, boot } => {
                self.resume(machine, boot);
                Ok(())
            }
            Event::Act { client } => self.act(client),
            Event::Leave { call } => self.leave(call),
            Event::Strike => self.strike(),
            Event::Keep => {
                self.keep_shelf();
                Ok(())
            }
            Event::GoBack => self.go_back(),
            Event::Calm => {
                self.calm();
                Ok(())
            }
        }
    }
}

fn limits() -> Limits {
    Limits { grace_us: 300_000, retain_us: 2_000_000, due_per_step: 256, ..Limits::default() }
}

fn partition_limits(plan: &Plan) -> PartitionLimits {
    PartitionLimits {
        callers_max: plan.callers_max,
        store_timeout_us: 2_500_000,
        backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
    }
}

/// Runs seeds until one breaks something.
pub fn run_seeds(seeds: std::ops::Range<u64>) -> (u64, Counts, Option<(u64, Violation)>) {
    let mut counts = Counts::default();
    let mut ran = 0;
    for seed in seeds {
        let outcome = ClusterWorld::run(seed, false);
        counts.add(&outcome.counts);
        ran += 1;
        if let Some(violation) = outcome.violation {
            return (ran, counts, Some((seed, violation)));
        }
    }
    (ran, counts, None)
}

/// One line about a run.
pub fn summary(seeds: u64, counts: &Counts) -> String {
    let all: Vec<String> =
        counts.all().into_iter().map(|(name, count)| format!("{} {count}", name.replace('_', " "))).collect();
    format!("cluster simulation: {seeds} seeds: {}", all.join(", "))
}
