//! One partition driven by hand: callers are numbers, and the test plays the store by calling `append_done`.

mod leaving;
mod reign;
mod time;

use std::sync::Arc;

use leasehold_engine::{
    Acquire, ClaimStatus, Labeling, Limits, Options, Patience, Quota, ResourceKey, Update, What, Wish,
};

use super::*;
use crate::record::decode_batch;
use crate::{MemoryOpener, recover};

const S: u64 = 1_000_000;
const POOL: ResourceKey = ResourceKey::Pool(7);

struct Rig {
    partition: Partition<u32>,
    mono_us: u64,
    next_id: u128,
    marks: u32,
}

impl Rig {
    fn new() -> Self {
        let recovery = recover(&MemoryOpener::keeping(), 0, Limits::default()).unwrap();
        let limits = PartitionLimits {
            callers_max: 10,
            store_timeout_us: 10 * S,
            backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
        };
        let clocks = Clocks { mono_us: 0, wall: Wall(0) };
        let partition = Partition::new(recovery.engine, 0, recovery.epoch, recovery.head, recovery.at, limits, clocks);
        Rig { partition, mono_us: 0, next_id: 100, marks: 0 }
    }

    /// A pool with this many slots, all of it durable.
    fn with_pool(capacity: u32) -> Self {
        let mut world = Rig::new();
        world.ask(0, Command::Configure { resource: POOL, capacity, label: Labeling::Kept });
        world.store();
        world
    }

    fn clocks(&self) -> Clocks {
        Clocks { mono_us: self.mono_us, wall: Wall(self.mono_us) }
    }

    fn ask(&mut self, caller: u32, command: Command) -> Option<Ticket> {
        self.ask_listening(caller, command, 0)
    }

    fn ask_listening(&mut self, caller: u32, command: Command, listen_us: u64) -> Option<Ticket> {
        self.partition.submit(self.clocks(), Request { listen_us, ..command.into() }, caller)
    }

    fn acquire(&mut self, resource: ResourceKey, ttl_us: u64, patience: Patience) -> Command {
        self.next_id += 1;
        let id = ClaimId(self.next_id);
        Command::Acquire(Box::new(Acquire {
            resource,
            id,
            ttl_us,
            patience,
            client: None,
            principal: None,
            key: None,
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        }))
    }

    fn borrow(&mut self, caller: u32, wait_us: u64) -> (ClaimId, Option<Ticket>) {
        let command = self.acquire(POOL, 30 * S, Patience::For { wait_us });
        let ticket = self.ask(caller, command);
        (ClaimId(self.next_id), ticket)
    }

    /// The answers that can leave now, each with its caller.
    fn told(&mut self) -> Vec<(u32, Result<Reply, Denial>)> {
        let mut told = Vec::new();
        self.partition.poll_told(&mut told);
        told.into_iter().map(|told| (told.to, told.answer)).collect()
    }

    /// Appends everything there is, and returns the answers that may leave after it.
    fn store(&mut self) -> Vec<(u32, Result<Reply, Denial>)> {
        self.append();
        self.told()
    }

    /// Appends everything there is; nothing while a batch that a test took is under way.
    fn append(&mut self) {
        while let Some(batch) = self.partition.take_batch(self.clocks()) {
            let changes = decode_batch(&batch.record).unwrap().changes;
            let marks = changes.iter().filter(|(_, change)| *change == leasehold_engine::Change::Marked).count();
            self.marks += u32::try_from(marks).unwrap();
            self.partition.append_done(self.clocks());
        }
    }

    /// Lets time pass like a driver that keeps to `next_wake` and appends every batch. Returns how often it woke up.
    fn pass(&mut self, duration_us: u64) -> u32 {
        let end_us = self.mono_us + duration_us;
        let mut wakes = 0;
        self.append();
        while self.mono_us < end_us {
            let wake_us = self.partition.next_wake().unwrap_or(u64::MAX);
            self.mono_us = wake_us.clamp(self.mono_us + 1, end_us);
            self.partition.tick(self.clocks());
            self.append();
            wakes += 1;
        }
        wakes
    }

