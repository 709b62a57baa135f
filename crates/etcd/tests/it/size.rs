//! Sweeping and compaction keep etcd small, however much is appended.

use std::time::{Duration, Instant};

use leasehold_cluster::{CheckpointId, Landing, SharedStore};
use leasehold_etcd::wire::RangeRequest;
use leasehold_etcd::{Address, Client, EtcdStore, EtcdUpkeep};
use leasehold_journal::Position;
use leasehold_testbed::Etcd;

use super::common::{Chain, SECOND, address, birth, joined, node, persist, read_all, runtime, take};

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
        let mut stream = Chain::new(reign);
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
        let mut stream = Chain::new(reign);
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
        let mut stream = Chain::new(reign);
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

#[test]
fn large_batches_after_small_ones_are_read_in_smaller_pages() {
    let etcd = Etcd::one();
    let address = address(&etcd.hosts(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        // The small ones make the store ask for many at a time; the large ones are more than fits into an answer.
        let sizes = [1; 20].into_iter().chain([330_000; 72]);
        let mut bytes = 0;
        for changes in sizes {
            let append = stream.next(changes);
            bytes += append.batch.record.len();
            assert_eq!(persist(&store, &append).await, Landing::Durable);
        }
        assert!(bytes > 65 << 20, "{bytes}");
        assert!(read_all(&store, 0).await == stream.records);
    });
}

#[test]
fn one_node_compacts_the_history_and_only_where_it_may() {
    let etcd = Etcd::one();
    let upkeep = EtcdUpkeep { look_every: Duration::from_millis(20), compact_every: Duration::from_millis(200) };
    for may_compact in [true, false] {
        let address = address(&etcd.hosts(), if may_compact { "" } else { "?compact=never" });
        runtime().block_on(async {
            let stores = [1, 2].map(|_| EtcdStore::with_upkeep(&address, upkeep).unwrap());
            for (number, store) in (1..).zip(&stores) {
                store.join(node(number), birth()).await.unwrap();
            }
            let (mut stream, began_at) = (Chain::new(take(&stores[0], 0, 1).await), Instant::now());
            let compactions = || stores.iter().map(|store| store.sizes().compactions).sum::<u64>();
            let is_due = || may_compact && compactions() == 0 && began_at.elapsed() < 30 * SECOND;
            while began_at.elapsed() < 2 * SECOND || is_due() {
                assert_eq!(persist(&stores[0], &stream.next(1)).await, Landing::Durable);
            }
            let most = u64::try_from(began_at.elapsed().as_millis()).unwrap() / 200 + 1;
            let done = compactions();
            assert_eq!(done > 0, may_compact, "{done}");
            assert!(done <= most, "{done} compactions, {most} would be one at a time");
            assert_eq!(read_all(&stores[0], 0).await, stream.records, "nothing is lost by it");
            println!("{done} compactions by two nodes in {:?}", began_at.elapsed());
        });
    }
}
