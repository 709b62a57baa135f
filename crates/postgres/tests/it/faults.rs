//! Trouble between the store and a server, and of the server: each append is told durable, and is then there exactly
//! once, or it is told not to be ours any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_cluster::{Landing, Link, SharedError, SharedStore};
use leasehold_postgres::PostgresStore;
use leasehold_testbed::{Flow, Postgres, Proxy, Way, wait_for};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::common::{Chain, SECOND, address, bury, elsewhere, joined, node, persist, read_all, runtime, take};

#[test]
fn an_append_whose_reply_is_lost_is_durable_and_there_once() {
    let postgres = Postgres::one();
    let proxy = Arc::new(Proxy::start(postgres.servers()[0].addr));
    let address = address(&proxy.addr().to_string(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        let first = stream.next(1);
        assert_eq!(persist(&store, &first).await, Landing::Durable);
        let error = store.append(vec![first.clone(), first]).await.unwrap_err();
        assert!(error.to_string().contains("two batches for partition 0"), "{error}");
        for round in 0..24 {
            let append = stream.next(3);
            let (way, flow) = match round % 4 {
                0 => (Way::Request, Flow::CutAfter),
                1 => (Way::Request, Flow::CutBefore),
                2 => (Way::Reply, Flow::CutBefore),
                _ => (Way::Reply, Flow::Delay(Duration::from_millis(1200))),
            };
            let before = proxy.cuts();
            proxy.set(way, flow);
            // The fault ends with the first connection that met it.
            let between = Arc::clone(&proxy);
            let healed = tokio::spawn(async move {
                while between.cuts() == before && !matches!(flow, Flow::Delay(_)) {
                    tokio::task::yield_now().await;
                }
                if !matches!(flow, Flow::Delay(_)) {
                    between.heal();
                }
            });
            assert_eq!(persist(&store, &append).await, Landing::Durable, "round {round}");
            healed.await.unwrap();
            proxy.heal();
            assert_eq!(persist(&store, &append).await, Landing::Durable, "round {round}, again");
        }
        assert!(proxy.cuts() >= 18, "only {} connections were cut", proxy.cuts());
        assert!(store.sizes().resent >= 12, "{:?}", store.sizes());
        assert_eq!(read_all(&store, 0).await, stream.records);
        println!("PostgreSQL store: {} connections cut, {:?}", proxy.cuts(), store.sizes());
    });
}

#[test]
fn an_append_that_arrives_after_the_taking_never_lands() {
    let postgres = Postgres::one();
    let proxy = Proxy::start(postgres.servers()[0].addr);
    let address = address(&proxy.addr().to_string(), "");
    let direct = elsewhere(&address, &postgres.hosts());
    runtime().block_on(async {
        let (old, new) = (joined(&address, 1).await, joined(&direct, 2).await);
        let mut stream = Chain::new(take(&old, 0, 1).await);
        let first = stream.next(2);
        assert_eq!(persist(&old, &first).await, Landing::Durable);
        // The statement is on its way while the partition gets another owner.
        proxy.set_both(Flow::Stall);
        let late = stream.next(1);
        let error = old.append(vec![late.clone()]).await.unwrap_err();
        assert!(matches!(error, SharedError::Away(_)), "{error}");
        bury(&new, 1).await;
        let reign = take(&new, 0, 2).await;
        let mut next = Chain::after(reign, first.batch.last, Link::to(&first.batch));
        assert_eq!(persist(&new, &next.next(1)).await, Landing::Durable);
        proxy.heal();
        assert_eq!(persist(&old, &late).await, Landing::Moved);
        assert_eq!(persist(&old, &first).await, Landing::Durable, "what landed stays durable");
        assert!(matches!(old.confirm().await, Err(SharedError::Fenced(_))));
        assert_eq!(read_all(&new, 0).await, [first.batch.record, next.records[0].clone()]);
    });
}

#[test]
fn a_store_that_is_away_says_so_and_goes_on_where_it_was() {
    let postgres = Postgres::one();
    let proxy = Proxy::start(postgres.servers()[0].addr);
    let address = address(&proxy.addr().to_string(), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        proxy.close();
        let began_at = Instant::now();
        let append = stream.next(1);
        let error = store.append(vec![append.clone()]).await.unwrap_err();
        let took = began_at.elapsed();
        assert!(matches!(&error, SharedError::Away(why) if why.contains(&proxy.addr().to_string())), "{error}");
        assert!(took >= 7 * SECOND && took < 20 * SECOND, "{took:?}");
        for error in [store.confirm().await.unwrap_err(), store.beat(node(1)).await.unwrap_err()] {
            assert!(matches!(error, SharedError::Away(_)), "{error}");
        }
        proxy.heal();
        assert_eq!(persist(&store, &append).await, Landing::Durable);
        store.confirm().await.unwrap();
    });
}

/// A connection that leads nowhere any more is given up for another host, without a word from the first.
#[test]
fn a_silent_host_is_left_for_another() {
    let postgres = Postgres::one();
    let proxies = [0, 1].map(|_| Proxy::start(postgres.servers()[0].addr));
    let address = address(&format!("{},{}", proxies[0].addr(), proxies[1].addr()), "");
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        proxies[0].set_both(Flow::Stall);
        for _ in 0..3 {
            assert_eq!(persist(&store, &stream.next(1)).await, Landing::Durable);
        }
        assert!(proxies[1].connections() > 0);
        assert_eq!(read_all(&store, 0).await, stream.records);
    });
}

