//! The driver with real threads and clocks, around a store that hangs wherever it is told to: time stands still for
//! holders, the end comes all the same, and long queues hold up no other caller.

#![expect(clippy::unwrap_used, reason = "a test stops where something is missing")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use leasehold_engine::{
    Acquire, ClaimFilter, ClaimId, ClaimQuery, Command, Labeling, Limits, Options, Patience, Quota, Refusal, Reply,
    ResourceKey, Wall,
};
use leasehold_journal::store::{Opened, Recovered};
use leasehold_journal::{
    Batch, Denial, MemoryOpener, Opener, PartitionLimits, Position, Room, Sizes, Store, StoreError, recover,
};
use leasehold_server::{Clock, Driver, Drivers, Lead, Observer};
use tokio::runtime::{Builder, Runtime};

const POOL: ResourceKey = ResourceKey::Pool(1);
/// Longer than any of this takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the store hangs, as long as it is set.
#[derive(Clone, Debug, Default)]
struct Hang {
    append: Arc<AtomicBool>,
    maintain: Arc<AtomicBool>,
    room: Arc<AtomicBool>,
    close: Arc<AtomicBool>,
    /// It does.
    inside: Arc<AtomicBool>,
}

impl Hang {
    fn at(&self, place: &AtomicBool) {
        while place.load(Ordering::SeqCst) {
            self.inside.store(true, Ordering::SeqCst);
            std::thread::yield_now();
        }
    }

    fn over(&self) {
        for place in [&self.append, &self.maintain, &self.room, &self.close] {
            place.store(false, Ordering::SeqCst);
        }
    }
}

struct HangingOpener {
    inner: MemoryOpener,
    hang: Hang,
}

impl Opener for HangingOpener {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        let opened = self.inner.open(partition, visit)?;
        Ok(Opened { store: Box::new(HangingStore { inner: opened.store, hang: self.hang.clone() }), ..opened })
    }
}

struct HangingStore {
    inner: Box<dyn Store>,
    hang: Hang,
}

impl Drop for HangingStore {
    fn drop(&mut self) {
        self.hang.at(&self.hang.close);
    }
}

impl Store for HangingStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.hang.at(&self.hang.append);
        self.inner.append(batch)
    }
    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError> {
        self.inner.begin_checkpoint(upto)
    }
    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(chunk)
    }
    fn finish_checkpoint(&mut self) -> Result<(), StoreError> {
        self.inner.finish_checkpoint()
    }
    fn maintain(&mut self) -> Result<bool, StoreError> {
        self.hang.at(&self.hang.maintain);
        self.inner.maintain()
    }
    fn room(&self) -> Room {
        self.hang.at(&self.hang.room);
        self.inner.room()
    }
    fn sizes(&self) -> Sizes {
        self.inner.sizes()
    }
}

fn limits() -> PartitionLimits {
    PartitionLimits {
        callers_max: 200_000,
        store_timeout_us: 60_000_000,
        backlog_bytes_max: PartitionLimits::BACKLOG_BYTES_MAX,
    }
}

