//! A partition of a cluster: proofs, orphans, beats, and the two ways in which an ownership ends.

use leasehold_engine::{Engine, LockNews};

use super::*;
use crate::partition::Orphans;

/// A pool with one slot that is held, and a waiter; then another node takes the partition.
fn taken(orphans: Orphans) -> (Rig, ClaimId, ClaimId) {
    let mut world = Rig::with_pool(1);
    let (holder, _) = world.borrow(1, 0);
    let (waiter, _) = world.borrow(2, 60 * S);
    world.store();
    let mut engine = Engine::new(Limits::default());
    for fact in world.partition.engine().facts() {
        engine.restore(fact);
    }
    let (head, at) = (world.partition.durable(), world.partition.service_time());
    engine.finish_restore(at);
    let limits = world.partition.limits.clone();
    let partition = Partition::taken(engine, 0, Epoch(9), head, at, limits, world.clocks(), orphans, false);
    (Rig { partition, ..world }, holder, waiter)
}

fn view() -> Command {
    Command::ViewResource { resource: POOL }
}

#[test]
fn the_first_batch_is_there_at_once_and_nothing_leaves_before_it() {
    let (mut world, ..) = taken(Orphans::Await);
    world.ask(5, view());
    assert!(world.partition.has_batch() && world.told().is_empty());
    assert_eq!(world.store().len(), 1, "the append is a proof that began after the decision");
}

#[test]
fn a_read_waits_for_a_proof_that_begins_after_it() {
    let (mut world, ..) = taken(Orphans::Await);
    world.store();
    let clocks = world.clocks();
    let early = world.partition.begin_proof();
    world.ask(5, view());
    assert!(world.partition.wants_proof());
    world.partition.proof_done(clocks, early);
    assert_eq!(world.told(), [], "that proof began before the read was decided");
    let proof = world.partition.begin_proof();
    world.ask(6, view());
    world.partition.proof_done(clocks, proof);
    assert_eq!(world.told().iter().map(|(caller, _)| *caller).collect::<Vec<_>>(), [5]);
    let proof = world.partition.begin_proof();
    world.partition.proof_done(clocks, proof);
    assert_eq!(world.told().len(), 1);
    assert!(!world.partition.wants_proof());
}

#[test]
fn the_embedded_service_needs_no_proof() {
    let mut world = Rig::with_pool(1);
    world.ask(5, view());
    assert_eq!((world.told().len(), world.partition.wants_proof(), world.partition.begin_proof()), (1, false, 0));
}

#[test]
fn orphans_keep_their_place_until_all_nodes_have_asked() {
    let (mut world, holder, waiter) = taken(Orphans::Await);
    world.store();
    assert!(world.partition.has_orphans());
    // Another caller comes later and stands behind.
    world.borrow(3, 60 * S);
    let again = Command::Acquire(Box::new(Acquire { id: waiter, ..*acquire_of(&mut world) }));
    let ticket = world.ask(2, again.clone());
    assert!(ticket.is_some(), "parked on the claim that is there");
    assert!(!world.partition.has_orphans());
    let clocks = world.clocks();
    world.partition.end_orphans(clocks);
    world.store();
    world.ask(1, Command::Return { resource: POOL, claim: holder });
    let told = world.store();
    assert!(
        told.iter()
            .any(|(caller, answer)| *caller == 2 && matches!(answer, Ok(Reply::Lease(lease)) if lease.claim == waiter))
    );
    // Asked once more, it is the same lease.
    world.ask(2, again);
    let clocks = world.clocks();
    let proof = world.partition.begin_proof();
    world.partition.proof_done(clocks, proof);
    assert!(matches!(&world.told()[..], [(2, Ok(Reply::Lease(lease)))] if lease.claim == waiter));
}

fn acquire_of(world: &mut Rig) -> Box<Acquire> {
    match world.acquire(POOL, 30 * S, Patience::For { wait_us: 60 * S }) {
        Command::Acquire(acquire) => acquire,
        _ => unreachable!(),
    }
}

#[test]
fn orphans_without_a_node_are_withdrawn_also_when_they_were_granted() {
    for is_granted in [false, true] {
        let (mut world, holder, waiter) = taken(Orphans::Await);
        world.store();
        if is_granted {
            world.ask(1, Command::Return { resource: POOL, claim: holder });
            world.store();
        }
        let clocks = world.clocks();
        world.partition.end_orphans(clocks);
        world.store();
        assert!(!world.partition.engine().is_waiting(waiter));
        let holding = world.partition.totals().claims;
        assert_eq!(holding, usize::from(!is_granted), "no slot is left to a claim that no caller knows of");
    }
}

