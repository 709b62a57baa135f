//! Recovery retells the past exactly as it was told when it happened, place by place; and a stream keeps its secret.

use std::sync::Arc;

use leasehold_engine::{Acquire, ClaimId, Command, Limits, Patience, Quota, ResourceKey, Wall, What};
use leasehold_journal::{
    Clocks, Happened, MemoryOpener, Opener, Partition, PartitionLimits, Position, Recovery, Retold, SqliteOpener,
    recover, recover_with_history,
};

const S: u64 = 1_000_000;

/// Ann has a lock and lets it lapse, bob waits for it and gets it; then the process ends with bob still holding.
fn live_through(recovery: Recovery, wall_us: u64) -> Vec<Happened> {
    let Recovery { engine, mut store, epoch, head, at, .. } = recovery;
    let limits = PartitionLimits {
        callers_max: 10,
        store_timeout_us: 10 * S,
        backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
    };
    let clocks = |mono_us: u64| Clocks { mono_us, wall: Wall(wall_us + mono_us) };
    let mut partition = Partition::new(engine, 0, epoch, head, at, limits, clocks(0));
    let lock = |client: &str, wait_us: u64, id: u128| {
        Command::Acquire(Box::new(Acquire {
            resource: ResourceKey::Lock(Arc::from("deploy")),
            id: ClaimId(id),
            ttl_us: S,
            patience: Patience::For { wait_us },
            client: Some(Arc::from(client)),
            principal: None,
            key: None,
            metadata: None,
            quota: Quota::NONE,
            options: leasehold_engine::Options::default(),
        }))
    };
    let mut happened = Vec::new();
    let mut ask = |mono_us: u64, command: Option<Command>| {
        match command {
            Some(command) => drop(partition.submit(clocks(mono_us), command.into(), ())),
            None => partition.tick(clocks(mono_us)),
        }
        while let Some(batch) = partition.take_batch(clocks(mono_us)) {
            store.append(&batch).unwrap();
            partition.append_done(clocks(mono_us));
        }
        partition.poll_effects(&mut happened);
    };
    let id = u128::from(epoch.0) * 100;
    ask(0, Some(lock("ann", 0, id + 1)));
    ask(S / 20, Some(lock("bob", 60 * S, id + 2)));
    for step in 2..200 {
        // Ann's second and her grace pass.
        ask(step * S / 20, None);
    }
    happened
}

/// As it is told again: which change of its step it was is only known while the step is taken.
fn comparable(happened: impl IntoIterator<Item = Happened>) -> Vec<Happened> {
    let mut all: Vec<Happened> = happened.into_iter().collect();
    for one in &mut all {
        one.effect.nth = 0;
    }
    all
}

#[test]
fn the_past_is_told_as_it_was_told_then() {
    let opener = MemoryOpener::keeping();
    let first = live_through(recover(&opener, 0, Limits::default()).unwrap(), 1_000 * S);
    assert!(
        first.iter().any(|one| matches!(&one.effect.what, What::Granted { from: Some(from), .. } if &**from == "ann"))
    );
    assert!(first.is_sorted_by(|a, b| a.position < b.position), "each has a place of its own");
    let second = live_through(recover(&opener, 0, Limits::default()).unwrap(), 2_000 * S);
    assert!(second.iter().all(|one| one.epoch.0 == 2));

    let recovery = recover_with_history(&opener, 0, Limits::default(), 1_000).unwrap();
    let Retold { events, complete_after, reigns } = recovery.history;
    let last_of_first = reigns[1].1;
    assert_eq!(comparable(events), comparable(first.iter().chain(&second).cloned()));
    assert_eq!((complete_after, reigns.len()), (Position::START, 2));
    assert!(
        first.iter().all(|one| one.position <= last_of_first) && second.iter().all(|one| one.position > last_of_first)
    );

    // Of more than is wanted, it returns the newest, and says since when nothing is missing.
    let Retold { events, complete_after, .. } = recover_with_history(&opener, 0, Limits::default(), 3).unwrap().history;
    let all: Vec<Happened> = first.into_iter().chain(second).collect();
    assert_eq!(comparable(events), comparable(all[all.len() - 3..].iter().cloned()));
    assert_eq!(complete_after, all[all.len() - 4].position);
    // A caller that wants no history gets none.
    let recovery = recover(&opener, 0, Limits::default()).unwrap();
    assert!(recovery.history.events.is_empty());
    assert_eq!(recovery.history.complete_after, recovery.head);
}

#[test]
fn a_database_keeps_its_secret_and_has_one_of_its_own() {
    let [one, other] = [(); 2].map(|()| crate::sqlite::scratch());
    let secret = |directory: &tempfile::TempDir| {
        SqliteOpener::new(directory.path()).open(0, &mut |_| Ok(())).unwrap().store.secret().unwrap()
    };
    let first = secret(&one);
    assert_eq!(secret(&one), first);
    assert_ne!(secret(&other), first);
    assert_ne!(first, [0; 32]);
}

/// Data that was written before there were secrets.
#[test]
fn a_database_without_a_secret_is_given_one() {
    let directory = crate::sqlite::scratch();
    let opener = SqliteOpener::new(directory.path());
    let open = || opener.open(0, &mut |_| Ok(())).unwrap().store.secret().unwrap();
    open();
    let database = rusqlite::Connection::open(directory.path().join("leasehold.db")).unwrap();
    database.execute_batch("DROP TABLE secret").unwrap();
    drop(database);
    let given = open();
    assert_eq!(open(), given);
}
