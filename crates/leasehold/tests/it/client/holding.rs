//! Held leases: renewed in the background, reported when lost, given back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_client::{Cause, Error, LeaseClock, Released};
use rustix::process::Signal;

use super::{TTL, block_on, holder, look, pool_of, to};
use crate::support::{Launch, PATIENCE, until};

#[test]
fn each_kind_is_held_renewed_and_given_back() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let pool = pool_of(&server, 2);
    let client = to(&server).build().unwrap();
    block_on(async {
        let requests =
            [client.lock("backup"), client.claim("gpu"), client.pool(&pool).unwrap().borrow()].map(|it| it.ttl(TTL));
        let mut leases = Vec::new();
        for request in &requests {
            leases.push(request.acquire().await.unwrap());
        }
        assert_eq!(leases.iter().map(leasehold_client::Lease::slot).collect::<Vec<_>>()[..], [Some(0), None, Some(0)]);
        let first: Vec<_> = leases.iter().map(|lease| (lease.deadline(), lease.token().unwrap())).collect();
        // Longer than any of them lives without a renewal.
        tokio::time::sleep(TTL + Duration::from_secs(1)).await;
        for (lease, (deadline, token)) in leases.iter().zip(first) {
            lease.check().unwrap();
            assert_eq!(lease.token().unwrap(), token, "a renewal keeps the token");
            assert!(lease.deadline() > deadline, "renewed");
        }
        assert!(holder(&server, "backup").starts_with("tester/"));
        for request in &requests[..2] {
            assert!(request.try_acquire().await.unwrap().is_none(), "{request:?} is taken");
        }
        for lease in &leases {
            assert_eq!(lease.release().await.unwrap(), Released::Released);
            assert_eq!(lease.release().await.unwrap(), Released::Released, "asked again");
            assert!(matches!(lease.check(), Err(Error::Lost(loss)) if loss.cause == Cause::Released));
        }
    });
    assert_eq!(holder(&server, "backup"), "");
    assert_eq!(look(&server, &format!("/l/{pool}"))["in_use"], 0);
}

#[test]
fn a_server_that_is_killed_and_comes_back_costs_no_lease() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let addr = server.addr.to_string();
    let client = to(&server).build().unwrap();
    block_on(async {
        let lease = client.lock("backup").ttl(Duration::from_secs(10)).acquire().await.unwrap();
        let token = lease.token().unwrap();
        server.kill();
        let server = Launch::with(&["--listen", &addr, "--data"]).arg(directory.path()).start();
        let before = lease.deadline();
        let deadline = Instant::now() + PATIENCE;
        while lease.deadline() == before {
            assert!(Instant::now() < deadline, "not renewed: {lease:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(lease.token().unwrap(), token);
        assert_eq!(lease.release().await.unwrap(), Released::Released);
        assert_eq!(holder(&server, "backup"), "");
    });
}

#[test]
fn a_server_that_stands_still_puts_a_lease_at_risk_and_then_it_is_lost() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let client = to(&server).build().unwrap();
    block_on(async {
        let told = Arc::new(Mutex::new(Vec::new()));
        let [at_risk, lost] = [Arc::clone(&told), Arc::clone(&told)];
        let request = client.claim("gpu").ttl(TTL);
        let request = request.on_at_risk(move |news| at_risk.lock().unwrap().push(format!("at risk {}", news.token)));
        let lease = request.on_lost(move |loss| lost.lock().unwrap().push(loss.cause.word().to_owned()));
        let lease = lease.acquire().await.unwrap();
        let token = lease.token().unwrap();
        server.signal(Signal::STOP);
        let end = lease.lost().await;
        let late = client.clock().now().since(lease.deadline());
        assert!(late < Duration::from_millis(500), "told {late:?} after the deadline");
        assert_eq!((end.cause, end.token), (Cause::Deadline, token));
        assert!(end.last_error.unwrap().contains("no answer within"), "it says why");
        until("both are told", PATIENCE, || (told.lock().unwrap().len() == 2).then_some(()));
        assert_eq!(*told.lock().unwrap(), [format!("at risk {token}"), "deadline".to_owned()]);
        assert!(matches!(lease.token(), Err(Error::Lost(_))));
        server.signal(Signal::CONT);
        assert!(lease.release().await.is_ok());
        assert!(!lease.held(), "lost is final");
    });
}