/// Where a store hangs.
type HangPoint = fn(&Hang) -> &AtomicBool;

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn acquire(resource: ResourceKey, id: u128, ttl_us: u64, patience: Patience) -> Command {
    Command::Acquire(Box::new(Acquire {
        resource,
        id: ClaimId(id),
        ttl_us,
        patience,
        client: None,
        principal: None,
        key: None,
        metadata: None,
        quota: Quota::NONE,
        options: Options::default(),
    }))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

#[test]
fn a_lease_granted_while_the_store_hangs_anywhere_is_answered_before_it_ends() {
    let places: [(&str, HangPoint); 3] =
        [("append", |hang| &hang.append), ("maintain", |hang| &hang.maintain), ("room", |hang| &hang.room)];
    for (name, place) in places {
        let hang = Hang::default();
        if name == "room" {
            // It is looked at first thing, and then once a second.
            hang.room.store(true, Ordering::SeqCst);
        }
        let opener = HangingOpener { inner: MemoryOpener::keeping(), hang: hang.clone() };
        let recovery = recover(&opener, 0, Limits::default()).unwrap();
        let runtime = runtime();
        let _inside = runtime.enter();
        let clock = Clock::manual(Wall(1_700_000_000_000_000));
        let driver = Driver::start(recovery, limits(), Arc::new(Observer::default()), clock);
        let handle = driver.handle();
        place(&hang).store(true, Ordering::SeqCst);
        let asker = handle.clone();
        let nudge = runtime.spawn(async move {
            asker.call(Command::Configure { resource: POOL, capacity: 1, label: Labeling::Kept }).await.answer.is_ok()
        });
        wait_until("the store hangs", || hang.inside.load(Ordering::SeqCst));
        wait_until("the pool is there", || handle.totals().resources == 1);
        let borrower = handle.clone();
        let borrow = runtime.spawn(async move {
            borrower.call(acquire(POOL, 7, 5_000_000, Patience::For { wait_us: 0 })).await.answer
        });
        wait_until("the lease is granted", || handle.totals().claims == 1);
        handle.advance(10_000_000);
        let held = handle.totals().claims;
        hang.over();
        let answer = runtime.block_on(borrow).unwrap();
        assert!(matches!(answer, Ok(Reply::Lease(_))), "{name}: {answer:?}");
        assert!(runtime.block_on(nudge).unwrap());
        assert_eq!(held, 1, "{name}: the lease ended before its holder was told of it");
        runtime.block_on(async move {
            driver.close();
            driver.shut_down().await.unwrap();
        });
    }
}

/// How long the end took; `None` when it did not come.
fn end_with(is_led: bool, place: fn(&Hang) -> &AtomicBool) -> Option<Duration> {
    let hang = Hang::default();
    let (done, is_done) = mpsc::channel();
    let hanging = hang.clone();
    std::thread::spawn(move || {
        let opener = HangingOpener { inner: MemoryOpener::keeping(), hang: hanging.clone() };
        let recovery = recover(&opener, 0, Limits::default()).unwrap();
        let service = move |lead: Option<Arc<Lead>>| async move {
            let observer = Arc::new(Observer::default());
            let driver = match lead {
                Some(lead) => Driver::start_led(recovery, limits(), observer, Clock::system(), lead),
                None => Driver::start(recovery, limits(), observer, Clock::system()),
            };
            let handle = driver.handle();
            handle
                .call(Command::Configure { resource: POOL, capacity: 1, label: Labeling::Kept })
                .await
                .answer
                .unwrap();
            place(&hanging).store(true, Ordering::SeqCst);
            // Something to write, so that every place is come by.
            let mark = tokio::spawn(async move { handle.is_ready().await });
            driver.close();
            let began = Instant::now();
            let _ = driver.shut_down().await;
            mark.abort();
            began.elapsed()
        };
        let took = if is_led {
            let lead = Lead::new().unwrap();
            lead.run(service(Some(Arc::clone(&lead))))
        } else {
            let runtime = runtime();
            let took = runtime.block_on(service(None));
            runtime.shutdown_background();
            took
        };
        let _ = done.send(took);
    });
    let took = is_done.recv_timeout(PATIENCE).ok();
    hang.over();
    took
}

#[test]
fn a_store_that_hangs_at_the_end_is_not_waited_for() {
    let places: [(&str, HangPoint); 3] =
        [("close", |hang| &hang.close), ("append", |hang| &hang.append), ("maintain", |hang| &hang.maintain)];
    // Each waits until the driver gives up, so all of them wait at once.
    std::thread::scope(|scope| {
        for (is_led, (name, place)) in [false, true].into_iter().flat_map(|is_led| places.map(|place| (is_led, place)))
        {
            scope.spawn(move || {
                let took = end_with(is_led, place);
                assert!(took.is_some(), "led {is_led}, {name}: not over after {PATIENCE:?}, five seconds are enough");
            });
        }
    });
}

#[test]
fn a_list_of_a_hundred_thousand_waiters_holds_up_no_other_caller() {
    const WAITERS: u128 = 100_000;
    for capacity in [1, 1_000] {
        let recovery = recover(&MemoryOpener::forgetful(), 0, Limits::default()).unwrap();
        let runtime = runtime();
        let _inside = runtime.enter();
        let driver = Driver::start(recovery, limits(), Arc::new(Observer::default()), Clock::system());
        let handle = driver.handle();
        let resource = || ResourceKey::Claim("r".into());
        let mut slices = Vec::new();
        runtime.block_on(async {
            handle
                .call(Command::Configure { resource: resource(), capacity, label: Labeling::Kept })
                .await
                .answer
                .unwrap();
            for nth in 0..WAITERS + u128::from(capacity) {
                // As random as ids are.
                let id = (nth + 1).wrapping_mul(0xda94_2042_e4dd_58b5_2360_ed05_1fc6_5da5);
                handle.call(acquire(resource(), id, 3_600_000_000, Patience::Standing)).await.answer.unwrap();
            }
            let (mut after, mut shown) = (0, 0);
            loop {
                let query = ClaimQuery { filter: ClaimFilter::default(), after, limit: 2_000, scan_max: 2_000 };
                let began = Instant::now();
                let Ok(Reply::Claims(page)) = handle.call(Command::ListClaims(Box::new(query))).await.answer else {
                    panic!("not a list")
                };
                slices.push(began.elapsed());
                for claim in &page.claims {
                    shown += 1;
                    let expected = (claim.order > u64::from(capacity)).then(|| claim.order - u64::from(capacity));
                    assert_eq!(claim.queue_position.map(u64::from), expected);
                }
                match page.next {
                    Some(next) => after = next,
                    None => break,
                }
            }
            assert_eq!(shown, WAITERS + u128::from(capacity));
        });
        slices.sort();
        let (all, worst) = (slices.iter().sum::<Duration>(), slices[slices.len() - 1]);
        println!("queues: capacity {capacity}, 100 000 waiters listed in {all:.1?}, the longest slice {worst:.1?}");
        // A machine that does something else for a moment holds up one slice, not half of them.
        assert!(
            slices[slices.len() / 2] < Duration::from_millis(5),
            "half of the slices took {:?}",
            slices[slices.len() / 2]
        );
        assert!(all < Duration::from_secs(5), "all of them took {all:?}");
        runtime.block_on(async move {
            driver.close();
            driver.shut_down().await.unwrap();
        });
    }
}

#[test]
fn in_memory_too_errors_and_events_have_the_position_of_what_is_durable() {
    let recovery = recover(&MemoryOpener::forgetful(), 0, Limits::default()).unwrap();
    let runtime = runtime();
    let _inside = runtime.enter();
    let driver = Driver::start(recovery, limits(), Arc::new(Observer::default()), Clock::system());
    let handle = driver.handle();
    runtime.block_on(async {
        for capacity in 1..=3 {
            let answered = handle.call(Command::Configure { resource: POOL, capacity, label: Labeling::Kept }).await;
            assert_eq!(handle.durable(), Some(answered.stamp));
        }
        driver.close();
        driver.shut_down().await.unwrap();
    });
}

#[test]
fn a_quota_counts_the_claims_of_its_owner_in_every_partition() {
    const PARTITIONS: u32 = 4;
    let runtime = runtime();
    let _inside = runtime.enter();
    let (observer, clock) = (Arc::new(Observer::of_many(100, PARTITIONS)), Arc::new(Clock::system()));
    let start = |partition| {
        let recovery = recover(&MemoryOpener::forgetful(), partition, Limits::default()).unwrap();
        Driver::start(recovery, limits(), Arc::clone(&observer), Arc::clone(&clock))
    };
    let drivers = Drivers::of((0..PARTITIONS).map(start).collect());
    let handle = drivers.handle();
    let claim = |nth: u128, owner: &str| {
        Command::Acquire(Box::new(Acquire {
            resource: ResourceKey::Claim(format!("r{nth}").into()),
            id: ClaimId(nth + 1),
            ttl_us: 60_000_000,
            patience: Patience::Standing,
            client: Some(owner.into()),
            principal: None,
            key: None,
            metadata: None,
            quota: Quota { live_max: 8, ..Quota::NONE },
            options: Options::default(),
        }))
    };
    runtime.block_on(async {
        let mut met = [false; PARTITIONS as usize];
        for nth in 0..8 {
            let answered = handle.call(claim(nth, "ann")).await;
            assert!(answered.answer.is_ok(), "{nth}: {:?}", answered.answer);
            met[answered.stamp.partition as usize] = true;
        }
        assert!(met.into_iter().filter(|met| *met).count() > 1, "the names are spread");
        // The ninth is one too many wherever it belongs, and another owner's is its first.
        for nth in 8..40 {
            let refused = handle.call(claim(nth, "ann")).await.answer;
            let expected = Refusal::OverQuota { is_about_waiting: false, limit: 8 };
            assert_eq!(refused.unwrap_err(), Denial::Refused(expected), "{nth}");
        }
        assert!(handle.call(claim(40, "bob")).await.answer.is_ok());
        drivers.close();
        drivers.shut_down().await.unwrap();
    });
}