    fn effects(&mut self) -> Vec<What> {
        let mut effects = Vec::new();
        self.partition.poll_effects(&mut effects);
        effects.into_iter().map(|happened| happened.effect.what).collect()
    }
}

fn lease(answer: &Result<Reply, Denial>) -> (ClaimId, u32) {
    match answer {
        Ok(Reply::Lease(view)) => (view.claim, view.slot),
        other => panic!("not a lease: {other:?}"),
    }
}

#[test]
fn nothing_is_said_before_it_is_durable_not_even_a_read() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    world.ask(2, Command::ViewResource { resource: POOL });
    world.borrow(3, 0);
    assert_eq!(world.told(), [], "the grant, what was read of it and the refusal it caused");
    let told = world.store();
    let who: Vec<u32> = told.iter().map(|(who, _)| *who).collect();
    assert_eq!(who, [1, 2, 3], "in the order they asked");
    assert!(matches!(told[2].1, Err(Denial::Refused(Refusal::NoneFree { waiting: 0, eta_us: None, pause: None }))));
}

#[test]
fn a_read_of_what_is_durable_leaves_at_once() {
    let mut world = Rig::with_pool(1);
    world.ask(1, Command::ViewResource { resource: POOL });
    assert_eq!(world.told().len(), 1);
}

#[test]
fn the_next_batch_fills_while_the_last_is_written() {
    let mut world = Rig::with_pool(5);
    world.borrow(1, 0);
    let first = world.partition.take_batch(world.clocks()).unwrap();
    world.borrow(2, 0);
    world.borrow(3, 0);
    assert!(world.partition.take_batch(world.clocks()).is_none(), "one append at a time");
    world.partition.append_done(world.clocks());
    assert_eq!(world.told().len(), 1);
    let second = world.partition.take_batch(world.clocks()).unwrap();
    assert_eq!(second.first, first.last.next());
    world.partition.append_done(world.clocks());
    assert_eq!(world.told().len(), 2);
}

#[test]
fn a_waiter_gets_the_slot_that_is_returned() {
    let mut world = Rig::with_pool(1);
    let (claim, _) = world.borrow(1, 0);
    let (_, ticket) = world.borrow(2, 60 * S);
    assert!(ticket.is_some());
    assert_eq!(world.store().len(), 1, "the second is parked");
    world.ask(1, Command::Return { resource: POOL, claim });
    let told = world.store();
    assert_eq!(told.len(), 2);
    assert_eq!((told[0].0, lease(&told[0].1).1), (2, 0));
    assert_eq!(told[1], (1, Ok(Reply::Returned(true))));
}

#[test]
fn a_wait_runs_out_in_service_time() {
    let mut world = Rig::with_pool(0);
    world.borrow(1, 2 * S);
    world.store();
    world.pass(2 * S - 1);
    assert_eq!(world.store(), []);
    world.pass(1);
    assert_eq!(world.store(), [(1, Err(Denial::Refused(Refusal::NoneFree { waiting: 0, eta_us: None, pause: None })))]);
}

#[test]
fn who_leaves_while_parked_is_passed_over() {
    let mut world = Rig::with_pool(1);
    let (claim, _) = world.borrow(1, 0);
    let (_, ticket) = world.borrow(2, 60 * S);
    world.borrow(3, 60 * S);
    world.partition.leave(world.clocks(), ticket.unwrap());
    world.ask(1, Command::Return { resource: POOL, claim });
    let told = world.store();
    assert!(told.iter().all(|(who, _)| *who != 2));
    assert_eq!(lease(&told.iter().find(|(who, _)| *who == 3).unwrap().1).1, 0);
    world.partition.leave(world.clocks(), ticket.unwrap());
    assert!(!world.partition.has_batch(), "leaving twice is nothing");
}

#[test]
fn an_answer_nobody_took_is_handed_back() {
    let mut world = Rig::with_pool(1);
    let (claim, _) = world.borrow(1, 0);
    world.borrow(2, 60 * S);
    let mut told = Vec::new();
    world.store();
    world.partition.hand_back(world.clocks(), claim);
    while let Some(_batch) = world.partition.take_batch(world.clocks()) {
        world.partition.append_done(world.clocks());
    }
    world.partition.poll_told(&mut told);
    assert_eq!((told[0].to, told[0].untold), (2, Some(lease(&told[0].answer).0)), "the next in line has it");
    world.effects();
}