/// Workers that append to partitions of their own until told to stop.
pub(crate) struct Load {
    store: Arc<PostgresStore>,
    stop: Arc<AtomicBool>,
    appended: Arc<AtomicU64>,
    workers: Vec<JoinHandle<(Vec<Vec<u8>>, Duration)>>,
}

impl Load {
    pub(crate) fn start(runtime: &Runtime, store: &Arc<PostgresStore>) -> Load {
        let (stop, appended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let workers = (0..2).map(|partition| {
            let (store, stop, appended) = (Arc::clone(store), Arc::clone(&stop), Arc::clone(&appended));
            runtime.spawn(async move {
                let mut stream = Chain::new(take(&*store, partition, 1).await);
                let mut longest = Duration::ZERO;
                while !stop.load(Ordering::Relaxed) {
                    let append = stream.next(5);
                    let began_at = Instant::now();
                    assert_eq!(persist(&*store, &append).await, Landing::Durable);
                    longest = longest.max(began_at.elapsed());
                    appended.fetch_add(1, Ordering::Relaxed);
                }
                (stream.records, longest)
            })
        });
        let workers = workers.collect();
        Load { store: Arc::clone(store), workers, stop, appended }
    }

    /// Waits until some more batches are durable.
    pub(crate) fn goes_on(&self) {
        let before = self.appended.load(Ordering::Relaxed);
        wait_for("batches", || (self.appended.load(Ordering::Relaxed) >= before + 50).then_some(()));
    }

    /// Ends it. Each batch that was told durable is there once, and no other.
    pub(crate) fn end(self, runtime: &Runtime) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let mut batches = 0;
        for (partition, worker) in (0..).zip(self.workers) {
            let (records, longest) = runtime.block_on(worker).unwrap();
            assert_eq!(runtime.block_on(read_all(&*self.store, partition)), records, "partition {partition}");
            batches += records.len();
            println!("partition {partition}: {} batches, the longest took {longest:?}", records.len());
        }
        batches
    }
}

#[test]
fn appends_go_on_while_the_server_is_killed_and_stopped() {
    let mut postgres = Postgres::one();
    let proxy = Proxy::start(postgres.servers()[0].addr);
    let address = address(&proxy.addr().to_string(), "");
    let runtime = runtime();
    let store = Arc::new(runtime.block_on(joined(&address, 1)));
    let load = Load::start(&runtime, &store);
    load.goes_on();
    postgres.kill(0);
    postgres.restart(0);
    load.goes_on();
    postgres.stop(0);
    let error = runtime.block_on(store.confirm()).unwrap_err();
    assert!(matches!(error, SharedError::Away(_)), "{error}");
    postgres.wake(0);
    load.goes_on();
    proxy.cut();
    load.goes_on();
    let batches = load.end(&runtime);
    println!("PostgreSQL store: 3 faults, {batches} batches durable and there once, {:?}", store.sizes());
}

/// A chunk does not wait for appends, and does wait for a taking, which it then finds.
#[test]
fn a_taking_under_way_holds_chunks_and_sweeps_up_and_fences_them() {
    let postgres = Postgres::one();
    let address = address(&postgres.hosts(), "");
    let runtime = runtime();
    runtime.block_on(async {
        let store = Arc::new(joined(&address, 1).await);
        let reign = take(&*store, 0, 1).await;
        assert_eq!(persist(&*store, &Chain::new(reign).next(3)).await, Landing::Durable);
        let id = leasehold_cluster::CheckpointId { epoch: reign.epoch(), upto: leasehold_journal::Position(2) };
        for (is_taking, change) in [(false, "head = head"), (true, "version = version + 1, epoch = epoch + 1")] {
            // Held open for two seconds by a session of its own.
            let schema = address.schema.clone();
            let statements =
                format!("BEGIN; UPDATE {schema}.stream SET {change} WHERE partition = 0; SELECT pg_sleep(2); COMMIT");
            let began_at = Instant::now();
            let put = {
                let store = Arc::clone(&store);
                async move { store.put_chunk(reign, id, 0, b"facts".to_vec()).await }
            };
            let open = {
                let postgres = &postgres;
                move || postgres.sql(0, &statements)
            };
            let (result, waited) = std::thread::scope(|scope| {
                let session = scope.spawn(open);
                wait_for("open transaction", || {
                    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
                    (postgres.sql(0, asleep) == "1").then_some(())
                });
                let asked_at = Instant::now();
                let result = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(put));
                let waited = asked_at.elapsed();
                session.join().unwrap();
                (result, waited)
            });
            if is_taking {
                assert!(matches!(result, Err(SharedError::Fenced(_))), "{result:?} after {:?}", began_at.elapsed());
            } else {
                result.unwrap();
                assert!(waited < SECOND, "a chunk waited for an append: {waited:?}");
            }
        }
        assert!(matches!(store.sweep(reign).await, Err(SharedError::Fenced(_))));
    });
}
