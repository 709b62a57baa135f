//! The experiments behind docs/cluster.md, on a real etcd that is started for them:
//!
//! ```text
//! cargo run --release -p leasehold-etcd --example measure_etcd -- appends [members…]
//! cargo run --release -p leasehold-etcd --example measure_etcd -- proofs [members…]
//! cargo run --release -p leasehold-etcd --example measure_etcd -- chunks [members…]
//! cargo run --release -p leasehold-etcd --example measure_etcd -- size SECONDS
//! ```

#![allow(clippy::unwrap_used, clippy::cast_precision_loss, reason = "a program that measures may fail loudly")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leasehold_cluster::{
    Append, Birth, CheckpointId, Fut, Landing, Link, NodeId, NodeRecord, Partitions, Reign, SharedError, SharedStore,
    Taking,
};
use leasehold_engine::{Change, Moment, Time, Wall};
use leasehold_etcd::{Address, EtcdStore};
use leasehold_journal::{BatchWriter, Position};
use leasehold_testbed::{Etcd, EtcdOptions};

const PARTITIONS: u32 = 64;
const NODE: NodeId = NodeId(1);
const RUN: Duration = Duration::from_secs(3);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = arguments.iter().skip(1).map(|text| text.parse().unwrap()).collect();
    let members = if numbers.is_empty() { vec![1, 3] } else { numbers.clone() };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match arguments.first().map(String::as_str) {
            Some("appends") => appends(&members).await,
            Some("proofs") => proofs(&members).await,
            Some("chunks") => chunks(&members).await,
            Some("size") => size(Duration::from_secs(numbers.first().copied().unwrap_or(300) as u64)).await,
            _ => panic!("appends, proofs, chunks or size"),
        }
    });
}

/// A cluster with a store that owns all partitions.
struct Rig {
    etcd: Etcd,
    store: Arc<EtcdStore>,
    reigns: Vec<Reign>,
}

impl Rig {
    async fn new(members: usize) -> Rig {
        let etcd = Etcd::start(EtcdOptions { members, ..EtcdOptions::default() });
        let address: Address = format!("etcd://{}/m", etcd.hosts()).parse().unwrap();
        let store = Arc::new(EtcdStore::new(&address).unwrap());
        let birth = Birth { partitions: Partitions::new(PARTITIONS), format: 1, secret: [0; 32] };
        let map = store.join(NodeRecord::new(NODE, "measure:1"), birth).await.unwrap();
        let mut reigns = Vec::new();
        for (partition, seen) in map.owners.into_iter().enumerate() {
            let partition = u32::try_from(partition).unwrap();
            let epoch = seen.value.epoch.next();
            reigns.push(
                store.take(Taking { partition, seen, dead: None, node: NODE, epoch, at: Time(0) }).await.unwrap(),
            );
        }
        Rig { etcd, store, reigns }
    }

    /// Streams of their own for one worker.
    fn streams(&self, from: usize, count: usize) -> Vec<Stream> {
        self.reigns[from..from + count].iter().map(|&reign| Stream::new(reign)).collect()
    }
}

struct Stream {
    reign: Reign,
    writer: BatchWriter,
    before: Link,
    at: u64,
}

impl Stream {
    fn new(reign: Reign) -> Self {
        let writer = BatchWriter::new(reign.partition, reign.epoch(), Position(1));
        Stream { reign, writer, before: Link::default(), at: 0 }
    }