#[test]
fn a_clock_that_jumps_over_the_deadline_is_seen_by_the_next_check() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let clock = LeaseClock::system();
    let client = to(&server).clock(clock.clone()).build().unwrap();
    block_on(async {
        let lease = client.lock("laptop").ttl(Duration::from_mins(1)).acquire().await.unwrap();
        clock.advance(Duration::from_mins(1));
        // No await in between: no timer can have run.
        assert!(matches!(lease.check(), Err(Error::Lost(loss)) if loss.cause == Cause::Deadline));
    });
}

#[test]
fn a_runtime_that_is_blocked_costs_no_lease() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let client = to(&server).build().unwrap();
    block_on(async {
        let lease = client.lock("busy").ttl(TTL).acquire().await.unwrap();
        std::thread::sleep(2 * TTL);
        lease.check().unwrap();
    });
}

#[test]
fn a_revoked_lease_and_a_deleted_pool_are_lost_at_the_next_renewal_with_their_reason() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let pool = pool_of(&server, 1);
    let client = to(&server).build().unwrap();
    block_on(async {
        let claim = client.claim("gpu").ttl(TTL).acquire().await.unwrap();
        let slot = client.pool(&pool).unwrap().borrow().ttl(TTL).acquire().await.unwrap();
        let body = format!("{{\"key\": \"claim:gpu\", \"token\": {}}}", claim.token().unwrap());
        server.client().call("POST", "/v1/admin/revoke", &body).unwrap().expect(200);
        server.client().call("DELETE", &format!("/l/{pool}"), "").unwrap().expect(200);
        assert_eq!(claim.lost().await.cause, Cause::Revoked);
        assert_eq!(slot.lost().await.cause, Cause::Deleted);
        assert!(claim.remaining().is_zero());
    });
}

#[test]
fn work_is_dropped_when_its_lease_is_lost() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let client = to(&server).build().unwrap();
    block_on(async {
        let lease = client.claim("gpu").ttl(TTL).acquire().await.unwrap();
        assert_eq!(lease.run(async { 7 }).await.unwrap(), 7);
        server.signal(Signal::STOP);
        let result = lease.run(std::future::pending::<()>()).await;
        assert!(matches!(result, Err(Error::Lost(_))), "{result:?}");
        server.signal(Signal::CONT);
    });
}

#[test]
fn closing_and_dropping_give_everything_back() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let pool = pool_of(&server, 3);
    let client = to(&server).build().unwrap();
    block_on(async {
        let borrow = client.pool(&pool).unwrap().borrow();
        let [first, second] = [borrow.acquire().await.unwrap(), borrow.acquire().await.unwrap()];
        drop(first);
        until("the dropped one is given back", PATIENCE, || {
            (look(&server, &format!("/l/{pool}"))["in_use"] == 1).then_some(())
        });
        client.close().await;
        assert_eq!(look(&server, &format!("/l/{pool}"))["in_use"], 0);
        assert!(!second.held());
        assert!(matches!(borrow.acquire().await, Err(Error::Closed)));
    });
}

#[test]
fn ids_and_tokens_are_in_no_text() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let pool = pool_of(&server, 1);
    let client = to(&server).token("lh_verysecret").build().unwrap();
    block_on(async {
        let handle = client.pool(&pool).unwrap();
        let request = handle.borrow();
        let lease = request.acquire().await.unwrap();
        let taken = request.clone().wait(Duration::ZERO).acquire().await.unwrap_err();
        let texts = format!("{client:?} {handle:?} {request:?} {lease:?} {taken:?} {taken}");
        let handover = lease.hand_over().await.unwrap();
        let texts = format!("{texts} {handover:?}");
        for secret in [&pool[..8], "verysecret", &handover.lease_id()[..8]] {
            assert!(!texts.contains(secret), "{texts}");
        }
        let lease = client.take_over(handover, &request).await.unwrap();
        assert_eq!(lease.release().await.unwrap(), Released::Released);
    });
}
