//! Callers that are gone hold nothing: they leave at the instant of a change, are told 502 or 503, or share a claim.

use leasehold_engine::IdempotencyKey;

use super::*;

/// One slot that is held until 30 s, a waiter for it, and the deadline has just passed without a tick.
fn waiter_at_the_deadline() -> (Rig, Ticket) {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    let (_, ticket) = world.borrow(2, 60 * S);
    world.store();
    world.pass(30 * S - 1);
    assert_eq!(in_use_and_waiting(&mut world), (1, 1));
    world.mono_us += 1;
    (world, ticket.unwrap())
}

#[test]
fn a_waiter_that_leaves_at_the_moment_of_an_expiry_holds_nothing() {
    let (mut world, ticket) = waiter_at_the_deadline();
    world.partition.leave(world.clocks(), ticket);
    world.append();
    // The grant went out as an answer, and the driver finds that its caller is gone.
    let mut told = Vec::new();
    world.partition.poll_told(&mut told);
    for told in told {
        world.partition.hand_back(world.clocks(), told.untold.expect("it tells of a grant"));
    }
    assert_eq!(in_use_and_waiting(&mut world), (0, 0));
    world.partition.check();
}

#[test]
fn a_shutdown_at_the_moment_of_an_expiry_answers_the_waiter_with_the_truth() {
    let (mut world, _) = waiter_at_the_deadline();
    world.partition.shut_down(world.clocks());
    let told = world.store();
    assert_eq!((told.len(), lease(&told[0].1).1), (1, 0), "granted by time, and told so");
    assert_eq!(in_use_and_waiting(&mut world), (1, 0), "no slot for a caller that heard 503");
}

#[test]
fn waiters_of_the_past_are_withdrawn_at_the_start_however_many_leases_are_due() {
    let opener = MemoryOpener::keeping();
    let start = || {
        let recovery = recover(&opener, 0, Limits::default()).unwrap();
        let limits = PartitionLimits {
            callers_max: 1_000,
            store_timeout_us: 10 * S,
            backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
        };
        // Everything that is held is due at once.
        let at = recovery.at.plus(60 * S);
        let clocks = Clocks::default();
        (Partition::new(recovery.engine, 0, recovery.epoch, recovery.head, at, limits, clocks), recovery.store)
    };
    let (mut partition, mut store) = start();
    let mut submit = |command| {
        partition.submit(Clocks::default(), Request::from(command), 0);
        if let Some(batch) = partition.take_batch(Clocks::default()) {
            store.append(&batch).unwrap();
            partition.append_done(Clocks::default());
        }
    };
    let mut next_id = 0;
    let mut borrow = |pool, wait_us| {
        next_id += 1;
        let resource = ResourceKey::Pool(pool);
        let patience = Patience::For { wait_us };
        Command::Acquire(Box::new(Acquire {
            resource,
            id: ClaimId(next_id),
            ttl_us: 30 * S,
            patience,
            client: None,
            principal: None,
            key: None,
            metadata: None,
            quota: Quota::NONE,
            options: Options::default(),
        }))
    };
    submit(Command::Configure { resource: ResourceKey::Pool(1), capacity: 1_000, label: Labeling::Kept });
    submit(Command::Configure { resource: POOL, capacity: 1, label: Labeling::Kept });
    for _ in 0..300 {
        submit(borrow(1, 0));
    }
    submit(borrow(7, 0));
    submit(borrow(7, 300 * S));
    drop(store);

    let (mut partition, _store) = start();
    partition.tick(Clocks::default());
    partition.tick(Clocks::default());
    let totals = partition.totals();
    assert_eq!((totals.claims, totals.waiting), (0, 0), "the waiter's connection is gone, so it was not granted");
}

fn owned(world: &mut Rig, resource: ResourceKey, patience: Patience, key: Option<&str>) -> Command {
    let Command::Acquire(mut acquire) = world.acquire(resource, 300 * S, patience) else { unreachable!() };
    acquire.client = Some("ann".into());
    acquire.key = key.map(|key| IdempotencyKey { name: key.into(), fingerprint: 1 });
    Command::Acquire(acquire)
}

#[test]
fn what_a_signed_on_caller_asked_for_twice_is_handed_back_when_both_calls_get_502() {
    const NOW: Patience = Patience::For { wait_us: 0 };
    for renewed in [false, true] {
        let mut world = Rig::with_pool(2);
        // Another lease of the same owner, in the lowest slot, known to its holder.
        let other = owned(&mut world, POOL, NOW, None);
        world.ask(1, other);
        let claim = ClaimId(world.next_id);
        if renewed {
            world.ask(1, Command::Renew { resource: POOL, claim, ttl_us: 300 * S });
        }
        world.store();
        for caller in [2, 3] {
            let command = owned(&mut world, POOL, NOW, Some("k"));
            world.ask(caller, command);
        }
        let batch = world.partition.take_batch(world.clocks());
        assert!(batch.is_some());
        world.pass(10 * S + TICK_US);
        assert_eq!(world.told(), [(2, Err(Denial::StoreLate)), (3, Err(Denial::StoreLate))]);
        world.partition.append_done(world.clocks());
        assert_eq!(in_use_and_waiting(&mut world), (1, 0), "renewed: {renewed}");
    }
}

