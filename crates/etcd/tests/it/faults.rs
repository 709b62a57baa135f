//! Trouble between the store and etcd, and within etcd: each append is told durable, and is then there exactly once, or
//! it is told not to be ours any more.

use std::time::{Duration, Instant};

use leasehold_cluster::{Landing, Link, SharedError, SharedStore};
use leasehold_etcd::{Address, EtcdStore, EtcdUpkeep};
use leasehold_testbed::{Etcd, EtcdOptions, Flow, Proxy, Way};

use super::common::{Chain, SECOND, address, birth, bury, joined, node, persist, read_all, runtime, settle, take};

/// Proxies in front of each member.
fn proxied(etcd: &Etcd) -> (Vec<Proxy>, Address) {
    let proxies: Vec<Proxy> = etcd.members().iter().map(|member| Proxy::start(member.client)).collect();
    let hosts = proxies.iter().map(|proxy| proxy.addr().to_string()).collect::<Vec<_>>().join(",");
    (proxies, address(&hosts, ""))
}

#[test]
fn an_append_whose_reply_is_lost_is_durable_and_there_once() {
    let etcd = Etcd::three();
    let (proxies, address) = proxied(&etcd);
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        let first = stream.next(1);
        assert_eq!(persist(&store, &first).await, Landing::Durable);
        let error = store.append(vec![first.clone(), first]).await.unwrap_err();
        assert!(error.to_string().contains("two batches for partition 0"), "{error}");
        let mut lost = 0;
        for round in 0..24 {
            let append = stream.next(3);
            let (way, flow) = match round % 4 {
                0 => (Way::Request, Flow::CutAfter),
                1 => (Way::Request, Flow::CutBefore),
                2 => (Way::Reply, Flow::CutBefore),
                _ => (Way::Reply, Flow::Delay(Duration::from_millis(1200))),
            };
            let before: u64 = proxies.iter().map(Proxy::cuts).sum();
            // Each endpoint loses one reply: the fault ends with the first that it met.
            proxies[round % 3].set(way, flow);
            assert_eq!(store.append(vec![append.clone()]).await.unwrap(), [Landing::Durable], "round {round}");
            proxies[round % 3].heal();
            lost += proxies.iter().map(Proxy::cuts).sum::<u64>() - before;
            assert_eq!(store.append(vec![append]).await.unwrap(), [Landing::Durable], "round {round}, again");
        }
        assert!(lost >= 6, "only {lost} connections were cut");
        assert!(store.sizes().resent >= 6);
        assert_eq!(read_all(&store, 0).await, stream.records);
        println!("etcd store: {lost} replies lost on the way, {} requests sent again", store.sizes().resent);
    });
}

#[test]
fn an_append_that_arrives_after_the_taking_never_lands() {
    let etcd = Etcd::one();
    let (proxies, address) = proxied(&etcd);
    let direct: Address = address.to_string().replace(&proxies[0].addr().to_string(), &etcd.hosts()).parse().unwrap();
    runtime().block_on(async {
        let (old, new) = (joined(&address, 1).await, joined(&direct, 2).await);
        let mut stream = Chain::new(take(&old, 0, 1).await);
        let first = stream.next(2);
        assert_eq!(persist(&old, &first).await, Landing::Durable);
        // The request is on its way while the partition gets another owner.
        proxies[0].set_both(Flow::Stall);
        let late = stream.next(1);
        let error = old.append(vec![late.clone()]).await.unwrap_err();
        assert!(matches!(error, SharedError::Away(_)), "{error}");
        bury(&new, 1).await;
        let reign = take(&new, 0, 2).await;
        let mut next = Chain::after(reign, first.batch.last, Link::to(&first.batch));
        assert_eq!(persist(&new, &next.next(1)).await, Landing::Durable);
        proxies[0].heal();
        assert_eq!(persist(&old, &late).await, Landing::Moved);
        assert_eq!(persist(&old, &first).await, Landing::Durable, "what landed stays durable");
        assert!(matches!(old.confirm().await, Err(SharedError::Fenced(_))));
        assert_eq!(read_all(&new, 0).await, [first.batch.record, next.records[0].clone()]);
    });
}