#[test]
fn orphans_are_not_waited_for_for_ever() {
    let (mut world, _, waiter) = taken(Orphans::Await);
    world.store();
    for _ in 0..101 {
        world.mono_us += 100_000;
        let clocks = world.clocks();
        world.partition.tick(clocks);
        world.append();
    }
    assert!(!world.partition.engine().is_waiting(waiter) && !world.partition.has_orphans());
    let (world, _, waiter) = taken(Orphans::Withdraw);
    assert!(!world.partition.engine().is_waiting(waiter));
}

#[test]
fn a_repeated_call_passes_the_bound_of_callers() {
    let (mut world, _, waiter) = taken(Orphans::Await);
    world.store();
    for caller in 10..20 {
        world.borrow(caller, 60 * S);
    }
    world.borrow(20, 60 * S);
    assert!(matches!(&world.told()[..], [(20, Err(Denial::Overloaded))]));
    let again = Command::Acquire(Box::new(Acquire { id: waiter, ..*acquire_of(&mut world) }));
    assert!(world.ask(2, again).is_some());
}

#[test]
fn while_a_beat_is_unanswered_a_tenth_of_a_second_counts() {
    let (mut world, ..) = taken(Orphans::Await);
    world.store();
    let clocks = world.clocks();
    let at = world.partition.begin_beat(clocks);
    for _ in 0..50 {
        world.mono_us += 50_000;
        let clocks = world.clocks();
        world.partition.tick(clocks);
    }
    assert_eq!(world.partition.service_time(), at.plus(STRETCH_MAX_US));
    let clocks = world.clocks();
    world.partition.beat_done(clocks);
    world.mono_us += 50_000;
    let clocks = world.clocks();
    world.partition.tick(clocks);
    assert_eq!(world.partition.service_time(), at.plus(STRETCH_MAX_US + 50_000));
    assert!(!world.partition.has_batch(), "no mark is written");
}

#[test]
fn closing_decides_nothing_more_and_loses_nothing() {
    let (mut world, holder, _) = taken(Orphans::Withdraw);
    world.store();
    world.ask(1, Command::Renew { resource: POOL, claim: holder, ttl_us: S });
    let (_, ticket) = world.borrow(4, 60 * S);
    assert!(ticket.is_some());
    let clocks = world.clocks();
    let at = world.partition.close(clocks);
    assert!(world.partition.is_closed() && !world.partition.is_at_rest());
    world.ask(5, view());
    assert_eq!(world.told(), [(4, Err(Denial::Moved)), (5, Err(Denial::Moved))]);
    world.mono_us += 5 * S;
    let clocks = world.clocks();
    world.partition.tick(clocks);
    let told = world.store();
    assert!(matches!(&told[..], [(1, Ok(Reply::Lease(_)))]), "{told:?}");
    assert!(world.partition.is_at_rest() && world.partition.engine().is_known(holder), "nothing expired");
    assert!(world.partition.service_time() >= at);
}

#[test]
fn deposed_callers_learn_whether_to_ask_again() {
    for is_unknown in [false, true] {
        let (mut world, holder, _) = taken(Orphans::Withdraw);
        world.store();
        world.ask(1, view());
        world.ask(2, Command::Renew { resource: POOL, claim: holder, ttl_us: S });
        let clocks = world.clocks();
        world.partition.take_batch(clocks).unwrap();
        world.ask(3, Command::Return { resource: POOL, claim: holder });
        world.partition.depose(is_unknown);
        let of_append = if is_unknown { Denial::Lost } else { Denial::Moved };
        assert_eq!(world.told(), [(1, Err(Denial::Moved)), (2, Err(of_append)), (3, Err(Denial::Moved))]);
    }
}

#[test]
fn a_batch_is_sealed_by_the_step_that_passes_its_bound() {
    let (mut world, ..) = taken(Orphans::Withdraw);
    world.store();
    world.partition.limits.callers_max = 100;
    let metadata: Arc<str> = "x".repeat(60_000).into();
    for _ in 0..20 {
        let id = ClaimId(world.next_id + 1_000);
        world.next_id += 1;
        let resource = ResourceKey::Claim(format!("r{}", world.next_id).into());
        let acquire = Acquire { id, resource, metadata: Some(Arc::clone(&metadata)), ..*acquire_of(&mut world) };
        world.ask(7, Command::Acquire(Box::new(Acquire { patience: Patience::Standing, ..acquire })));
        world.told();
    }
    let mut sizes = Vec::new();
    let clocks = world.clocks();
    while let Some(batch) = world.partition.take_batch(clocks) {
        sizes.push(batch.record.len());
        world.partition.append_done(clocks);
    }
    assert!(sizes.len() >= 3 && sizes.iter().all(|&bytes| bytes < (512 << 10) + 61_000), "{sizes:?}");
    assert!(world.partition.is_at_rest() || !world.told().is_empty());
}

