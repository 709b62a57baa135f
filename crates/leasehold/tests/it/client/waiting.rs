//! Waiting: in order, over several rounds, given up without a trace, and by way of several addresses.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_client::{Error, Request};
use rustix::process::Signal;

use super::{TTL, block_on, holder, look, pool_of, to};
use crate::support::{Launch, PATIENCE, Server, until};

/// Round, which is the least that there is.
const ROUND: Duration = Duration::from_secs(5);

fn memory() -> Server {
    Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start()
}

/// Each kind once, of something that one caller can have at a time.
fn each_kind(server: &Server) -> Vec<Request> {
    let pool = pool_of(server, 1);
    let client = to(server).round(ROUND).build().unwrap();
    vec![client.lock("backup"), client.claim("gpu"), client.pool(&pool).unwrap().borrow()]
}

#[test]
fn waiters_get_it_in_the_order_of_asking_after_more_than_two_rounds() {
    let server = memory();
    block_on(async {
        let all = each_kind(&server).into_iter().map(|request| {
            let server = &server;
            async move {
                let held = request.acquire().await.unwrap();
                let order = Arc::new(Mutex::new(Vec::new()));
                let mut tasks = Vec::new();
                for number in 0..3 {
                    let (request, order) = (request.clone(), Arc::clone(&order));
                    tasks.push(tokio::spawn(async move {
                        let lease = request.acquire().await.unwrap();
                        order.lock().unwrap().push(number);
                        lease.check().unwrap();
                        lease.release().await.unwrap();
                    }));
                    // One after the other, so that there is an order.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                }
                tokio::time::sleep(2 * ROUND + Duration::from_secs(2)).await;
                held.release().await.unwrap();
                for task in tasks {
                    task.await.unwrap();
                }
                assert_eq!(*order.lock().unwrap(), [0, 1, 2], "{request:?} on {}", server.addr);
            }
        });
        all_of(all.collect()).await;
    });
}

/// All of them, at the same time, on this thread.
async fn all_of<F: Future<Output = ()>>(work: Vec<F>) {
    let mut work: Vec<_> = work.into_iter().map(|one| Some(Box::pin(one))).collect();
    std::future::poll_fn(move |context| {
        for slot in &mut work {
            if slot.as_mut().is_some_and(|one| one.as_mut().poll(context).is_ready()) {
                *slot = None;
            }
        }
        if work.iter().all(Option::is_none) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[test]
fn one_that_gives_up_leaves_nothing_behind() {
    let server = memory();
    block_on(async {
        for request in each_kind(&server) {
            let held = request.acquire().await.unwrap();
            // Time over, as its total says.
            let begun = Instant::now();
            let error = request.clone().wait(Duration::from_millis(600)).acquire().await.unwrap_err();
            assert!(matches!(error, Error::Timeout { .. }), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
            // Dropped while it waits.
            let waiting = tokio::time::timeout(Duration::from_millis(600), request.acquire()).await;
            assert!(waiting.is_err());
            held.release().await.unwrap();
            // Were one of them still in line, it would have it now.
            let mut lease = None;
            let deadline = Instant::now() + Duration::from_secs(6);
            while lease.is_none() {
                assert!(Instant::now() < deadline, "{request:?} is still taken");
                lease = request.try_acquire().await.unwrap();
            }
            drop(lease);
        }
        until("all is free", PATIENCE, || holder(&server, "backup").is_empty().then_some(()));
        let claims = look(&server, "/v1/claims/?status=waiting");
        assert_eq!(claims.as_array().unwrap().len(), 0, "{claims}");
    });
}

#[test]
fn progress_tells_who_has_it() {
    let server = memory();
    block_on(async {
        for request in each_kind(&server) {
            let held = request.acquire().await.unwrap();
            let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
            let waiting = request.clone().on_progress(move |progress| {
                let _ = sender.send(progress);
            });
            let waiting = tokio::spawn(async move { waiting.acquire().await });
            let progress = loop {
                let progress = receiver.recv().await.unwrap();
                if !progress.holders.is_empty() {
                    break progress;
                }
            };
            assert!(progress.elapsed >= Duration::from_secs(1), "{progress:?}");
            assert_eq!(progress.places_lost, 0, "{progress:?}");
            held.release().await.unwrap();
            waiting.await.unwrap().unwrap().release().await.unwrap();
        }
    });
}

#[test]
fn an_address_that_refuses_or_hangs_is_passed_over() {
    let [server, hung] = [memory(), memory()];
    hung.signal(Signal::STOP);
    // Nothing listens there any more.
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for first in [refused, hung.addr] {
        let client = to(&server).urls(&format!("http://{first},http://{}", server.addr)).build().unwrap();
        block_on(async {
            let begun = Instant::now();
            let lease = client.lock("backup").ttl(TTL).wait(Duration::from_secs(20)).acquire().await.unwrap();
            assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
            tokio::time::sleep(TTL).await;
            lease.check().unwrap();
            lease.release().await.unwrap();
        });
    }
    hung.signal(Signal::CONT);
}

#[test]
fn errors_say_what_is_wrong() {
    let server = memory();
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    block_on(async {
        let client = to(&server).build().unwrap();
        let nowhere = client.pool("00000000-0000-4000-8000-000000000000").unwrap().borrow();
        let error = nowhere.acquire().await.unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
        assert!(error.request_id().is_some());
        let held = client.lock("backup").acquire().await.unwrap();
        let error = client.lock("backup").wait(Duration::ZERO).acquire().await.unwrap_err();
        assert!(matches!(&error, Error::Conflict(by) if by.name.as_ref().unwrap().starts_with("tester/")), "{error}");
        held.release().await.unwrap();
        let away = to(&server).urls(&format!("http://{refused}")).build().unwrap();
        let error = away.lock("backup").unreachable_after(Duration::ZERO).acquire().await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        let sentence = error.to_string();
        assert!(sentence.contains(&refused.to_string()) && sentence.contains("connection refused"), "{sentence}");
        let error = client.lock("backup").ttl(Duration::from_millis(999)).acquire().await.unwrap_err();
        assert!(error.to_string().contains("1s or more"), "{error}");
    });
    for (round, is_right) in [(4, false), (5, true), (290, true), (291, false)] {
        assert_eq!(to(&server).round(Duration::from_secs(round)).build().is_ok(), is_right, "{round}");
    }
}
