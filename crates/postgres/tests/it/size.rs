//! Sweeping keeps the tables small, however much is appended.

use std::time::{Duration, Instant};

use leasehold_cluster::{CheckpointId, Landing, SharedStore};
use leasehold_journal::Room;
use leasehold_postgres::{Address, PostgresStore, PostgresUpkeep};
use leasehold_testbed::{Postgres, PostgresOptions};

use super::common::{Chain, SECOND, address, birth, joined, node, persist, read_all, runtime, take};

fn rows(postgres: &Postgres, address: &Address, table: &str) -> usize {
    postgres.sql(0, &format!("SELECT count(*) FROM {}.{table}", address.schema)).parse().unwrap()
}

/// `LEASEHOLD_POSTGRES_SECONDS` is for how long; a checkpoint of four chunks every 300 batches.
#[test]
fn the_store_stays_small() {
    const BATCHES: usize = 300;
    let run = std::env::var("LEASEHOLD_POSTGRES_SECONDS").ok().map_or(5, |text| text.parse().unwrap());
    let run = Duration::from_secs(run);
    let settings = vec!["autovacuum_naptime=1s".to_owned()];
    let postgres = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() });
    let address = address(&postgres.hosts(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Chain::new(reign);
        let (began_at, mut checkpoints, mut bytes) = (Instant::now(), 0, 0);
        // At least two, as the first replaces nothing.
        while began_at.elapsed() < run || checkpoints < 2 {
            for _ in 0..BATCHES {
                let append = stream.next(300);
                bytes += append.batch.record.len();
                assert_eq!(persist(&store, &append).await, Landing::Durable);
            }
            let id = CheckpointId { epoch: reign.epoch(), upto: stream.head() };
            for number in 0..4 {
                store.put_chunk(reign, id, number, vec![0x5a; 256 << 10]).await.unwrap();
            }
            store.finish_checkpoint(reign, id, 4).await.unwrap();
            while store.sweep(reign).await.unwrap() {}
            checkpoints += 1;
            assert_eq!(rows(&postgres, &address, "batch"), 1, "the newest batch stays");
            assert_eq!(rows(&postgres, &address, "chunk"), 4);
            stream.records.drain(..stream.records.len() - 1);
        }
        let read = read_all(&store, 0).await;
        assert_eq!(read.len(), 4, "the checkpoint covers the newest batch as well");
        println!(
            "PostgreSQL store: {checkpoints} checkpoints, {} KiB of batches, tables of {} KiB",
            bytes >> 10,
            store.sizes().used_bytes >> 10
        );
    });
}

#[test]
fn sweeping_goes_on_until_all_is_gone_that_a_checkpoint_covers() {
    let postgres = Postgres::one();
    let address = address(&postgres.hosts(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Chain::new(reign);
        // One below, at and one above what one sweep removes, the newest kept.
        for batches in [1000, 1001, 1002] {
            while rows(&postgres, &address, "batch") < batches {
                for _ in 0..batches - rows(&postgres, &address, "batch") {
                    assert_eq!(persist(&store, &stream.next(1)).await, Landing::Durable);
                }
            }
            let id = CheckpointId { epoch: reign.epoch(), upto: stream.head() };
            store.put_chunk(reign, id, 0, vec![1]).await.unwrap();
            store.finish_checkpoint(reign, id, 1).await.unwrap();
            let mut sweeps = 1;
            while store.sweep(reign).await.unwrap() {
                sweeps += 1;
            }
            assert_eq!(sweeps, if batches > 1001 { 2 } else { 1 }, "{batches} batches");
            assert_eq!(rows(&postgres, &address, "batch"), 1);
        }
    });
}

#[test]
fn large_batches_and_small_ones_are_read_in_pages() {
    let postgres = Postgres::one();
    let address = address(&postgres.hosts(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        // More than a page by count, then more than a page by bytes, then one that is a page by itself.
        for changes in [1; 660].into_iter().chain([330_000; 9]).chain([2_000_000, 1]) {
            let append = stream.next(changes);
            assert_eq!(persist(&store, &append).await, Landing::Durable);
        }
        assert!(read_all(&store, 0).await == stream.records);
    });
}

#[test]
fn the_quota_says_when_room_is_low() {
    let postgres = Postgres::one();
    let address = address(&postgres.hosts(), "&quota=16MiB");
    let upkeep = PostgresUpkeep { look_every: Duration::from_millis(20), ..PostgresUpkeep::default() };
    runtime().block_on(async {
        let store = PostgresStore::with_upkeep(&address, upkeep).unwrap();
        store.join(node(1), birth()).await.unwrap();
        let mut stream = Chain::new(take(&store, 0, 1).await);
        assert_eq!(store.room(), Room::Enough);
        for _ in 0..15 {
            assert_eq!(persist(&store, &stream.next(330_000)).await, Landing::Durable);
        }
        let began_at = Instant::now();
        while store.room() == Room::Enough {
            assert!(began_at.elapsed() < 30 * SECOND, "the room is never low: {:?}", store.sizes());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
