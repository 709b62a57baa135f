//! One peer among others: its share of connections, and operators when there are too many.

use std::net::SocketAddr;

use crate::support::{Client, Launch, PATIENCE, gauge, until};

/// A client at an address of our choice, all of which are this machine's.
fn from(ip: [u8; 4], to: SocketAddr) -> Client {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((ip, 0)).into()).unwrap();
    socket.connect(&to.into()).unwrap();
    Client::on(socket.into()).unwrap()
}

#[test]
fn one_address_has_its_share_of_connections_and_the_others_have_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--max-connections-per-address").arg("3").start();
    let mut inside: Vec<Client> = (0..3).map(|_| from([127, 0, 0, 2], server.addr)).collect();
    for client in &mut inside {
        client.call("GET", "/lock", "").unwrap().expect(200);
    }
    let mut fourth = from([127, 0, 0, 2], server.addr);
    fourth.call("GET", "/lock", "").unwrap().expect(503);
    from([127, 0, 0, 3], server.addr).call("GET", "/lock", "").unwrap().expect(200);
    inside.pop();
    until("there is room again", PATIENCE, || {
        let answer = from([127, 0, 0, 2], server.addr).call("GET", "/lock", "");
        answer.is_ok_and(|answer| answer.status == 200).then_some(())
    });
}

#[test]
fn a_full_service_still_says_how_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--max-connections").arg("4").start();
    let mut inside: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for client in &mut inside {
        client.call("GET", "/lock", "").unwrap().expect(200);
    }
    for target in ["/healthz", "/readyz", "/metrics"] {
        let mut probe = server.client();
        probe.call("GET", target, "").unwrap().expect(200);
        // It is there for that alone.
        let refused = probe.call("POST", "/lock?client=probe", "").unwrap().expect(503);
        assert_eq!(refused.text("error"), "too many connections");
        assert_eq!(probe.rest(PATIENCE).unwrap(), b"");
    }
    server.client().call("GET", "/lock", "").unwrap().expect(503);
    assert_eq!(inside[0].call("GET", "/lock", "").unwrap().expect(200).text("holder"), "");
}

#[test]
fn asking_for_readiness_writes_once_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    let before = gauge(&mut client, "leasehold_fsyncs_total");
    let asked_at = std::time::Instant::now();
    for _ in 0..300 {
        client.call("GET", "/readyz", "").unwrap().expect(200);
    }
    let seconds = asked_at.elapsed().as_secs();
    let written = gauge(&mut client, "leasehold_fsyncs_total") - before;
    assert!(written <= 2 * (seconds + 2), "{written} writes in {seconds} s for 300 questions");
}