#[test]
fn a_standing_claim_of_a_signed_on_caller_ends_when_all_its_calls_left() {
    for renewed in [false, true] {
        let mut world = Rig::new();
        let key = || ResourceKey::Claim("r".into());
        let first = owned(&mut world, key(), Patience::Standing, None);
        world.ask_listening(1, first, 60 * S);
        let claim = ClaimId(world.next_id);
        if renewed {
            let update = Update { ttl_us: Some(300 * S), ..Update::default() };
            world.ask(1, Command::Update { claim, update });
        }
        world.store();
        let tickets: Vec<_> = [2, 3]
            .into_iter()
            .map(|caller| {
                let command = owned(&mut world, key(), Patience::Standing, Some("k"));
                world.ask_listening(caller, command, 60 * S).unwrap()
            })
            .collect();
        world.store();
        for ticket in tickets {
            world.partition.leave(world.clocks(), ticket);
        }
        assert_eq!((world.partition.totals().claims, world.partition.totals().waiting), (1, 0), "renewed: {renewed}");
    }
}

/// Found by simulation, seed 5207: a question that was written down made the service forget who knew of the claim.
#[test]
fn a_standing_claim_that_was_told_stays_when_a_repeated_call_gets_502() {
    let mut world = Rig::new();
    let key = || ResourceKey::Claim("r".into());
    let holder = world.acquire(key(), 3600 * S, Patience::Standing);
    world.ask(1, holder);
    world.store();
    let ask = |world: &mut Rig, caller, listen_us| {
        let Command::Acquire(mut acquire) = owned(world, key(), Patience::Standing, Some("k")) else { unreachable!() };
        acquire.options.particulars.wait_ttl_us = 60 * S;
        world.ask_listening(caller, Command::Acquire(acquire), listen_us)
    };
    ask(&mut world, 2, S);
    let second = ask(&mut world, 3, 3600 * S).unwrap();
    world.pass(S);
    assert!(matches!(&world.store()[..], [(2, Ok(Reply::Claim(_)))]), "the first call is told that it waits");

    // The other call leaves, after so long that its being there is written down as a question.
    world.pass(20 * S);
    world.partition.leave(world.clocks(), second);
    world.store();
    // A third call finds the store late.
    world.ask(4, Command::Configure { resource: POOL, capacity: 1, label: Labeling::Kept });
    world.partition.take_batch(world.clocks()).unwrap();
    world.mono_us += 10 * S;
    assert!(ask(&mut world, 5, 60 * S).is_none());
    assert!(world.told().contains(&(5, Err(Denial::StoreLate))));
    world.partition.append_done(world.clocks());
    assert_eq!(in_use_and_waiting(&mut world), (1, 1));
}

#[test]
fn a_shared_lock_that_is_forgotten_is_forgotten_by_the_count_of_its_callers() {
    let mut world = Rig::new();
    for caller in [1, 2] {
        let Command::Acquire(mut acquire) =
            world.acquire(ResourceKey::Lock("job".into()), S, Patience::For { wait_us: 0 })
        else {
            unreachable!()
        };
        acquire.client = Some("ann".into());
        world.ask(caller, Command::Acquire(acquire));
    }
    world.store();
    world.pass(25 * 3600 * S);
    assert_eq!(world.partition.engine().facts().len(), 1, "it lapsed and was forgotten; only the counters are left");
    assert_eq!(world.partition.company.claims().count(), 0);
    world.partition.check();
}

#[test]
fn a_call_that_parks_while_the_store_is_late_gets_502_at_once() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    world.partition.take_batch(world.clocks()).unwrap();
    world.mono_us += 10 * S - 1;
    let (_, ticket) = world.borrow(2, 60 * S);
    assert!(ticket.is_some(), "one microsecond before the bound it is parked");
    world.mono_us += 1;
    let (_, ticket) = world.borrow(3, 60 * S);
    assert!(ticket.is_none());
    assert!(world.told().contains(&(3, Err(Denial::StoreLate))));
}

fn lock(world: &mut Rig, client: &str, wait_us: u64) -> Command {
    let Command::Acquire(mut acquire) =
        world.acquire(ResourceKey::Lock("job".into()), 600 * S, Patience::For { wait_us })
    else {
        unreachable!()
    };
    acquire.client = Some(client.into());
    Command::Acquire(acquire)
}

#[test]
fn each_call_waits_for_its_own_time_and_the_place_for_the_longest() {
    for (first_s, second_s) in [(5, 300), (300, 5)] {
        let mut world = Rig::new();
        let command = lock(&mut world, "bob", 0);
        world.ask(1, command);
        for (caller, wait_s) in [(2, first_s), (3, second_s)] {
            let command = lock(&mut world, "ann", wait_s * S);
            world.ask(caller, command);
        }
        world.store();
        let (short, long) = if first_s < second_s { (2, 3) } else { (3, 2) };
        world.pass(5 * S - 1);
        assert_eq!(world.told(), [], "one microsecond before the end of its wait");
        world.pass(1);
        let told = world.told();
        let [(who, Err(Denial::Refused(Refusal::Locked { .. })))] = &told[..] else { panic!("not one 409: {told:?}") };
        assert_eq!(*who, short);
        assert_eq!(world.partition.totals().waiting, 1, "the place lives on for the other call");
        world.pass(295 * S);
        let told = world.told();
        assert_eq!(told.iter().map(|(who, _)| *who).collect::<Vec<_>>(), [long]);
        assert_eq!(world.partition.totals().waiting, 0);
        world.partition.check();
    }
}

#[test]
fn a_place_goes_with_the_last_call_though_one_that_left_would_have_waited_longer() {
    let mut world = Rig::new();
    let command = lock(&mut world, "bob", 0);
    world.ask(1, command);
    let command = lock(&mut world, "ann", 300 * S);
    let patient = world.ask(2, command).unwrap();
    let command = lock(&mut world, "ann", 5 * S);
    world.ask(3, command);
    world.store();
    world.partition.leave(world.clocks(), patient);
    world.pass(5 * S);
    assert_eq!(world.told().iter().map(|(who, _)| *who).collect::<Vec<_>>(), [3]);
    assert_eq!(world.partition.totals().waiting, 0, "its last caller was told 409");
}
