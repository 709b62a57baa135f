//! Measures the SQLite store on this machine: commits, the pauses between them, a checkpoint of a million facts written
//! while commits go on, and reading it all back.
//!
//! `cargo run --release -p leasehold-journal --example measure -- [DIRECTORY]`

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use leasehold_engine::{
    Change, ClaimFact, ClaimId, Claimed, Fact, Lease, Moment, Particulars, ResourceKey, Status, Time, Token, Wall,
};
use leasehold_journal::record::{Batch, BatchReader, BatchWriter, ChunkReader, ChunkWriter};
use leasehold_journal::store::{Opened, Opener, Recovered, SqliteOpener, Store, StoreError};

const COMMITS: usize = 20_000;
const CHANGES_PER_BATCH: u64 = 32;
const FACTS: u64 = 1_000_000;

fn main() -> Result<(), StoreError> {
    let parent = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = tempfile::tempdir_in(parent)
        .map_err(|error| StoreError::Failed { doing: "making a directory".to_owned(), why: error.into() })?;
    encode();
    let mut opened = open(directory.path())?;
    let mut load = Load::new(&opened);
    commits(&mut *opened.store, &mut load)?;
    checkpoint(&mut *opened.store, &mut load)?;
    drop(opened);
    let started = Instant::now();
    let opened = open(directory.path())?;
    println!("open      {:?} in all, head {}, {:?}", started.elapsed(), opened.head, opened.store.sizes());
    Ok(())
}

fn encode() {
    let mut writer = BatchWriter::new(0, leasehold_journal::Epoch(1), leasehold_journal::Position(1));
    let mut load = Source::default();
    let started = Instant::now();
    let mut bytes = 0;
    for _ in 0..COMMITS {
        bytes += load.fill(&mut writer).record.len();
    }
    let changes = COMMITS as u64 * CHANGES_PER_BATCH;
    println!("encode    {} ns a change, {} bytes each", per(started.elapsed(), changes), bytes as u64 / changes);
}

fn commits(store: &mut dyn Store, load: &mut Load) -> Result<(), StoreError> {
    let (mut appends, mut pauses) = (Times::default(), Times::default());
    let started = Instant::now();
    for _ in 0..COMMITS {
        let batch = load.batch();
        appends.time(|| store.append(&batch))?;
        pauses.time(|| store.maintain())?;
    }
    let rate = COMMITS as u128 * 1_000 / started.elapsed().as_millis().max(1);
    println!("commits   {rate}/s of {CHANGES_PER_BATCH} changes; append {appends}; maintain {pauses}");
    println!("          {:?}", store.sizes());
    Ok(())
}

fn checkpoint(store: &mut dyn Store, load: &mut Load) -> Result<(), StoreError> {
    let (mut appends, mut chunks, mut pauses) = (Times::default(), Times::default(), Times::default());
    let upto = load.head;
    let now = Moment { at: Time(1 << 40), wall: Wall(1 << 50) };
    let mut writer = ChunkWriter::new(0, upto, now);
    let started = Instant::now();
    store.begin_checkpoint(upto)?;
    for number in 0..FACTS {
        writer.push(&fact(number, now));
        if writer.is_full() || number + 1 == FACTS {
            let chunk = writer.seal();
            chunks.time(|| store.put_chunk(&chunk))?;
            let batch = load.batch();
            appends.time(|| store.append(&batch))?;
            pauses.time(|| store.maintain())?;
        }
    }
    store.finish_checkpoint()?;
    println!(
        "checkpoint of {FACTS} facts in {:?}; chunk {chunks}; append {appends}; maintain {pauses}",
        started.elapsed()
    );

    let (mut slices, mut appends) = (Times::default(), Times::default());
    let started = Instant::now();
    while slices.time(|| store.maintain())? {
        let batch = load.batch();
        appends.time(|| store.append(&batch))?;
    }
    println!("sweep     in {:?}; slice {slices}; append {appends}; {:?}", started.elapsed(), store.sizes());
    Ok(())
}

