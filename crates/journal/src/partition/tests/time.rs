//! Time has one owner: due deadlines are a step of their own, a store that hangs stops the clock wherever it hangs, and
//! an answer says what is left of a lease when it leaves.

use super::*;

#[test]
fn an_expiry_never_shares_a_step_with_the_command_that_ends_what_it_granted() {
    // One below, at, and above the number of claims that one step of time handles.
    for others in [0, 254, 255, 256, 300, 600] {
        let mut world = Rig::with_pool(1);
        world.partition.limits.callers_max = 1_000;
        world.ask(0, Command::Configure { resource: ResourceKey::Pool(1), capacity: 1_000, label: Labeling::Kept });
        for _ in 0..others {
            let command = world.acquire(ResourceKey::Pool(1), 30 * S - 1, Patience::For { wait_us: 0 });
            world.ask(0, command);
        }
        world.borrow(1, 0);
        world.borrow(2, 60 * S);
        world.store();
        // The driver slept through every deadline, and the first command deletes the pool.
        world.mono_us += 30 * S;
        world.partition.clock = ServiceClock::new(Time(30 * S), world.mono_us);
        world.ask(3, Command::Unconfigure { resource: POOL });
        for (who, answer) in world.store() {
            match (who, answer) {
                (2, Ok(Reply::Lease(view))) => assert_eq!(view.deadline, Time(60 * S), "{others} others"),
                (2, answer) => assert_eq!(answer, Err(Denial::Refused(Refusal::NoSuchResource)), "{others} others"),
                (_, answer) => assert_eq!(answer, Ok(Reply::Unconfigured(true))),
            }
        }
        world.partition.check();
    }
}

#[test]
fn an_unlock_at_the_moment_of_a_hand_over_is_a_step_after_it() {
    let lock = |name: &str| ResourceKey::Lock(name.into());
    let mut world = Rig::new();
    world.partition.limits.callers_max = 1_000;
    let ask = |world: &mut Rig, caller, name: &str, client: &str, wait_us| {
        let Command::Acquire(mut acquire) = world.acquire(lock(name), 30 * S, Patience::For { wait_us }) else {
            unreachable!()
        };
        acquire.client = Some(client.into());
        world.ask(caller, Command::Acquire(acquire));
    };
    for nth in 0..600 {
        ask(&mut world, 0, &format!("other {nth}"), "ann", 0);
    }
    ask(&mut world, 1, "job", "bob", 0);
    ask(&mut world, 2, "job", "cat", 60 * S);
    world.store();
    world.mono_us += 36 * S;
    world.partition.clock = ServiceClock::new(Time(36 * S), world.mono_us);
    world.ask(3, Command::Unlock { resource: lock("job"), client: "cat".into(), token: None });
    let told = world.store();
    let heard = |who| &told.iter().find(|(to, _)| *to == who).expect("it was answered").1;
    assert_eq!(*heard(3), Ok(Reply::Unlocked));
    let Ok(Reply::Lock(view, _)) = heard(2) else { panic!("not a lock: {told:?}") };
    assert_eq!(view.holder.as_ref().map(|holder| &*holder.client), Some("cat"), "it was granted, and told so");
}

#[test]
fn a_store_that_hangs_outside_of_an_append_stops_the_clock_too() {
    let mut world = Rig::with_pool(1);
    world.borrow(1, 0);
    // The committer hangs elsewhere: the batch is not even taken.
    let end_us = world.mono_us + 60 * S;
    let mut wakes = 0;
    while world.mono_us < end_us {
        world.mono_us = world.partition.next_wake().unwrap_or(end_us).clamp(world.mono_us + 1, end_us);
        world.partition.tick(world.clocks());
        wakes += 1;
    }
    assert!(wakes < 60 * 25, "{wakes} wake-ups in a minute");
    assert_eq!(world.partition.service_time(), Time(STRETCH_MAX_US));
    assert_eq!(world.told(), [(1, Err(Denial::StoreLate))], "told after 10 s");
}

#[test]
fn a_hanging_append_lets_the_pulse_sleep() {
    // Deadlines around the limit of the time that counts during a hanging append.
    for ttl_us in [1, STRETCH_MAX_US - 1, STRETCH_MAX_US, STRETCH_MAX_US + 1, STRETCH_MAX_US + 5, S] {
        let mut world = Rig::with_pool(1);
        let command = world.acquire(POOL, ttl_us, Patience::For { wait_us: 0 });
        world.ask(1, command);
        world.partition.take_batch(world.clocks()).unwrap();
        let wakes = world.pass(S);
        assert!(wakes <= 25, "ttl {ttl_us}: {wakes} wake-ups in one second of a hanging append");
    }
}

#[test]
fn what_is_left_of_a_lease_is_what_is_left_when_the_answer_leaves() {
    let rest_us = |answer: &Result<Reply, Denial>| match answer {
        Ok(Reply::Lease(view)) => view.deadline.since(view.now.at),
        Ok(Reply::Claim(view)) => view.ttl_us.unwrap(),
        Ok(Reply::Lock(view, _)) => view.holder.as_ref().unwrap().deadline.since(view.now.at),
        other => panic!("not a lease: {other:?}"),
    };
    for append_us in [0, 20_000, STRETCH_MAX_US, 5 * S] {
        let mut world = Rig::with_pool(1);
        world.borrow(1, 0);
        let command = world.acquire(ResourceKey::Claim("r".into()), 30 * S, Patience::Standing);
        world.ask(2, command);
        let Command::Acquire(mut acquire) =
            world.acquire(ResourceKey::Lock("job".into()), 30 * S, Patience::For { wait_us: 0 })
        else {
            unreachable!()
        };
        acquire.client = Some("ann".into());
        world.ask(3, Command::Acquire(acquire));
        world.partition.take_batch(world.clocks()).unwrap();
        world.pass(append_us);
        world.partition.append_done(world.clocks());
        let left_us = 30 * S - append_us.min(STRETCH_MAX_US);
        let told = world.told();
        assert_eq!(told.iter().map(|(_, answer)| rest_us(answer)).collect::<Vec<_>>(), [left_us; 3], "{append_us}");
    }
}

#[test]
fn a_tick_answers_a_bounded_number_of_listeners() {
    let mut world = Rig::new();
    world.partition.limits.callers_max = 1_000_000;
    let listeners = 20_000;
    for caller in 0..listeners {
        let command = world.acquire(ResourceKey::Claim("r".into()), 300 * S, Patience::Standing);
        world.ask_listening(caller, command, 10 * S);
    }
    world.store();
    world.pass(10 * S - 1);
    world.mono_us += 1;
    world.partition.pass_time(world.clocks(), None);
    let mut told = Vec::new();
    let mut ticks = 0;
    while told.len() + 1 < listeners as usize {
        assert_eq!(world.partition.next_wake(), Some(world.mono_us), "there is more to do at once");
        world.partition.tick(world.clocks());
        let more = world.store();
        assert!(more.len() <= CALLERS_PER_STEP, "{} in one step", more.len());
        told.extend(more);
        ticks += 1;
        assert!(ticks < 1_000);
    }
}