#[test]
fn a_late_store_means_502_and_what_lands_later_is_given_back() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    world.borrow(2, 300 * S);
    let late = world.partition.take_batch(world.clocks()).unwrap();
    world.pass(9 * S);
    assert_eq!(world.told(), []);
    world.pass(S + TICK_US);
    assert_eq!(world.told(), [(2, Err(Denial::StoreLate)), (1, Err(Denial::StoreLate))]);
    assert_eq!(late.last, Position(4), "configured, claimed, granted, claimed");
    world.partition.append_done(world.clocks());
    assert_eq!(world.store(), [], "no caller is told anything else");
    world.ask(3, Command::ViewResource { resource: POOL });
    let told = world.store();
    let Ok(Reply::Resource(pool)) = &told[0].1 else { panic!("{told:?}") };
    assert_eq!((pool.in_use, pool.waiting), (0, 0));
}

#[test]
fn a_hanging_append_stops_the_clock() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    world.store();
    let before = world.partition.service_time();
    world.ask(2, Command::Configure { resource: POOL, capacity: 2, label: Labeling::Kept });
    world.partition.take_batch(world.clocks()).unwrap();
    world.pass(8 * S);
    assert_eq!(world.partition.service_time().since(before), STRETCH_MAX_US);
    world.partition.append_done(world.clocks());
    world.pass(S);
    assert_eq!(world.partition.service_time().since(before), STRETCH_MAX_US + S);
}

#[test]
fn past_the_bound_callers_are_turned_away_at_once() {
    let mut world = Rig::with_pool(0);
    for caller in 0..10 {
        world.borrow(caller, 60 * S);
    }
    world.borrow(10, 60 * S);
    assert_eq!(world.told(), [(10, Err(Denial::Overloaded))]);
}

#[test]
fn a_full_store_takes_returns_but_no_borrows() {
    let mut world = Rig::with_pool(2);
    let (claim, _) = world.borrow(1, 0);
    world.store();
    world.partition.set_store_full(true);
    world.borrow(2, 0);
    assert_eq!(world.told(), [(2, Err(Denial::Refused(Refusal::StoreFull)))]);
    world.ask(1, Command::Return { resource: POOL, claim });
    assert_eq!(world.store(), [(1, Ok(Reply::Returned(true)))]);
}

/// While an append hangs, the next batch filled without bound: answers were given up after a while, and more came.
#[test]
fn while_an_append_hangs_the_next_batch_is_bounded() {
    let mut world = Rig::with_pool(u32::MAX);
    world.partition.limits.backlog_bytes_max = 4_000;
    let (held, _) = world.borrow(1, 0);
    world.store();
    world.borrow(2, 0);
    let hanging = world.partition.take_batch(world.clocks()).unwrap();
    // Large ones of callers that are given up on after ten seconds each time.
    let metadata: Arc<str> = "m".repeat(500).into();
    let mut refused_at = None;
    for round in 0..60 {
        let mut command = world.acquire(ResourceKey::Claim(format!("r{round}").into()), 30 * S, Patience::Standing);
        let Command::Acquire(acquire) = &mut command else { unreachable!() };
        acquire.metadata = Some(Arc::clone(&metadata));
        world.ask(round, command);
        let told = world.told();
        if told.contains(&(round, Err(Denial::StoreBehind))) {
            refused_at.get_or_insert(round);
        }
        world.mono_us += S;
        world.partition.tick(world.clocks());
        world.told();
    }
    // Claims of callers that were given up on are handed back: small changes, one for each claim.
    let refused_at = refused_at.expect("growth was refused");
    assert!((3..9).contains(&refused_at), "refused at {refused_at}");
    assert!(world.partition.backlog_bytes() < 3 * 4_000, "{} bytes wait", world.partition.backlog_bytes());

    // A renewal goes on, and waits for the store like every answer.
    world.ask(1, Command::Renew { resource: POOL, claim: held, ttl_us: 30 * S });
    assert_eq!(world.told(), []);
    // Renewals are small, but a caller that sends them without end is turned away as well.
    let mut renewals = 0;
    loop {
        world.ask(1, Command::Renew { resource: POOL, claim: held, ttl_us: 30 * S + renewals });
        if world.told().contains(&(1, Err(Denial::StoreBehind))) {
            break;
        }
        renewals += 1;
        assert!(renewals < 1_000, "no end of it");
        world.mono_us += 2 * S;
        world.partition.tick(world.clocks());
        world.told();
    }
    assert!(world.partition.backlog_bytes() < 3 * 4_000, "{} bytes wait", world.partition.backlog_bytes());

    // The store is back: everything goes on.
    assert_eq!(hanging.last, world.partition.in_flight.unwrap().0);
    world.partition.append_done(world.clocks());
    world.store();
    world.borrow(5, 0);
    assert_eq!(world.store().len(), 1);
    assert!(!world.partition.room.is_behind);
}

