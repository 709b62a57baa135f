//! The experiments behind docs/postgres.md, on a real PostgreSQL that is started for them:
//!
//! ```text
//! cargo run --release -p leasehold-postgres --example measure_postgres -- appends [standbys…]
//! cargo run --release -p leasehold-postgres --example measure_postgres -- proofs [standbys…]
//! cargo run --release -p leasehold-postgres --example measure_postgres -- chunks [standbys…]
//! ```

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a program that measures may fail loudly")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_cluster::kit::{Chain, node};
use leasehold_cluster::{Append, Birth, CheckpointId, Landing, Partitions, Reign, SharedStore, Taking};
use leasehold_engine::Time;
use leasehold_journal::Position;
use leasehold_postgres::{Address, PostgresStore};
use leasehold_testbed::{Postgres, PostgresOptions, SUPERUSER};
use tokio::task::JoinHandle;

const PARTITIONS: u32 = 64;
const RUN: Duration = Duration::from_secs(3);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = arguments.iter().skip(1).map(|text| text.parse().unwrap()).collect();
    let standbys = if numbers.is_empty() { vec![0, 1] } else { numbers };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load before: {}", load.trim());
    runtime.block_on(async {
        for standbys in standbys {
            match arguments.first().map(String::as_str) {
                Some("appends") => appends(standbys).await,
                Some("proofs") => proofs(standbys).await,
                Some("chunks") => chunks(standbys).await,
                _ => panic!("appends, proofs or chunks"),
            }
        }
    });
}

/// A server with a store that owns all partitions.
struct World {
    _postgres: Postgres,
    store: Arc<PostgresStore>,
    reigns: Vec<Reign>,
}

impl World {
    async fn new(standbys: usize) -> World {
        let options = PostgresOptions { standbys, is_synchronous: standbys > 0, ..PostgresOptions::default() };
        let postgres = Postgres::start(options);
        let address: Address =
            format!("postgres://{SUPERUSER}@{}/postgres", postgres.servers()[0].addr).parse().unwrap();
        let store = Arc::new(PostgresStore::new(&address).unwrap());
        let birth = Birth { partitions: Partitions::new(PARTITIONS), format: 1, secret: [0; 32] };
        let map = store.join(node(1), birth).await.unwrap();
        let mut reigns = Vec::new();
        for (partition, seen) in (0..).zip(map.owners) {
            let epoch = seen.value.epoch.next();
            let taking = Taking { partition, seen, dead: None, node: node(1).node, epoch, at: Time(0) };
            reigns.push(store.take(taking).await.unwrap());
        }
        World { _postgres: postgres, store, reigns }
    }
}

/// Times of calls, in microseconds.
#[derive(Default)]
struct Times(Vec<u128>);

impl Times {
    fn at(&mut self, percent: usize) -> f64 {
        self.0.sort_unstable();
        let at = (self.0.len() * percent / 100).min(self.0.len().saturating_sub(1));
        self.0.get(at).map_or(0.0, |&us| us as f64 / 1000.0)
    }
}

/// Workers that append a batch to each of their streams, again and again, as fast as it is answered.
struct Load {
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<(Vec<Chain>, Times)>>,
}

impl Load {
    fn start(store: &Arc<PostgresStore>, groups: Vec<Vec<Chain>>, bytes: usize) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let workers = groups.into_iter().map(|mut streams| {
            let (store, stop) = (Arc::clone(store), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut times = Times::default();
                while !stop.load(Ordering::Relaxed) {
                    let appends: Vec<Append> = streams.iter_mut().map(|stream| stream.next_of(bytes)).collect();
                    let began_at = Instant::now();
                    let landings = store.append(appends).await.unwrap();
                    times.0.push(began_at.elapsed().as_micros());
                    assert!(landings.iter().all(|landing| *landing == Landing::Durable), "{landings:?}");
                    for stream in &mut streams {
                        stream.records.clear();
                    }
                }
                (streams, times)
            })
        });
        Load { workers: workers.collect(), stop }
    }

    async fn end(self) -> (Vec<Chain>, Times) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut streams, mut times) = (Vec::new(), Times::default());
        for worker in self.workers {
            let (of_worker, times_of_worker) = worker.await.unwrap();
            streams.extend(of_worker);
            times.0.extend(times_of_worker.0);
        }
        (streams, times)
    }
}

/// Streams for so many workers, so many each.
fn divided(streams: &mut Vec<Chain>, workers: usize, each: usize) -> Vec<Vec<Chain>> {
    (0..workers).map(|_| streams.split_off(streams.len() - each)).collect()
}

