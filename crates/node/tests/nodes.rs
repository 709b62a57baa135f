//! Several nodes in one process, over real sockets, on a shared store in memory.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]
#![allow(clippy::cast_possible_truncation, reason = "clocks of this century")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold_cluster::{Birth, Bulletin, Config, MemoryStore, Meta, Partitions, SharedStore, claim_id};
use leasehold_engine::{
    Acquire, ClaimId, Command, Limits, Options, Patience, Quota, Refusal, Reply, ResourceKey, Totals, Wall,
};
use leasehold_journal::{Clocks, Denial, PartitionLimits, Request};
use leasehold_node::{Entrance, Heard, LinkTls, Observers, RunningNode, Start, StartError, TimeSource, start};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// At most three for each of three nodes, so that none is without.
const PARTITIONS: u32 = 8;
const SOON: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct Seen(AtomicU64);

impl Observers for Seen {
    fn joined(&self, _: &Meta) {}
    fn news(&self, news: &Bulletin, _: &Totals) {
        self.0.fetch_add(news.happened.len() as u64, Ordering::Relaxed);
    }
    fn appended(&self, _: u64, _: usize, _: Duration) {}
    fn checkpointed(&self) {}
}

struct Member {
    running: RunningNode,
    seen: Arc<Seen>,
}

impl Member {
    async fn start(store: &MemoryStore, partitions: u32, tls: Option<LinkTls>) -> Result<Member, StartError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        Member::start_as(store, partitions, tls, listener, address).await
    }

    async fn start_as(
        store: &MemoryStore,
        partitions: u32,
        tls: Option<LinkTls>,
        listener: TcpListener,
        address: String,
    ) -> Result<Member, StartError> {
        let began = Instant::now();
        let clock = TimeSource(Arc::new(move || {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
            Clocks { mono_us: began.elapsed().as_micros() as u64, wall: Wall(wall as u64) }
        }));
        let config = Config {
            address: address.into(),
            birth: Birth {
                partitions: Partitions::new(partitions),
                format: leasehold_cluster::format::FORMAT,
                secret: [7; 32],
            },
            limits: Limits::default(),
            partition_limits: PartitionLimits {
                callers_max: 1_000,
                store_timeout_us: 5_000_000,
                backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
            },
            node_ttl_us: 600_000,
            settle_us: 300_000,
            beat_us: 100_000,
            look_us: 50_000,
            checkpoint_every: 50,
            forget_us: 1_000_000,
        };
        let seen = Arc::new(Seen::default());
        let observers: Arc<dyn Observers> = Arc::clone(&seen) as _;
        let store: Arc<dyn SharedStore> = Arc::new(store.connect());
        let running = start(store, Start { config, listener, tls, callers_max: 1_000, clock, observers }).await?;
        Ok(Member { running, seen })
    }

    fn entrance(&self) -> Entrance {
        self.running.entrance()
    }
}

fn lock(nth: u32) -> ResourceKey {
    ResourceKey::Lock(format!("job-{nth}").into())
}