/// Both reasons to take nothing new on come and go by themselves.
#[test]
fn a_store_that_is_full_stays_full_when_it_has_caught_up() {
    let mut world = Rig::with_pool(2);
    world.partition.set_store_full(true);
    world.partition.set_store_behind(true);
    world.borrow(1, 0);
    assert_eq!(world.told(), [(1, Err(Denial::StoreBehind))]);
    world.partition.set_store_behind(false);
    world.borrow(1, 0);
    assert_eq!(world.told(), [(1, Err(Denial::Refused(Refusal::StoreFull)))]);
    world.partition.set_store_behind(true);
    world.partition.set_store_full(false);
    world.borrow(1, 0);
    assert_eq!(world.told(), [(1, Err(Denial::StoreBehind))]);
    world.partition.set_store_behind(false);
    world.borrow(1, 0);
    assert_eq!(lease(&world.store()[0].1).1, 0);
}

#[test]
fn shutting_down_answers_the_parked_and_keeps_what_was_said() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    world.borrow(2, 60 * S);
    world.partition.shut_down(world.clocks());
    assert_eq!(world.told(), [], "neither the grant nor the withdrawal is durable");
    let told = world.store();
    assert_eq!((told[0].0, lease(&told[0].1).1), (1, 0));
    assert_eq!(told[1], (2, Err(Denial::ShuttingDown)));
    world.borrow(3, 0);
    assert_eq!(world.told(), [(3, Err(Denial::ShuttingDown))]);
    assert!(world.partition.is_at_rest());
    assert_eq!(world.partition.totals().waiting, 0);
}

#[test]
fn shutting_down_with_a_dead_store_keeps_nobody_for_long() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    world.borrow(2, 60 * S);
    world.partition.take_batch(world.clocks()).unwrap();
    world.partition.shut_down(world.clocks());
    world.pass(5 * S - 1);
    assert_eq!(world.told(), []);
    world.pass(1);
    assert_eq!(world.told(), [(1, Err(Denial::StoreLate)), (2, Err(Denial::StoreLate))]);
}

/// Borrows under a key: the same key for every caller.
fn borrow_with_key(world: &mut Rig, caller: u32, wait_us: u64) -> (ClaimId, Option<Ticket>) {
    let Command::Acquire(mut acquire) = world.acquire(POOL, 30 * S, Patience::For { wait_us }) else { unreachable!() };
    acquire.key = Some(leasehold_engine::IdempotencyKey { name: "k".into(), fingerprint: 1 });
    let id = acquire.id;
    (id, world.ask(caller, Command::Acquire(acquire)))
}

/// The numbers of holders and waiters, once everything is durable.
fn in_use_and_waiting(world: &mut Rig) -> (usize, usize) {
    world.store();
    let totals = world.partition.totals();
    (totals.claims - totals.waiting, totals.waiting)
}

