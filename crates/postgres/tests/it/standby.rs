//! A primary and a synchronous standby: an answer means that both have it, whatever happens to one of them.

use std::sync::Arc;
use std::time::Instant;

use leasehold_cluster::{Landing, SharedError, SharedStore};
use leasehold_postgres::PostgresStore;
use leasehold_testbed::{Flow, Postgres, PostgresOptions, wait_for};

use super::common::{Chain, SECOND, address, birth, joined, node, persist, read_all, runtime, take};
use super::faults::Load;

#[test]
fn the_primary_is_killed_and_the_standby_promoted_in_mid_load() {
    let mut postgres = Postgres::with_standby();
    let address = address(&postgres.hosts(), "");
    let runtime = runtime();
    let store = Arc::new(runtime.block_on(joined(&address, 1)));
    assert_eq!(store.warnings(), Vec::<String>::new());
    let load = Load::start(&runtime, &store);
    load.goes_on();
    postgres.kill(0);
    postgres.promote(1);
    load.goes_on();
    let warnings = store.warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("has timeline 2, and the primary before it had 1")),
        "{warnings:?}"
    );
    let batches = load.end(&runtime);
    println!("PostgreSQL store: promoted in mid-load, {batches} batches durable and there once");
}

/// Waits until a session of the store waits for the standby, and returns its process id.
fn waiting(postgres: &Postgres, kind: &str) -> String {
    let sql = format!(
        "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'leasehold {kind}%' LIMIT 1"
    );
    wait_for("wait for the standby", || Some(postgres.sql(0, &sql)).filter(|pid| !pid.is_empty()))
}

fn batches_in(postgres: &Postgres, at: usize, schema: &str) -> String {
    postgres.sql(at, &format!("SELECT count(*) FROM {schema}.batch"))
}

#[test]
fn a_cancelled_wait_is_never_taken_for_durable() {
    let postgres = Postgres::with_standby();
    let replication = postgres.servers()[1].replication.as_ref().unwrap();
    let address = address(&postgres.hosts(), "");
    let runtime = runtime();
    let store = Arc::new(runtime.block_on(joined(&address, 1)));
    let mut stream = runtime.block_on(async { Chain::new(take(&*store, 0, 1).await) });
    let append = stream.next(3);
    replication.set_both(Flow::Stall);
    let appended = {
        let (store, append) = (Arc::clone(&store), append.clone());
        runtime.spawn(async move { store.append(vec![append]).await })
    };
    assert_eq!(batches_in(&postgres, 0, &address.schema), "0");
    let pid = waiting(&postgres, "append");
    postgres.sql(0, &format!("SELECT pg_cancel_backend({pid})"));
    // It is visible in the primary now, and nowhere else. The store asks again, finds it, and does not believe it.
    wait_for("visible batch", || (batches_in(&postgres, 0, &address.schema) == "1").then_some(()));
    waiting(&postgres, "append");
    assert!(!appended.is_finished(), "it was told what became of a batch that only the primary has");
    replication.heal();
    let landings = runtime.block_on(appended).unwrap();
    // Unless the standby took longer than the patience of a call.
    assert!(
        matches!(&landings, Ok(told) if *told == [Landing::Durable]) || matches!(landings, Err(SharedError::Away(_)))
    );
    assert_eq!(runtime.block_on(persist(&*store, &append)), Landing::Durable);
    assert_eq!(runtime.block_on(read_all(&*store, 0)), stream.records);
}

#[test]
fn a_batch_that_only_the_lost_primary_had_is_appended_again() {
    let mut postgres = Postgres::with_standby();
    let address = address(&postgres.hosts(), "");
    let runtime = runtime();
    let store = Arc::new(runtime.block_on(joined(&address, 1)));
    let mut stream = runtime.block_on(async { Chain::new(take(&*store, 0, 1).await) });
    assert_eq!(runtime.block_on(persist(&*store, &stream.next(1))), Landing::Durable);
    let append = stream.next(3);
    postgres.servers()[1].replication.as_ref().unwrap().set_both(Flow::Stall);
    let appended = {
        let (store, append) = (Arc::clone(&store), append.clone());
        runtime.spawn(async move { persist(&*store, &append).await })
    };
    let pid = waiting(&postgres, "append");
    postgres.sql(0, &format!("SELECT pg_cancel_backend({pid})"));
    wait_for("visible batch", || (batches_in(&postgres, 0, &address.schema) == "2").then_some(()));
    postgres.kill(0);
    postgres.promote(1);
    assert_eq!(runtime.block_on(appended).unwrap(), Landing::Durable);
    assert_eq!(runtime.block_on(read_all(&*store, 0)), stream.records);
    assert_eq!(batches_in(&postgres, 1, &address.schema), "2");
}