fn open(directory: &Path) -> Result<Opened, StoreError> {
    let (mut facts, mut changes) = (0, 0);
    let mut decoding = Duration::ZERO;
    let opened = SqliteOpener::new(directory).open(0, &mut |recovered| {
        let started = Instant::now();
        match recovered {
            Recovered::Chunk(record) => {
                facts += ChunkReader::open(record).into_iter().flatten().map(black_box).count();
            }
            Recovered::Batch(record) => {
                changes += BatchReader::open(record).into_iter().flatten().map(black_box).count();
            }
        }
        decoding += started.elapsed();
        Ok(())
    })?;
    if facts + changes > 0 {
        println!("read back {facts} facts and {changes} changes, of which decoding {decoding:?}");
    }
    Ok(opened)
}

/// Batches as pools that are borrowed from make them.
struct Load {
    writer: BatchWriter,
    source: Source,
    head: leasehold_journal::Position,
}

impl Load {
    fn new(opened: &Opened) -> Self {
        let writer = BatchWriter::new(0, opened.epoch, opened.head.next());
        Load { writer, source: Source::default(), head: opened.head }
    }

    fn batch(&mut self) -> Batch {
        let batch = self.source.fill(&mut self.writer);
        self.head = batch.last;
        batch
    }
}

#[derive(Default)]
struct Source {
    claims: u64,
}

impl Source {
    fn fill(&mut self, writer: &mut BatchWriter) -> Batch {
        for _ in 0..CHANGES_PER_BATCH / 2 {
            self.claims += 1;
            let claim = claim_id(self.claims);
            let now = Moment { at: Time(self.claims * 10), wall: Wall((1 << 50) + self.claims * 10) };
            let claimed = Claimed {
                claim,
                resource: ResourceKey::Pool(claim_id(self.claims % 64).0),
                ttl_us: 30_000_000,
                wait_until: now.at.plus(10_000_000),
                keep_us: 0,
                client: None,
                principal: None,
                key: None,
                metadata: None,
                particulars: Particulars::default(),
            };
            writer.push(now, &Change::Claimed(Box::new(claimed)));
            let lease = Lease { deadline: now.at.plus(30_000_000), grace_us: 0 };
            writer.push(now, &Change::Granted { claim, slot: 3, token: Token(self.claims), lease });
        }
        writer.seal()
    }
}

fn claim_id(number: u64) -> ClaimId {
    ClaimId(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
}

fn fact(number: u64, now: Moment) -> Fact {
    let granted = Moment { at: Time(now.at.0 - 1_000_000 + number), wall: Wall(0) };
    Fact::Claim(Box::new(ClaimFact {
        claim: claim_id(number),
        resource: ResourceKey::Pool(claim_id(number % 64).0),
        order: number,
        status: Status::Active,
        seen: false,
        ttl_us: 30_000_000,
        wait_until: Time::NEVER,
        keep_us: 0,
        slot: 3,
        token: Token(number + 1),
        lease: Lease { deadline: granted.at.plus(30_000_000), grace_us: 0 },
        created: granted,
        granted: Some(granted),
        ended: None,
        client: None,
        principal: None,
        key: None,
        metadata: None,
        particulars: Particulars::default(),
    }))
}

fn per(elapsed: Duration, count: u64) -> u128 {
    elapsed.as_nanos() / u128::from(count)
}

/// How long something took, each time.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn time<T>(&mut self, act: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = act();
        self.0.push(started.elapsed());
        done
    }
}

impl std::fmt::Display for Times {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = |per_mille: usize| sorted.get(sorted.len() * per_mille / 1_000).copied().unwrap_or_default();
        let longest = sorted.last().copied().unwrap_or_default();
        write!(f, "p50 {:?} p99 {:?} p99.9 {:?} longest {longest:?}", at(500), at(990), at(999))
    }
}