#[test]
fn what_two_callers_share_is_given_back_when_both_are_told_502() {
    let mut world = Rig::with_pool(1);
    borrow_with_key(&mut world, 1, 0);
    world.partition.take_batch(world.clocks()).unwrap();
    world.pass(4 * S);
    borrow_with_key(&mut world, 2, 0);
    world.pass(6 * S + TICK_US);
    assert_eq!(world.told(), [(1, Err(Denial::StoreLate))]);
    assert_eq!(world.partition.totals().claims, 1, "the second may still be told");
    world.pass(4 * S);
    assert_eq!(world.told(), [(2, Err(Denial::StoreLate))]);
    world.partition.append_done(world.clocks());
    assert_eq!(in_use_and_waiting(&mut world), (0, 0));
    // The key is as if it had never been used.
    let (third, _) = borrow_with_key(&mut world, 3, 0);
    assert_eq!(lease(&world.store()[0].1).0, third);
}

#[test]
fn what_two_callers_share_stays_when_one_of_them_was_told() {
    let mut world = Rig::with_pool(1);
    let (claim, _) = borrow_with_key(&mut world, 1, 0);
    assert_eq!(world.store().len(), 1);
    for caller in 2..=4 {
        borrow_with_key(&mut world, caller, 0);
    }
    world.partition.take_batch(world.clocks()).unwrap();
    world.pass(10 * S + TICK_US);
    assert_eq!(world.told().len(), 3);
    world.partition.append_done(world.clocks());
    assert_eq!(in_use_and_waiting(&mut world), (1, 0));
    // Not even when each of them is undeliverable in its own way.
    world.partition.hand_back(world.clocks(), claim);
    assert_eq!(in_use_and_waiting(&mut world), (0, 0), "but the first was not told either, after all");
}

#[test]
fn what_two_callers_share_is_given_back_when_one_left_and_the_other_could_not_be_told() {
    let mut world = Rig::with_pool(1);
    let (holder, _) = world.borrow(1, 0);
    let (claim, first) = borrow_with_key(&mut world, 2, 60 * S);
    borrow_with_key(&mut world, 3, 60 * S);
    world.partition.leave(world.clocks(), first.unwrap());
    world.ask(1, Command::Return { resource: POOL, claim: holder });
    let told = world.store();
    assert_eq!(lease(&told.iter().find(|(who, _)| *who == 3).unwrap().1).0, claim);
    world.partition.hand_back(world.clocks(), claim);
    assert_eq!(in_use_and_waiting(&mut world), (0, 0));
}

#[test]
fn what_somebody_renewed_by_its_name_is_known() {
    let mut world = Rig::with_pool(1);
    let (claim, _) = borrow_with_key(&mut world, 1, 0);
    borrow_with_key(&mut world, 2, 0);
    world.store();
    world.ask(2, Command::Renew { resource: POOL, claim, ttl_us: 30 * S });
    world.store();
    world.partition.hand_back(world.clocks(), claim);
    world.partition.hand_back(world.clocks(), claim);
    assert_eq!(in_use_and_waiting(&mut world), (1, 0));
}

#[test]
fn a_lock_asked_for_twice_is_given_back_when_neither_answer_left_and_kept_when_it_was_held_before() {
    let key = || ResourceKey::Lock(Arc::from("job"));
    let lock = |world: &mut Rig, caller: u32| {
        let Command::Acquire(mut acquire) = world.acquire(key(), 300 * S, Patience::For { wait_us: 0 }) else {
            unreachable!()
        };
        acquire.client = Some("ann".into());
        world.ask(caller, Command::Acquire(acquire));
    };
    let mut world = Rig::new();
    lock(&mut world, 1);
    lock(&mut world, 2);
    world.partition.take_batch(world.clocks()).unwrap();
    world.pass(10 * S + TICK_US);
    assert_eq!(world.told(), [(1, Err(Denial::StoreLate)), (2, Err(Denial::StoreLate))]);
    world.partition.append_done(world.clocks());
    assert_eq!(in_use_and_waiting(&mut world), (0, 0));

    lock(&mut world, 3);
    assert_eq!(world.store().len(), 1);
    lock(&mut world, 4);
    lock(&mut world, 5);
    world.partition.take_batch(world.clocks()).unwrap();
    world.pass(10 * S + TICK_US);
    assert_eq!(world.told().len(), 2);
    world.partition.append_done(world.clocks());
    assert_eq!(in_use_and_waiting(&mut world), (1, 0), "caller 3 holds it");
}

