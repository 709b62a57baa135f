//! Callers that look out for a change of a lock, over real sockets: a crowd is told by one change, those that leave are
//! gone at once, and every state of a lock is news.

use std::time::{Duration, Instant};

use crate::support::{Client, Launch, PATIENCE, Server, gauge, machine_to_itself, report, until};

const CROWD: usize = 1_000;

/// Callers that have been sent off to look out, each on a connection of its own.
fn look_out(server: &Server, count: usize, target: &str) -> Vec<Client> {
    let send = |_| {
        let mut client = server.client();
        client.send("GET", target, &[], b"").unwrap();
        client
    };
    (0..count).map(send).collect()
}

fn sleeping(client: &mut Client, count: u64) {
    until(&format!("{count} callers look out"), PATIENCE, || {
        (gauge(client, "leasehold_lookouts") == count).then_some(())
    });
}

#[test]
fn a_crowd_of_followers_is_told_by_one_change() {
    let _machine = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut leader = server.client();
    let first = leader.call("POST", "/lock?job=leader&client=anna&ttl=5m", "").unwrap().expect(200);
    let target = format!("/lock?job=leader&wait=5m&after={}", first.number("token"));
    let mut followers = look_out(&server, CROWD, &target);
    sleeping(&mut leader, CROWD as u64);

    // A renewal is no news, nor is another lock.
    leader.call("POST", "/lock?job=leader&client=anna&ttl=5m", "").unwrap().expect(200);
    leader.call("POST", "/lock?job=other&client=anna&ttl=5m", "").unwrap().expect(200);
    assert_eq!(gauge(&mut leader, "leasehold_lookouts"), CROWD as u64);

    let mut next = server.client();
    next.send("POST", "/lock?job=leader&client=bert&ttl=5m&wait=1m", &[], b"").unwrap();
    until("bert waits", PATIENCE, || (gauge(&mut leader, "leasehold_waiters") == 1).then_some(()));
    let began = Instant::now();
    leader.call("DELETE", "/lock?job=leader&client=anna", "").unwrap().expect(200);
    let token = next.receive().unwrap().expect(200).number("token");
    for follower in &mut followers {
        let seen = follower.receive().unwrap().expect(200);
        assert_eq!((seen.text("holder"), seen.number("token")), ("bert".to_owned(), token));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(30), "a follower was told only by the end of its wait: {took:?}");
    sleeping(&mut leader, 0);
    report(format_args!(
        "sockets: {CROWD} followers told of a new leader {} ms after the old one left",
        took.as_millis()
    ));
}

#[test]
fn callers_that_leave_look_out_no_more_and_the_others_go_on() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let mut client = server.client();
    let mut staying = look_out(&server, 1, "/lock?wait=5m&after=0");
    let leaving = look_out(&server, 100, "/lock?wait=5m&after=0");
    sleeping(&mut client, 101);
    drop(leaving);
    sleeping(&mut client, 1);
    client.call("POST", "/lock?client=anna", "").unwrap().expect(200);
    assert_eq!(staying[0].receive().unwrap().expect(200).text("holder"), "anna");
    sleeping(&mut client, 0);
}

#[test]
fn a_follower_hears_when_its_leader_is_late_gone_and_back() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory", "--grace", "500ms"]).start();
    let mut client = server.client();
    let token = client.call("POST", "/lock?client=anna&ttl=500ms", "").unwrap().expect(200).number("token");
    let mut follower = server.client();
    let mut seen_after = |state: &str| {
        let state = state.replace(' ', "+");
        let target = format!("/lock?wait=20s&after={token}&while={state}");
        follower.call("GET", &target, "").unwrap().expect(200).text("message")
    };
    assert_eq!(seen_after("held"), "in grace");
    assert_eq!(seen_after("in grace"), "expired");
    client.call("POST", "/lock?client=anna&ttl=5m", "").unwrap().expect(200);
    assert_eq!(seen_after("expired"), "held", "the last holder came back, with the token that it had");
}