fn acquire(nth: u32, client: &str, wait_us: u64) -> Request {
    let resource = lock(nth);
    let mut id = [0; 16];
    getrandom_fill(&mut id);
    let id = claim_id(&resource, u128::from_be_bytes(id));
    Command::Acquire(Box::new(Acquire {
        resource,
        id: ClaimId(id.0),
        ttl_us: 60_000_000,
        patience: Patience::For { wait_us },
        client: Some(client.into()),
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
    .into()
}

fn getrandom_fill(bytes: &mut [u8]) {
    use std::hash::{BuildHasher as _, Hasher as _};
    for chunk in bytes.chunks_mut(8) {
        let drawn = std::hash::RandomState::new().build_hasher().finish();
        chunk.copy_from_slice(&drawn.to_be_bytes()[..chunk.len()]);
    }
}

fn unlock(nth: u32, client: &str) -> Request {
    Command::Unlock { resource: lock(nth), client: client.into(), token: None }.into()
}

async fn call(entrance: &Entrance, nth: u32, request: Request) -> Heard {
    let partition = entrance.partitions().of(&lock(nth));
    *timeout(SOON, entrance.call(partition, request)).await.expect("an answer")
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < SOON, "{what}");
        sleep(Duration::from_millis(5)).await;
    }
}

async fn three(tls: Option<&LinkTls>) -> (MemoryStore, Vec<Member>) {
    let store = MemoryStore::new();
    let mut members = Vec::new();
    for _ in 0..3 {
        members.push(Member::start(&store, PARTITIONS, tls.cloned()).await.unwrap());
    }
    until("every node owns something, and links are up", || {
        let statuses: Vec<_> = members.iter().map(|member| member.entrance().status()).collect();
        statuses.iter().all(|status| {
            status.partitions.iter().any(|partition| partition.is_served_here)
                && status.nodes.iter().filter(|node| !node.is_buried).all(|node| node.is_linked)
        })
    })
    .await;
    (store, members)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_node_takes_any_request() {
    let (_store, members) = three(None).await;
    for nth in 0..24 {
        let (one, other) = (members[nth as usize % 3].entrance(), members[(nth as usize + 1) % 3].entrance());
        assert!(matches!(call(&one, nth, acquire(nth, "a", 0)).await.answer, Ok(Reply::Lock(..))));
        let refused = call(&other, nth, acquire(nth, "b", 0)).await.answer;
        assert!(matches!(refused, Err(Denial::Refused(Refusal::Locked { .. }))), "{refused:?}");
        // It waits at another node than the one that has the lock.
        let waiting = other.call(other.partitions().of(&lock(nth)), acquire(nth, "c", 5_000_000));
        assert!(call(&one, nth, unlock(nth, "a")).await.answer.is_ok());
        let granted = timeout(SOON, waiting).await.unwrap();
        assert!(matches!(granted.answer, Ok(Reply::Lock(..))), "{:?}", granted.answer);
    }
    let forwarded: u64 = members.iter().map(|member| member.entrance().counts().asked.get()).sum();
    assert!(forwarded > 10, "calls went over links: {forwarded}");
    // Observers at every node hear of everything.
    until("all nodes tell the same", || {
        let told: Vec<u64> = members.iter().map(|member| member.seen.0.load(Ordering::Relaxed)).collect();
        told[0] > 48 && told.windows(2).all(|pair| pair[0] == pair[1])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_dies_and_its_leases_live_on() {
    /// As names are divided by their hash, 24 of them leave a partition without any.
    const LOCKS: u32 = 64;
    let (_store, mut members) = three(None).await;
    let entrance = members[0].entrance();
    let with_a_lock: BTreeSet<u32> = (0..LOCKS).map(|nth| entrance.partitions().of(&lock(nth))).collect();
    assert_eq!(with_a_lock.len(), PARTITIONS as usize);
    let mut tokens = Vec::new();
    for nth in 0..LOCKS {
        match call(&members[0].entrance(), nth, acquire(nth, "a", 0)).await.answer {
            Ok(Reply::Lock(view, _)) => tokens.push(view.holder.unwrap().token),
            other => panic!("{other:?}"),
        }
    }
    // A caller of a survivor waits in a partition of the node that dies.
    let dying = members.pop().unwrap();
    let owned = dying.entrance().status().partitions.into_iter().find(|partition| partition.is_served_here);
    let partition = owned.unwrap().partition;
    let nth = (0..LOCKS).find(|nth| entrance.partitions().of(&lock(*nth)) == partition);
    let nth = nth.expect("there are enough locks for every partition");
    let waiting = entrance.call(partition, acquire(nth, "b", 9_000_000));
    drop(dying);
    for nth in 0..LOCKS {
        let renewed = call(&members[1].entrance(), nth, acquire(nth, "a", 0)).await.answer;
        let Ok(Reply::Lock(view, _)) = renewed else { panic!("{nth}: {renewed:?}") };
        assert_eq!(view.holder.unwrap().token, tokens[nth as usize], "the lease of {nth} was kept");
    }
    assert!(call(&members[1].entrance(), nth, unlock(nth, "a")).await.answer.is_ok());
    let granted = timeout(SOON, waiting).await.expect("the waiter kept its place");
    assert!(matches!(granted.answer, Ok(Reply::Lock(..))), "{:?}", granted.answer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_told_to_end_gives_everything_away() {
    let (_store, mut members) = three(None).await;
    let leaving = members.pop().unwrap();
    let entrance = members[0].entrance();
    assert!(call(&entrance, 1, acquire(1, "a", 0)).await.answer.is_ok());
    // Parked at the node that ends: it is told so.
    let partition = entrance.partitions().of(&lock(1));
    let parked = leaving.entrance().call(partition, acquire(1, "b", 60_000_000));
    let began = Instant::now();
    leaving.running.drain();
    assert!(leaving.running.end().await, "it ended in time");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(timeout(SOON, parked).await.unwrap().answer, Err(Denial::ShuttingDown));
    for nth in 0..24 {
        assert!(call(&entrance, nth, acquire(nth, "a", 0)).await.answer.is_ok());
    }
    // The parked caller's place is gone: the lock goes to the next one.
    assert!(call(&entrance, 1, unlock(1, "a")).await.answer.is_ok());
    assert!(call(&entrance, 1, acquire(1, "c", 0)).await.answer.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_leaves_holds_nothing() {
    let (_store, members) = three(None).await;
    for nth in 0..12 {
        let entrance = members[nth as usize % 3].entrance();
        // Dropped at once: granted or not, it is given back.
        drop(entrance.call(entrance.partitions().of(&lock(nth)), acquire(nth, "gone", 0)));
        let got = call(&members[(nth as usize + 1) % 3].entrance(), nth, acquire(nth, "next", 5_000_000)).await;
        assert!(matches!(got.answer, Ok(Reply::Lock(..))), "{nth}: {:?}", got.answer);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_are_encrypted() {
    let made = rcgen::generate_simple_self_signed(vec!["node".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let tls = LinkTls::new(Arc::new(move || Arc::clone(&config))).unwrap();
    let (_store, members) = three(Some(&tls)).await;
    for nth in 0..12 {
        assert!(call(&members[nth as usize % 3].entrance(), nth, acquire(nth, "a", 0)).await.answer.is_ok());
    }
    assert!(members.iter().any(|member| member.entrance().counts().asked.get() > 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_told_at_the_start() {
    let (store, members) = three(None).await;
    let refused = Member::start(&store, 16, None).await.err().unwrap().to_string();
    assert!(refused.contains("partitions"), "{refused}");
    // It listens elsewhere than it says, and another node answers there.
    let taken = members[0].entrance().status().address;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = Member::start_as(&store, PARTITIONS, None, listener, taken.clone()).await.err().unwrap();
    assert!(matches!(&error, StartError::AddressTaken(address) if *address == taken), "{error}");
}
