//! Bugs that the simulation found, retold without it, one test each.

use leasehold_engine::{
    Acquire, ClaimId, Command, Engine, Labeling, Limits, Options, Patience, Quota, Refusal, Reply, ResourceKey, Time,
    Update, Wall, Wish,
};
use leasehold_journal::{Clocks, Denial, Epoch, Partition, PartitionLimits, Position, Request, Told};

const POOL: ResourceKey = ResourceKey::Pool(1);

/// A partition with a store that acts only on order.
struct Bench {
    partition: Partition<&'static str>,
    now_us: u64,
}

impl Bench {
    fn new() -> Bench {
        let engine = Engine::new(Limits { retain_us: 1_000_000, ..Limits::default() });
        let limits = PartitionLimits {
            callers_max: 100,
            store_timeout_us: 1_000_000,
            backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
        };
        let partition =
            Partition::new(engine, 0, Epoch(1), Position(0), Time(0), limits, Clocks { mono_us: 0, wall: Wall(0) });
        Bench { partition, now_us: 0 }
    }

    fn clocks(&self) -> Clocks {
        Clocks { mono_us: self.now_us, wall: Wall(self.now_us) }
    }

    fn ask(&mut self, who: &'static str, command: Command, listen_us: u64) {
        self.partition.submit(self.clocks(), Request { listen_us, ..command.into() }, who);
    }

    fn told(&mut self) -> Vec<Told<&'static str>> {
        let mut told = Vec::new();
        self.partition.poll_told(&mut told);
        told
    }

    /// Makes everything durable; returns the answers that leave, each with its caller.
    fn flush(&mut self) -> Vec<Told<&'static str>> {
        while self.partition.take_batch(self.clocks()).is_some() {
            self.partition.append_done(self.clocks());
        }
        self.told()
    }
}

fn borrow(id: u128, ttl_us: u64, wait_us: u64) -> Command {
    borrow_of(POOL, id, ttl_us, wait_us)
}