#[test]
fn a_store_that_is_away_says_so_and_goes_on_where_it_was() {
    let etcd = Etcd::one();
    let (proxies, address) = proxied(&etcd);
    runtime().block_on(async {
        let store = joined(&address, 1).await;
        let mut stream = Chain::new(take(&store, 0, 1).await);
        proxies[0].close();
        let began_at = Instant::now();
        let append = stream.next(1);
        let error = store.append(vec![append.clone()]).await.unwrap_err();
        let took = began_at.elapsed();
        assert!(matches!(&error, SharedError::Away(why) if why.contains(&proxies[0].addr().to_string())), "{error}");
        assert!(took >= 7 * SECOND && took < 20 * SECOND, "{took:?}");
        for error in [store.confirm().await.unwrap_err(), store.beat(node(1)).await.unwrap_err()] {
            assert!(matches!(error, SharedError::Away(_)), "{error}");
        }
        proxies[0].heal();
        assert_eq!(persist(&store, &append).await, Landing::Durable);
        store.confirm().await.unwrap();
    });
}

/// Members are killed, stopped and cut off one after the other under load.
#[test]
fn appends_go_on_while_members_come_and_go() {
    let mut etcd = Etcd::start(EtcdOptions { members: 3, has_peer_proxies: true, ..EtcdOptions::default() });
    let address = address(&etcd.hosts(), "");
    let runtime = runtime();
    let store = std::sync::Arc::new(runtime.block_on(joined(&address, 1)));
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let workers: Vec<_> = (0..2)
        .map(|partition| {
            let (store, stop) = (std::sync::Arc::clone(&store), std::sync::Arc::clone(&stop));
            runtime.spawn(async move {
                let mut stream = Chain::new(take(&*store, partition, 1).await);
                let mut longest = Duration::ZERO;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let append = stream.next(5);
                    let began_at = Instant::now();
                    assert_eq!(persist(&*store, &append).await, Landing::Durable);
                    longest = longest.max(began_at.elapsed());
                }
                (stream.records, longest)
            })
        })
        .collect();
    // After each fault an append has to have gone through before the next.
    let appended = || runtime.block_on(async { settle(&*store).await });
    let mut faults = 0;
    for round in 0..3 {
        let leader = etcd.leader();
        match round {
            0 => {
                etcd.kill(leader);
                appended();
                etcd.restart(leader);
            }
            1 => {
                etcd.stop(leader);
                appended();
                etcd.wake(leader);
            }
            _ => {
                // The others do not hear it, and it hears them.
                let proxy = etcd.members()[leader].peer_proxy.as_ref().unwrap();
                proxy.set_both(Flow::Stall);
                appended();
                etcd.members()[leader].peer_proxy.as_ref().unwrap().heal();
            }
        }
        let follower = (etcd.leader() + 1) % 3;
        etcd.kill(follower);
        appended();
        etcd.restart(follower);
        faults += 2;
    }
    appended();
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut batches = 0;
    for (partition, worker) in (0..).zip(workers) {
        let (records, longest) = runtime.block_on(worker).unwrap();
        assert_eq!(runtime.block_on(read_all(&*store, partition)), records, "partition {partition}");
        batches += records.len();
        println!("partition {partition}: {} batches, the longest took {longest:?}", records.len());
    }
    println!("etcd store: {faults} faults of members, {batches} batches durable and there once");
}

#[test]
fn the_member_that_leads_is_asked_and_another_one_while_it_cannot_be() {
    let etcd = Etcd::three();
    let (proxies, address) = proxied(&etcd);
    let upkeep = EtcdUpkeep { look_every: Duration::from_millis(100), ..EtcdUpkeep::default() };
    let asks = async |store: &EtcdStore, is_right: &dyn Fn(usize) -> bool| {
        let began_at = Instant::now();
        while !is_right(store.asks_endpoint()) {
            assert!(began_at.elapsed() < 20 * SECOND, "it asks {}", store.asks_endpoint());
            let _ = store.confirm().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    runtime().block_on(async {
        let store = EtcdStore::with_upkeep(&address, upkeep).unwrap();
        store.join(node(1), birth()).await.unwrap();
        let leader = etcd.leader();
        asks(&store, &|at| at == leader).await;
        // It still leads, and this node does not reach it: others are asked, and stay to be.
        proxies[leader].close();
        asks(&store, &|at| at != leader).await;
        for _ in 0..10 {
            store.confirm().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_ne!(store.asks_endpoint(), leader);
        }
        proxies[leader].heal();
        asks(&store, &|at| at == leader).await;
        // Another one leads.
        etcd.stop(leader);
        let next = loop {
            let next = (0..3).filter(|at| *at != leader).find(|at| etcd.is_leader(*at));
            if let Some(next) = next {
                break next;
            }
        };
        asks(&store, &|at| at == next).await;
        etcd.wake(leader);
    });
}