/// The primary lives, is reached, and does not know that its standby was promoted.
#[test]
fn a_primary_that_was_cut_off_proves_nothing_and_is_left_for_the_promoted_one() {
    let postgres = Postgres::with_standby();
    let both = address(&postgres.hosts(), "");
    let runtime = runtime();
    let only_old: leasehold_postgres::Address =
        super::common::elsewhere(&both, &postgres.servers()[0].addr.to_string());
    let old = runtime.block_on(joined(&only_old, 1));
    let new = Arc::new(runtime.block_on(joined(&both, 2)));
    let mut stream = runtime.block_on(async { Chain::new(take(&*new, 0, 2).await) });
    postgres.servers()[1].replication.as_ref().unwrap().close();
    postgres.promote(1);
    // Reads still work there, and so the session of an operator; but nothing that decides is answered.
    assert_eq!(postgres.sql(0, "SELECT 1"), "1");
    runtime.block_on(async {
        let began_at = Instant::now();
        for error in [old.confirm().await.unwrap_err(), old.map().await.unwrap_err()] {
            assert!(matches!(&error, SharedError::Away(why) if why.contains("SyncRep")), "{error}");
        }
        assert!(began_at.elapsed() < 40 * SECOND);
        for _ in 0..3 {
            assert_eq!(persist(&*new, &stream.next(2)).await, Landing::Durable);
        }
        new.confirm().await.unwrap();
        assert_eq!(read_all(&*new, 0).await, stream.records);
    });
    assert_eq!(batches_in(&postgres, 1, &both.schema), "3");
}

/// Calls that are not answered wait where they are: a store does not use the server's connections up.
#[test]
fn an_outage_of_the_standby_uses_few_connections() {
    let postgres = Postgres::with_standby();
    let replication = postgres.servers()[1].replication.as_ref().unwrap();
    let address = address(&postgres.servers()[0].addr.to_string(), "");
    runtime().block_on(async {
        let store = Arc::new(joined(&address, 1).await);
        let mut stream = Chain::new(take(&*store, 0, 1).await);
        let append = stream.next(1);
        replication.set_both(Flow::Stall);
        let mut calls = Vec::new();
        for _ in 0..20 {
            let (store, append) = (Arc::clone(&store), append.clone());
            calls.push(tokio::spawn(async move {
                let _ = store.append(vec![append]).await;
                let _ = store.confirm().await;
            }));
        }
        for call in calls {
            call.await.unwrap();
        }
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'leasehold%'";
        let connections: u32 = postgres.sql(0, count).parse().unwrap();
        assert!(connections <= 8, "{connections} connections");
        replication.heal();
        assert_eq!(persist(&*store, &append).await, Landing::Durable);
        store.confirm().await.unwrap();
        assert_eq!(read_all(&*store, 0).await, stream.records);
    });
}

#[test]
fn a_standby_is_refused_and_an_asynchronous_one_is_warned_of() {
    let postgres = Postgres::start(PostgresOptions { standbys: 1, ..PostgresOptions::default() });
    let standby = address(&postgres.servers()[1].addr.to_string(), "");
    let both = address(&format!("{},{}", postgres.servers()[1].addr, postgres.servers()[0].addr), "");
    runtime().block_on(async {
        match PostgresStore::new(&standby).unwrap().join(node(1), birth()).await {
            Err(SharedError::Refused(sentence)) => assert!(sentence.contains("is a standby, which takes no writes")),
            other => panic!("{other:?}"),
        }
        let store = joined(&both, 1).await;
        let warnings = store.warnings();
        assert!(warnings.iter().any(|warning| warning.contains("no synchronous_standby_names")), "{warnings:?}");
    });
}