fn borrow_of(resource: ResourceKey, id: u128, ttl_us: u64, wait_us: u64) -> Command {
    Command::Acquire(Box::new(Acquire {
        resource,
        id: ClaimId(id),
        ttl_us,
        patience: Patience::For { wait_us },
        client: None,
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
}

fn position(told: &[Told<&'static str>], who: &str) -> u64 {
    told.iter().find(|told| told.to == who).expect("all callers are answered").position.0
}

/// Found as S6: an update that waited for its claim's turn ran in the middle of the step that brought the turn, and
/// the answer to that step carried the position of changes it had not seen.
#[test]
fn an_answer_does_not_carry_the_position_of_what_came_after_it() {
    let mut bench = Bench::new();
    let resource = ResourceKey::Claim("r".into());
    bench.ask("operator", Command::Configure { resource: resource.clone(), capacity: 0, label: Labeling::Kept }, 0);
    let acquire = Acquire {
        resource: resource.clone(),
        id: ClaimId(7),
        ttl_us: 0,
        patience: Patience::Standing,
        client: None,
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    };
    bench.ask("claimant", Command::Acquire(Box::new(acquire)), 0);
    let update = Update { status: Some(Wish::Active), ..Update::default() };
    bench.ask("listener", Command::Update { claim: ClaimId(7), update }, 1_000_000);
    bench.flush();

    // The claim gets its turn and, having no time to live, expires as soon as a command looks at it: the listener's
    // does.
    bench.ask("operator", Command::Configure { resource, capacity: 1, label: Labeling::Kept }, 0);
    let told = bench.flush();
    let Ok(Reply::Resource(view)) = &told.iter().find(|told| told.to == "operator").expect("answered").answer else {
        panic!("a resource was configured: {told:?}");
    };
    assert_eq!(view.in_use, 1, "as it was after the grant");
    assert!(position(&told, "operator") < position(&told, "listener"), "{told:?}");
}

/// Found as S6: a due deadline granted a waiter and the command of the same moment deleted its pool; the waiter was
/// told of a lease that had ended at the position of its answer (or, without a key, of a claim that no caller knows).
#[test]
fn what_was_due_is_answered_before_the_command_acts() {
    let mut bench = Bench::new();
    bench.ask("operator", Command::Configure { resource: POOL, capacity: 1, label: Labeling::Kept }, 0);
    bench.ask("holder", borrow(1, 50_000, 0), 0);
    bench.ask("waiter", borrow(2, 50_000, 1_000_000), 0);
    bench.flush();

    bench.now_us = 60_000;
    bench.ask("operator", Command::Unconfigure { resource: POOL }, 0);
    let told = bench.flush();
    let waiter = told.iter().find(|told| told.to == "waiter").expect("answered");
    assert!(matches!(waiter.answer, Ok(Reply::Lease(_))), "{waiter:?}");
    assert!(position(&told, "waiter") < position(&told, "operator"), "{told:?}");
}

/// The same with more deadlines due than one step handles, of which the first were only leases of other pools: due
/// deadlines are handled in one place, so whichever of the two comes first, the answer to the waiter shows it.
#[test]
fn however_much_is_due_a_grant_is_answered_before_the_command_acts() {
    let other = ResourceKey::Pool(2);
    for leases in [255, 256, 257, 300, 511, 512, 513] {
        let mut bench = Bench::new();
        bench.ask(
            "operator",
            Command::Configure { resource: other.clone(), capacity: leases, label: Labeling::Kept },
            0,
        );
        bench.ask("operator", Command::Configure { resource: POOL, capacity: 1, label: Labeling::Kept }, 0);
        for lease in 0..leases {
            bench.ask("another", borrow_of(other.clone(), 1_000 + u128::from(lease), 40_000, 0), 0);
            bench.flush();
        }
        bench.ask("holder", borrow(1, 50_000, 0), 0);
        bench.ask("waiter", borrow(2, 50_000, 1_000_000), 0);
        bench.flush();

        bench.now_us = 60_000;
        bench.ask("operator", Command::Unconfigure { resource: POOL }, 0);
        let told = bench.flush();
        let waiter = told.iter().find(|told| told.to == "waiter").expect("answered");
        match &waiter.answer {
            Ok(Reply::Lease(_)) => {
                assert!(position(&told, "waiter") < position(&told, "operator"), "{leases}: {told:?}");
            }
            other => {
                assert_eq!(*other, Err(Denial::Refused(Refusal::NoSuchResource)), "{leases} leases of another pool");
            }
        }
    }
}

/// Found as a panic, seed 1008: a queue long enough to have ranks had shrunk, and the next waiter was not among them.
#[test]
fn a_queue_that_was_long_and_is_short_again_has_its_ranks() {
    let mut bench = Bench::new();
    let resource = ResourceKey::Claim("r".into());
    let claim = |bench: &mut Bench, id: u128| {
        let Command::Acquire(acquire) = borrow_of(resource.clone(), id, 60_000_000, 0) else { unreachable!() };
        let standing = Acquire { patience: Patience::Standing, ..*acquire };
        bench.ask("claimant", Command::Acquire(Box::new(standing)), 0);
        bench.flush();
    };
    // Past every length at which a queue could be kept in another way, and back to a few.
    for id in 0..600 {
        claim(&mut bench, id);
    }
    for id in 3..600 {
        let update = Update { status: Some(Wish::Withdrawn), ..Update::default() };
        bench.ask("claimant", Command::Update { claim: ClaimId(id), update }, 0);
        bench.flush();
        if id % 97 == 0 {
            claim(&mut bench, 1_000 + id);
            bench.partition.engine().check();
        }
    }
    for (id, place) in [(1, 1), (2, 2), (1_097, 3), (1_194, 4)] {
        bench.ask("reader", Command::ViewClaim { claim: ClaimId(id) }, 0);
        let told = bench.flush();
        let Ok(Reply::Claim(view)) = &told[0].answer else { panic!("{told:?}") };
        assert_eq!(view.queue_position, Some(place), "claim {id}");
    }
}
