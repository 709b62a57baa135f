//! Exhaustive small scopes of callers: everything that three callers, the store and time can do to one partition, in
//! every order, to a depth. `scope` walks the engine's handling of commands; this walks callers that ask, leave, are
//! told and are gone, which can leave claims behind that no caller knows of.
//!
//! A partition cannot be copied, so every state is reached by doing everything again from the start; states that look
//! the same in every respect are reached once.

mod bench;

use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use leasehold_engine::{Command, Kind, Labeling, ResourceKey};

pub use crate::scope::Walked;
use bench::Bench;

/// A stretch of time. Two of them are shorter than the part of a standstill that counts.
pub const UNIT_US: u64 = 40_000;

/// A scope: the callers, each with one wish, and their resource.
#[derive(Clone, Debug)]
pub struct Callers {
    pub wishes: Vec<CallerWish>,
    pub resource: ResourceKey,
    pub capacity: u32,
    /// If `false`, every change counts as durable at once.
    pub is_journaled: bool,
    /// The steps before the walk begins.
    pub from: Vec<Step>,
    /// The walk ends here.
    pub states_max: usize,
}

/// The request of one caller.
#[derive(Clone, Copy, Debug)]
pub struct CallerWish {
    /// Its name: the client of a lock, the owner of a claim.
    pub client: Option<&'static str>,
    pub key: Option<&'static str>,
    pub ttl: u64,
    /// How long it waits, in units.
    pub wait: u64,
}

/// One step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ask(usize),
    /// The caller hangs up, wherever its call is.
    Leave(usize),
    /// Time passes, and nothing runs.
    Pass,
    Tick,
    /// The committer takes the batch to the store.
    Write,
    /// The append under way is over.
    Land,
    Delete,
    StoreFull,
}

/// The request of a caller without a name.
const PLAIN: CallerWish = CallerWish { client: None, key: None, ttl: 1, wait: 0 };

impl Callers {
    /// One caller takes a slot, and two wait for it.
    pub fn of_a_pool(states_max: usize) -> Callers {
        let wishes =
            vec![CallerWish { ttl: 2, ..PLAIN }, CallerWish { wait: 1, ..PLAIN }, CallerWish { wait: 4, ..PLAIN }];
        Callers {
            wishes,
            resource: ResourceKey::Pool(1),
            capacity: 1,
            is_journaled: true,
            from: Vec::new(),
            states_max,
        }
    }

    /// The same once all three have asked.
    pub fn of_a_pool_in_use(states_max: usize) -> Callers {
        let from = vec![Step::Ask(0), Step::Ask(1), Step::Ask(2), Step::Write, Step::Land];
        Callers { from, ..Callers::of_a_pool(states_max) }
    }

    /// The same with a store that keeps nothing.
    pub fn of_a_pool_in_memory(states_max: usize) -> Callers {
        Callers { is_journaled: false, ..Callers::of_a_pool(states_max) }
    }

    /// All signed on under one name; two repeat each other under one key.
    pub fn of_one_owner(states_max: usize) -> Callers {
        let owned = CallerWish { client: Some("ann"), ttl: 6, ..PLAIN };
        let shared = CallerWish { key: Some("ann\nk"), wait: 2, ..owned };
        let wishes = vec![owned, shared, CallerWish { wait: 4, ..shared }];
        Callers {
            wishes,
            resource: ResourceKey::Pool(1),
            capacity: 2,
            is_journaled: true,
            from: Vec::new(),
            states_max,
        }
    }

    /// One client takes it, and two calls of another wait for it, each for its own time.
    pub fn of_a_lock(states_max: usize) -> Callers {
        let bob = CallerWish { client: Some("bob"), ..PLAIN };
        let wishes = vec![
            CallerWish { client: Some("ann"), ttl: 2, ..PLAIN },
            CallerWish { wait: 1, ..bob },
            CallerWish { wait: 4, ..bob },
        ];
        Callers {
            wishes,
            resource: ResourceKey::Lock("l".into()),
            capacity: 1,
            is_journaled: true,
            from: Vec::new(),
            states_max,
        }
    }

    /// One caller takes it, and two listen for their turn under one key.
    pub fn of_a_claimed_resource(states_max: usize) -> Callers {
        let owned = CallerWish { client: Some("ann"), ttl: 2, ..PLAIN };
        let shared = CallerWish { key: Some("ann\nk"), wait: 2, ..owned };
        let wishes = vec![owned, shared, CallerWish { wait: 3, ..shared }];
        Callers {
            wishes,
            resource: ResourceKey::Claim("r".into()),
            capacity: 1,
            is_journaled: true,
            from: Vec::new(),
            states_max,
        }
    }

    /// All scopes.
    pub fn all(states_max: usize) -> [Callers; 6] {
        [
            Callers::of_a_pool(states_max),
            Callers::of_a_pool_in_use(states_max),
            Callers::of_a_pool_in_memory(states_max),
            Callers::of_one_owner(states_max),
            Callers::of_a_lock(states_max),
            Callers::of_a_claimed_resource(states_max),
        ]
    }

    /// Walks, and panics with the way there when an invariant does not hold.
    pub fn walk(&self) -> Walked {
        let mut seen = BTreeSet::from([digest(&self.play(&self.from))]);
        let mut frontier = VecDeque::from([self.from.clone()]);
        let mut walked = Walked { states: 1, ..Walked::default() };
        while let Some(way) = frontier.pop_front() {
            walked.depth = u32::try_from(way.len() - self.from.len()).expect("ways are short");
            for step in self.play(&way).steps() {
                walked.steps += 1;
                let mut way = way.clone();
                way.push(step);
                if seen.insert(digest(&self.play(&way))) {
                    self.check(&way);
                    frontier.push_back(way);
                }
            }
            if seen.len() >= self.states_max {
                break;
            }
        }
        walked.states = seen.len();
        walked.is_complete |= frontier.is_empty();
        walked
    }

    fn play(&self, way: &[Step]) -> Bench<'_> {
        let _told = Told(way);
        let mut bench = Bench::new(self);
        for step in way {
            bench.step(*step);
        }
        bench
    }

    /// Whichever step comes next, no claim is left without a caller.
    fn check(&self, way: &[Step]) {
        let told = |what: &str| format!("{what} after {way:?}");
        self.play(way).everybody_leaves(&told("all leave"));
        self.play(way).nobody_waits_too_long(&told("time passes"));
        self.play(way).shuts_down(&told("shut down"));
        if self.is_journaled {
            self.play(way).restarts(&told("a crash"));
        }
    }

    pub(crate) fn configuration(&self) -> Option<Command> {
        let resource = self.resource.clone();
        (resource.kind() != Kind::Lock).then_some(Command::Configure {
            resource,
            capacity: self.capacity,
            label: Labeling::Kept,
        })
    }
}

/// Prints the way to a panic.
struct Told<'a>(&'a [Step]);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("after {:?}", self.0);
        }
    }
}

fn digest(bench: &Bench<'_>) -> u128 {
    let text = format!("{bench:?}");
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, &text).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}
