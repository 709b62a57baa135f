//! Sweeping and compaction keep etcd small, however much is appended.

use std::time::{Duration, Instant};

use leasehold_cluster::{CheckpointId, Landing, SharedStore};
use leasehold_etcd::wire::RangeRequest;
use leasehold_etcd::{Address, Client};
use leasehold_journal::Position;
use leasehold_testbed::Etcd;

use super::common::{SECOND, Stream, address, joined, persist, read_all, runtime, take};

async fn keys_below(client: &Client, address: &Address, folder: &str) -> i64 {
    let (key, range_end) = (format!("{}/{folder}/", address.prefix), format!("{}/{folder}0", address.prefix));
    let request =
        RangeRequest { key: key.into(), range_end: range_end.into(), count_only: true, ..RangeRequest::default() };
    client.call(&request, 5 * SECOND).await.unwrap().count
}

/// `LEASEHOLD_ETCD_SECONDS` is for how long; a checkpoint of four chunks every 300 batches.
#[test]
fn the_store_stays_small() {
    const BATCHES: usize = 300;
    let run = std::env::var("LEASEHOLD_ETCD_SECONDS").ok().map_or(5, |text| text.parse().unwrap());
    let run = Duration::from_secs(run);
    let etcd = Etcd::one();
    let address = address(&etcd.hosts(), "");
    runtime().block_on(async {
        let client = Client::new(&address).unwrap();
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Stream::new(reign);
        let (began_at, mut checkpoints, mut bytes) = (Instant::now(), 0, 0);
        // At least two, as the first replaces nothing.
        while began_at.elapsed() < run || checkpoints < 2 {
            let mut upto = Position(0);
            for _ in 0..BATCHES {
                let append = stream.next(300);
                bytes += append.batch.record.len();
                upto = append.batch.last;
                assert_eq!(persist(&store, &append).await, Landing::Durable);
            }
            let id = CheckpointId { epoch: reign.epoch(), upto };
            for number in 0..4 {
                store.put_chunk(reign, id, number, vec![0x5a; 256 << 10]).await.unwrap();
            }
            store.finish_checkpoint(reign, id, 4).await.unwrap();
            while store.sweep(reign).await.unwrap() {}
            checkpoints += 1;
            assert_eq!(keys_below(&client, &address, "b").await, 1, "the newest batch stays");
            assert_eq!(keys_below(&client, &address, "k").await, 4);
            stream.records.drain(..stream.records.len() - 1);
        }
        let read = read_all(&store, 0).await;
        assert_eq!(read.len(), 4, "the checkpoint covers the newest batch as well");
        let sizes = store.sizes();
        if run > Duration::from_mins(3) {
            assert!(sizes.compactions > 0, "{sizes:?}");
        }
        println!(
            "etcd store: {checkpoints} checkpoints, {} MiB of batches, {} keys left, file {} MiB, {} compactions",
            bytes >> 20,
            keys_below(&client, &address, "b").await + keys_below(&client, &address, "k").await,
            sizes.file_bytes >> 20,
            sizes.compactions
        );
    });
}

#[test]
fn sweeping_goes_on_until_all_is_gone_that_a_checkpoint_covers() {
    let etcd = Etcd::one();
    let address = address(&etcd.hosts(), "");
    runtime().block_on(async {
        let client = Client::new(&address).unwrap();
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Stream::new(reign);
        // One below, at and one above what one sweep removes, the newest kept.
        for batches in [1000, 1001, 1002] {
            let mut upto = Position(0);
            while keys_below(&client, &address, "b").await < batches {
                for _ in 0..20.min(batches - keys_below(&client, &address, "b").await) {
                    let append = stream.next(1);
                    upto = append.batch.last;
                    assert_eq!(persist(&store, &append).await, Landing::Durable);
                }
            }
            let id = CheckpointId { epoch: reign.epoch(), upto };
            store.put_chunk(reign, id, 0, vec![1]).await.unwrap();
            store.finish_checkpoint(reign, id, 1).await.unwrap();
            let mut sweeps = 1;
            while store.sweep(reign).await.unwrap() {
                sweeps += 1;
            }
            assert_eq!(sweeps, if batches > 1001 { 2 } else { 1 }, "{batches} batches");
            assert_eq!(keys_below(&client, &address, "b").await, 1);
        }
    });
}

#[test]
fn a_batch_in_parts_comes_back_whole_and_is_swept_with_its_parts() {
    let etcd = Etcd::one();
    let address = address(&etcd.hosts(), "");
    runtime().block_on(async {
        let client = Client::new(&address).unwrap();
        let store = joined(&address, 1).await;
        let reign = take(&store, 0, 1).await;
        let mut stream = Stream::new(reign);
        let appends = [stream.next(10), stream.next(1_200_000), stream.next(10)];
        assert!(appends[1].batch.record.len() > 3 << 20, "{}", appends[1].batch.record.len());
        for append in &appends {
            assert_eq!(persist(&store, append).await, Landing::Durable);
            assert_eq!(persist(&store, append).await, Landing::Durable, "again");
        }
        assert_eq!(read_all(&store, 0).await, stream.records);
        assert_eq!(keys_below(&client, &address, "x").await, 4);
        let id = CheckpointId { epoch: reign.epoch(), upto: appends[1].batch.last };
        store.put_chunk(reign, id, 0, vec![1]).await.unwrap();
        store.finish_checkpoint(reign, id, 1).await.unwrap();
        while store.sweep(reign).await.unwrap() {}
        assert_eq!(keys_below(&client, &address, "x").await, 0);
        assert_eq!(read_all(&store, 0).await, [vec![1], appends[2].batch.record.clone()]);
    });
}