#[test]
fn a_lock_asked_for_again_is_acquired_not_renewed() {
    let (mut world, ..) = taken(Orphans::Withdraw);
    world.store();
    let resource = ResourceKey::Lock("job".into());
    let acquire = Acquire { resource, client: Some("me".into()), ..*acquire_of(&mut world) };
    for sending in 0..2 {
        world.ask(sending, Command::Acquire(Box::new(acquire.clone())));
        world.append();
        let clocks = world.clocks();
        let proof = world.partition.begin_proof();
        world.partition.proof_done(clocks, proof);
        let told = world.told();
        let is_acquired =
            |answer: &Result<Reply, Denial>| matches!(answer, Ok(Reply::Lock(_, LockNews::Acquired { .. })));
        assert!(matches!(&told[..], [(caller, answer)] if *caller == sending && is_acquired(answer)), "{told:?}");
    }
    let other = Acquire { id: ClaimId(1), ..acquire };
    world.ask(3, Command::Acquire(Box::new(other)));
    assert!(matches!(&world.store()[..], [(3, Ok(Reply::Lock(_, LockNews::Renewed)))]), "another call renews");
}

/// Found by simulation: the first answer was given up on while the second, to the same caller, could still leave.
#[test]
fn an_answer_that_was_asked_for_again_is_not_handed_back() {
    for is_superseded in [true, false] {
        let (mut world, holder, _) = taken(Orphans::Withdraw);
        world.ask(1, Command::Return { resource: POOL, claim: holder });
        world.store();
        let clocks = world.clocks();
        world.partition.end_orphans(clocks);
        let acquire = acquire_of(&mut world);
        let id = acquire.id;
        world.ask(7, Command::Acquire(acquire.clone()));
        let clocks = world.clocks();
        let batch = world.partition.take_batch(clocks);
        assert!(batch.is_some() && world.told().is_empty());
        world.mono_us += S;
        world.ask(8, Command::Acquire(acquire));
        if is_superseded {
            world.partition.supersede(None, Some(id), |&caller| caller == 7);
        }
        // The first has waited for the store for as long as it may, the second has not.
        world.mono_us += world.partition.limits.store_timeout_us - S / 2;
        let clocks = world.clocks();
        world.partition.tick(clocks);
        assert_eq!(world.partition.has_batch() || !world.partition.is_batch_empty(), !is_superseded, "a hand-back");
        let told = world.told();
        assert!(matches!(&told[..], [(7, Err(Denial::StoreLate))]), "{told:?}");
    }
}

/// Found by simulation: a taker that had read the checkpoint was ahead of the owner before it, and time cannot go back.
#[test]
fn a_checkpoint_has_the_time_of_its_last_change() {
    let (mut world, ..) = taken(Orphans::Await);
    world.store();
    let last = world.partition.marked_at;
    world.mono_us += S / 20;
    let clocks = world.clocks();
    world.partition.tick(clocks);
    assert!(world.partition.service_time() > last && world.partition.is_batch_empty());
    let start = world.partition.begin_checkpoint(clocks);
    assert_eq!((start.upto, start.now.at), (world.partition.durable(), last));
}

#[test]
fn after_a_loss_tokens_jump_before_anything_is_decided() {
    let (world, ..) = taken(Orphans::Withdraw);
    let mut engine = Engine::new(Limits::default());
    for fact in world.partition.engine().facts() {
        engine.restore(fact);
    }
    let (head, at, limits) = (world.partition.head, world.partition.service_time(), world.partition.limits.clone());
    let last = engine.last_token();
    // The lease of the holder is over: the waiter is granted with the first batch.
    let at = at.plus(60 * S);
    let (clocks, epoch) = (world.clocks(), Epoch(crate::EPOCHS_SKIPPED + 9));
    let mut partition: Partition<u32> =
        Partition::taken(engine, 0, epoch, head, at, limits, clocks, Orphans::Await, true);
    let batch = partition.take_batch(clocks).unwrap();
    let changes = decode_batch(&batch.record).unwrap().changes;
    let leasehold_engine::Change::Jumped { last_token } = changes[0].1 else { panic!("{changes:?}") };
    assert_eq!(last_token.0, last.0 + crate::TOKENS_SKIPPED);
    assert!(changes.iter().all(|(_, change)| match change {
        leasehold_engine::Change::Granted { token, .. } => *token > last_token,
        _ => true,
    }));
    assert!(partition.engine().last_token() >= last_token);
}