    fn next(&mut self, bytes: usize) -> Append {
        while self.writer.is_empty() || self.writer.bytes() < bytes {
            self.at += 1000;
            self.writer.push(Moment { at: Time(self.at), wall: Wall(self.at) }, &Change::Marked);
        }
        let batch = self.writer.seal();
        let append = Append { reign: self.reign, before: self.before, batch };
        self.before = Link::to(&append.batch);
        append
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

    fn shown(&mut self) -> String {
        format!("p50 {:.1} ms, p99 {:.1} ms", self.at(50), self.at(99))
    }
}

/// Asks again while etcd is too slow, as nodes do.
async fn persist<'a, T>(mut ask: impl FnMut() -> Fut<'a, T>) -> T {
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(SharedError::Away(why)) => eprintln!("away: {why}"),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Appends a batch to each of some streams, again and again, as fast as it is answered.
async fn append_all(store: &EtcdStore, streams: &mut [Stream], bytes: usize, times: &mut Times) {
    let appends: Vec<Append> = streams.iter_mut().map(|stream| stream.next(bytes)).collect();
    let began_at = Instant::now();
    let landings = persist(|| store.append(appends.clone())).await;
    times.0.push(began_at.elapsed().as_micros());
    assert!(landings.iter().all(|landing| *landing == Landing::Durable), "{landings:?}");
}

/// Workers that append until told to stop.
fn load(
    world: &Rig,
    in_flight: usize,
    each: usize,
    bytes: usize,
    stop: &Arc<AtomicBool>,
) -> Vec<tokio::task::JoinHandle<(Vec<Stream>, Times)>> {
    (0..in_flight)
        .map(|worker| {
            let (store, stop) = (Arc::clone(&world.store), Arc::clone(stop));
            let mut streams = world.streams(worker * each, each);
            tokio::spawn(async move {
                let mut times = Times::default();
                while !stop.load(Ordering::Relaxed) {
                    append_all(&store, &mut streams, bytes, &mut times).await;
                }
                (streams, times)
            })
        })
        .collect()
}

async fn collect(workers: Vec<tokio::task::JoinHandle<(Vec<Stream>, Times)>>) -> Times {
    let mut all = Times::default();
    for worker in workers {
        all.0.extend(worker.await.unwrap().1.0);
    }
    all
}

async fn appends(members: &[usize]) {
    println!(
        "| members | batches | bytes each | in flight | transactions/s | batches/s | p50 ms | p99 ms | etcd CPU |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for &members in members {
        for each in [1, 4, 16] {
            for bytes in [512, 2048] {
                for in_flight in [1, 2, 4] {
                    // Each on an etcd of its own: streams begin at their beginning.
                    let world = Rig::new(members).await;
                    let stop = Arc::new(AtomicBool::new(false));
                    let (cpu, began_at) = (world.etcd.cpu_seconds(), Instant::now());
                    let workers = load(&world, in_flight, each, bytes, &stop);
                    tokio::time::sleep(RUN).await;
                    stop.store(true, Ordering::Relaxed);
                    let mut times = collect(workers).await;
                    let took = began_at.elapsed().as_secs_f64();
                    let rate = times.0.len() as f64 / took;
                    let cpu = (world.etcd.cpu_seconds() - cpu) / took;
                    println!(
                        "| {members} | {each} | {bytes} | {in_flight} | {rate:.0} | {:.0} | {:.1} | {:.1} | {cpu:.2} |",
                        rate * each as f64,
                        times.at(50),
                        times.at(99)
                    );
                }
            }
        }
    }
}

async fn proofs(members: &[usize]) {
    println!("| members | proofs/s asked | beside | proofs/s | proof p50, p99 | append p50, p99 |");
    println!("|---|---|---|---|---|---|");
    for &members in members {
        for is_loaded in [false, true] {
            for rate in [200_u32, 1000] {
                let world = Rig::new(members).await;
                let stop = Arc::new(AtomicBool::new(false));
                let workers = load(&world, if is_loaded { 2 } else { 0 }, 16, 1024, &stop);
                let began_at = Instant::now();
                let mut pace = tokio::time::interval(Duration::from_secs(1) / rate);
                let mut asked = Vec::new();
                while began_at.elapsed() < RUN {
                    pace.tick().await;
                    let store = Arc::clone(&world.store);
                    asked.push(tokio::spawn(async move {
                        let began_at = Instant::now();
                        persist(|| store.confirm()).await;
                        began_at.elapsed().as_micros()
                    }));
                }
                let mut times = Times::default();
                for proof in asked {
                    times.0.push(proof.await.unwrap());
                }
                stop.store(true, Ordering::Relaxed);
                let done = times.0.len() as f64 / began_at.elapsed().as_secs_f64();
                let mut beside = collect(workers).await;
                let (what, appended) =
                    if is_loaded { ("2 × 16 × 1 KiB", beside.shown()) } else { ("nothing", "–".to_owned()) };
                println!("| {members} | {rate} | {what} | {done:.0} | {} | {appended} |", times.shown());
            }
        }
    }
}

async fn chunks(members: &[usize]) {
    println!("| members | chunk | MiB/s asked | MiB/s | append p50, p99 | chunk p50, p99 |");
    println!("|---|---|---|---|---|---|");
    for &members in members {
        for (chunk_kib, mib) in [(0, 0), (64, 4), (64, 8), (64, 16), (256, 4), (256, 8), (256, 16)] {
            let world = Rig::new(members).await;
            let stop = Arc::new(AtomicBool::new(false));
            let workers = load(&world, 2, 16, 1024, &stop);
            let began_at = Instant::now();
            let mut times = Times::default();
            let mut bytes = 0;
            if mib == 0 {
                tokio::time::sleep(RUN).await;
            } else {
                // One at a time, as the driver does it.
                let mut pace = tokio::time::interval(Duration::from_secs(1) * chunk_kib / (mib * 1024));
                let (reign, mut number) = (world.reigns[63], 0);
                let id = CheckpointId { epoch: reign.epoch(), upto: Position(1) };
                while began_at.elapsed() < RUN {
                    pace.tick().await;
                    let chunk = vec![0x5a; chunk_kib as usize * 1024];
                    bytes += chunk.len();
                    let asked_at = Instant::now();
                    persist(|| world.store.put_chunk(reign, id, number, chunk.clone())).await;
                    times.0.push(asked_at.elapsed().as_micros());
                    number += 1;
                }
            }
            let took = began_at.elapsed().as_secs_f64();
            stop.store(true, Ordering::Relaxed);
            let mut beside = collect(workers).await;
            let rate = bytes as f64 / took / f64::from(1 << 20);
            println!(
                "| {members} | {chunk_kib} KiB | {mib} | {rate:.1} | {} | {} |",
                beside.shown(),
                if mib == 0 { "–".to_owned() } else { times.shown() }
            );
        }
    }
}

/// 250 transactions a second of eight batches of 640 bytes, with a checkpoint of 1 MiB a partition every 2 000 batches.
async fn size(run: Duration) {
    const STREAMS: usize = 8;
    const CHECKPOINT_EVERY: u64 = 2_000;
    let world = Rig::new(1).await;
    let mut streams = world.streams(0, STREAMS);
    let began_at = Instant::now();
    let mut pace = tokio::time::interval(Duration::from_millis(4));
    let (mut times, mut rounds, mut shown, mut bytes, mut file_max, mut used_max) =
        (Times::default(), 0_u64, 0, 0, 0, 0);
    println!("| after | appended | file | in use | etcd's memory | compactions |");
    println!("|---|---|---|---|---|---|");
    loop {
        pace.tick().await;
        append_all(&world.store, &mut streams, 640, &mut times).await;
        rounds += 1;
        bytes += 640 * STREAMS as u64;
        for (at, stream) in streams.iter().enumerate() {
            // Partitions one after the other, as nodes do it.
            if rounds % CHECKPOINT_EVERY == (at as u64 + 1) * (CHECKPOINT_EVERY / STREAMS as u64) % CHECKPOINT_EVERY {
                let reign = stream.reign;
                let id = CheckpointId { epoch: reign.epoch(), upto: Position(stream.before.first.0 - 1) };
                for number in 0..4 {
                    persist(|| world.store.put_chunk(reign, id, number, vec![0x5a; 256 << 10])).await;
                }
                persist(|| world.store.finish_checkpoint(reign, id, 4)).await;
                while persist(|| world.store.sweep(reign)).await {}
            }
        }
        let sizes = world.store.sizes();
        file_max = file_max.max(sizes.file_bytes);
        used_max = used_max.max(sizes.in_use_bytes);
        let elapsed = began_at.elapsed();
        if elapsed.as_secs() / 30 > shown || elapsed >= run {
            shown = elapsed.as_secs() / 30;
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            println!(
                "| {} s | {rounds} × 8 batches, {:.0} MiB | {:.0} MiB | {:.0} MiB | {:.0} MiB | {} |",
                elapsed.as_secs(),
                mib(bytes),
                mib(sizes.file_bytes),
                mib(sizes.in_use_bytes),
                mib(world.etcd.memory_bytes()),
                sizes.compactions
            );
            if elapsed >= run {
                let rate = rounds as f64 / elapsed.as_secs_f64();
                println!(
                    "{rate:.0} transactions/s, {}; file at most {:.0} MiB, in use at most {:.0} MiB",
                    times.shown(),
                    mib(file_max),
                    mib(used_max)
                );
                return;
            }
        }
    }
}