async fn appends(standbys: usize) {
    println!("| standbys | batches | bytes each | in flight | transactions/s | batches/s | p50 ms | p99 ms |");
    println!("|---|---|---|---|---|---|---|---|");
    let world = World::new(standbys).await;
    let mut streams: Vec<Chain> = world.reigns.iter().map(|&reign| Chain::new(reign)).collect();
    for each in [1, 4, 16] {
        for bytes in [512, 2048] {
            for in_flight in [1, 2, 4] {
                let began_at = Instant::now();
                let load = Load::start(&world.store, divided(&mut streams, in_flight, each), bytes);
                tokio::time::sleep(RUN).await;
                let (back, mut times) = load.end().await;
                streams.splice(0..0, back);
                let rate = times.0.len() as f64 / began_at.elapsed().as_secs_f64();
                let (batches, p50, p99) = (rate * each as f64, times.at(50), times.at(99));
                println!(
                    "| {standbys} | {each} | {bytes} | {in_flight} | {rate:.0} | {batches:.0} | {p50:.1} | {p99:.1} |"
                );
            }
        }
    }
}

async fn proofs(standbys: usize) {
    println!("| standbys | proofs/s asked | beside | proofs/s | proof p50 ms | p99 ms | append p50 ms | p99 ms |");
    println!("|---|---|---|---|---|---|---|---|");
    let world = World::new(standbys).await;
    let mut streams: Vec<Chain> = world.reigns.iter().map(|&reign| Chain::new(reign)).collect();
    for in_flight in [0, 1] {
        for rate in [50_u32, 200] {
            let load = Load::start(&world.store, divided(&mut streams, in_flight, 16), 1024);
            let (began_at, mut times) = (Instant::now(), Times::default());
            let mut pace = tokio::time::interval(Duration::from_secs(1) / rate);
            // One at a time, as a node does it.
            while began_at.elapsed() < RUN {
                pace.tick().await;
                let asked_at = Instant::now();
                world.store.confirm().await.unwrap();
                times.0.push(asked_at.elapsed().as_micros());
            }
            let done = times.0.len() as f64 / began_at.elapsed().as_secs_f64();
            let (back, mut beside) = load.end().await;
            streams.splice(0..0, back);
            let what = if in_flight == 0 { "nothing" } else { "16 × 1 KiB" };
            println!(
                "| {standbys} | {rate} | {what} | {done:.0} | {:.1} | {:.1} | {:.1} | {:.1} |",
                times.at(50),
                times.at(99),
                beside.at(50),
                beside.at(99)
            );
        }
    }
}

async fn chunks(standbys: usize) {
    println!("| standbys | chunk | MiB/s asked | MiB/s | append p50 ms | p99 ms | chunk p50 ms | p99 ms |");
    println!("|---|---|---|---|---|---|---|---|");
    let world = World::new(standbys).await;
    let mut streams: Vec<Chain> = world.reigns.iter().map(|&reign| Chain::new(reign)).collect();
    let checkpointed = world.reigns[0];
    for (round, (chunk_kib, mib)) in (1..).zip([(0, 0), (64, 8), (256, 4), (256, 8), (256, 16)]) {
        let mut groups = divided(&mut streams, 1, 15);
        // The partition that is checkpointed is appended to as well.
        groups[0].push(streams.remove(0));
        let load = Load::start(&world.store, groups, 1024);
        let (began_at, mut times, mut bytes) = (Instant::now(), Times::default(), 0);
        if mib == 0 {
            tokio::time::sleep(RUN).await;
        } else {
            let mut pace = tokio::time::interval(Duration::from_secs(1) * chunk_kib / (mib * 1024));
            let id = CheckpointId { epoch: checkpointed.epoch(), upto: Position(round) };
            let mut number = 0;
            while began_at.elapsed() < RUN {
                pace.tick().await;
                let chunk = vec![0x5a; chunk_kib as usize * 1024];
                bytes += chunk.len();
                let asked_at = Instant::now();
                world.store.put_chunk(checkpointed, id, number, chunk).await.unwrap();
                times.0.push(asked_at.elapsed().as_micros());
                number += 1;
            }
        }
        let rate = bytes as f64 / began_at.elapsed().as_secs_f64() / f64::from(1 << 20);
        let (mut back, mut beside) = load.end().await;
        let first = back.pop().unwrap();
        streams.insert(0, first);
        streams.extend(back);
        println!(
            "| {standbys} | {chunk_kib} KiB | {mib} | {rate:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
            beside.at(50),
            beside.at(99),
            times.at(50),
            times.at(99)
        );
    }
}