#[test]
fn time_is_marked_every_second_while_a_deadline_is_near() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    for _ in 0..100 {
        world.pass(S / 10);
        world.store();
    }
    assert!((9..=10).contains(&world.marks), "{} marks in ten seconds", world.marks);
}

#[test]
fn time_is_marked_seldom_while_deadlines_are_far_and_never_without_leases() {
    let mut world = Rig::with_pool(1);
    world.pass(3600 * S);
    assert!(!world.partition.has_batch());
    let command = world.acquire(POOL, 24 * 3600 * S, Patience::For { wait_us: 0 });
    world.ask(1, command);
    for _ in 0..120 {
        world.pass(S);
        world.store();
    }
    assert!((3..=4).contains(&world.marks), "{} marks in two minutes", world.marks);
}

#[test]
fn nothing_wakes_an_idle_partition() {
    let mut world = Rig::with_pool(1);
    assert_eq!(world.partition.next_wake(), None);
    world.borrow(1, 0);
    world.store();
    assert_eq!(world.partition.next_wake(), Some(TICK_US));
}

#[test]
fn a_claim_listened_for_is_answered_when_its_turn_comes_or_time_is_up() {
    let key = || ResourceKey::Claim(Arc::from("r"));
    let mut world = Rig::new();
    let first = world.acquire(key(), 5 * S, Patience::Standing);
    world.ask(1, first);
    let second = world.acquire(key(), 5 * S, Patience::Standing);
    world.ask_listening(2, second, 60 * S);
    let third = world.acquire(key(), 5 * S, Patience::Standing);
    world.ask_listening(3, third, 2 * S);
    world.store();
    world.pass(2 * S);
    let status = |answer: &Result<Reply, Denial>| match answer {
        Ok(Reply::Claim(view)) => view.status,
        other => panic!("not a claim: {other:?}"),
    };
    let told = world.store();
    assert_eq!((told[0].0, status(&told[0].1)), (3, ClaimStatus::Waiting));
    world.pass(3 * S);
    let told = world.store();
    assert_eq!((told[0].0, status(&told[0].1)), (2, ClaimStatus::Active));
}

#[test]
fn an_activation_listened_for_happens_or_is_refused_at_the_end() {
    let key = || ResourceKey::Claim(Arc::from("r"));
    let mut world = Rig::new();
    for caller in 1..=3 {
        let command = world.acquire(key(), 5 * S, Patience::Standing);
        world.ask(caller, command);
    }
    world.store();
    let activate = Update { status: Some(Wish::Active), ..Update::default() };
    let third = ClaimId(world.next_id);
    let second = ClaimId(world.next_id - 1);
    world.ask_listening(2, Command::Update { claim: second, update: activate }, 60 * S);
    world.ask_listening(3, Command::Update { claim: third, update: activate }, S);
    world.pass(5 * S);
    let told = world.store();
    assert_eq!(told[0], (3, Err(Denial::Refused(Refusal::Contended))));
    assert!(matches!(&told[1], (2, Ok(Reply::Claim(view))) if view.status == ClaimStatus::Active));
}

#[test]
fn a_listener_that_leaves_takes_the_claim_it_made_with_it_and_no_other() {
    let key = || ResourceKey::Claim(Arc::from("r"));
    let mut world = Rig::new();
    for caller in 1..=2 {
        let command = world.acquire(key(), 5 * S, Patience::Standing);
        world.ask(caller, command);
    }
    let second = ClaimId(world.next_id);
    let command = world.acquire(key(), 5 * S, Patience::Standing);
    let made = world.ask_listening(3, command, 60 * S).unwrap();
    let watched = world.ask_listening(4, Command::ViewClaim { claim: second }, 60 * S).unwrap();
    world.store();
    world.partition.leave(world.clocks(), made);
    world.partition.leave(world.clocks(), watched);
    assert_eq!(world.partition.totals().waiting, 1, "only the claim that no caller was told of is gone");
    assert!(world.partition.engine().is_waiting(second));
}
