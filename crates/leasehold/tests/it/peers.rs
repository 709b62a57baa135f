//! One peer among others: its share of connections, and operators when there are too many.

use std::io::Write as _;
use std::net::SocketAddr;

use crate::support::{Came, Client, Launch, PATIENCE, RawH2, gauge, until};

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
    let server = Launch::on(directory.path()).arg("--connections-max-per-address").arg("3").start();
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

/// Each connection is promised its streams when it is opened. An address that has used up its share gets a few.
#[test]
fn one_address_has_its_share_of_streams() {
    let directory = tempfile::tempdir().unwrap();
    // 264 streams: 256 of the first connection, 8 of the second, and the next has 8 in any case.
    let server = Launch::on(directory.path()).arg("--connections-max-per-address").arg("33").start();
    let mut known = from([127, 0, 0, 9], server.addr);
    known.call("POST", "/lock?client=holder&ttl=1h", "").unwrap().expect(200);
    let parked = |known: &mut Client, count: u64| {
        until("they wait", PATIENCE, || (gauge(known, "leasehold_parked_callers") == count).then_some(()));
    };
    let wait = |h2: &mut RawH2, n: usize| h2.ask("POST", &format!("/lock?client=c{n}&wait=5m"), b"");
    let mut first = RawH2::connect(server.addr, 65_535);
    let health = first.ask("GET", "/healthz", b"");
    while first.next() != Came::Headers(health) {}
    let mut waiting = 0;
    for n in 0..40 {
        wait(&mut first, n);
        waiting += 1;
    }
    parked(&mut known, waiting);
    let mut others = [RawH2::connect(server.addr, 65_535), RawH2::connect(server.addr, 65_535)];
    for (number, h2) in (1..).zip(&mut others) {
        let health = h2.ask("GET", "/healthz", b"");
        while h2.next() != Came::Headers(health) {}
        for n in 0..8 {
            wait(h2, 100 * number + n);
            waiting += 1;
        }
        parked(&mut known, waiting);
        // The ninth is refused, and may be sent again once another has ended.
        let refused = wait(h2, 100 * number + 8);
        while h2.next() != Came::Reset(refused) {}
    }
    // Connections at another address have theirs, and room that is given back is used again.
    from([127, 0, 0, 10], server.addr).call("GET", "/healthz", "").unwrap().expect(200);
    drop((first, others));
    parked(&mut known, 0);
    let mut again = RawH2::connect(server.addr, 65_535);
    let health = again.ask("GET", "/healthz", b"");
    while again.next() != Came::Headers(health) {}
    for n in 0..40 {
        wait(&mut again, n);
    }
    parked(&mut known, 40);
}

#[test]
fn a_full_service_still_says_how_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--connections-max").arg("4").start();
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

/// Bodies that are announced, begun and not ended are kept for ten seconds each, and a caller could have any number of
/// them. What has come is counted: the rest keeps no other caller from sending its own, whole or in pieces.
#[test]
fn bodies_that_are_only_begun_leave_room_for_those_that_come() {
    // More than would fit if each counted as long as it may become.
    const BEGUN: usize = 4_300;
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut under_way = Vec::new();
    for _ in 0..BEGUN {
        let mut socket = std::net::TcpStream::connect(server.addr).unwrap();
        socket.write_all(b"POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 65536\r\n\r\n{").unwrap();
        under_way.push(socket);
    }
    let long = format!(r#"{{"resource": "s", "timeout": 60, "metadata": "{}"}}"#, "x".repeat(15_000));
    let head = format!("POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", long.len());
    let mut client = server.client();
    for piece in [head.as_bytes(), &long.as_bytes()[..9_000], &long.as_bytes()[9_000..]] {
        client.send_raw(piece).unwrap();
        std::thread::yield_now();
    }
    client.receive().unwrap().expect(201);
}

/// Clients that do not read their lists use up the room for answers. Operators have room of their own.
#[test]
fn answers_that_are_not_read_leave_room_for_operators() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--admin-listen").arg("127.0.0.1:0").start();
    let mut client = server.client();
    let metadata = "x".repeat(16 * 1024 - 2);
    for n in 0..100 {
        let body = format!(r#"{{"resource":"r{n}","timeout":3600,"metadata":"{metadata}"}}"#);
        client.call("POST", "/v1/claims/", &body).unwrap().expect(201);
    }
    let mut unread = RawH2::connect(server.addr, 0);
    for limit in std::iter::repeat_n(1_000, 70).chain(std::iter::repeat_n(1, 100)) {
        unread.ask("GET", &format!("/v1/claims/?limit={limit}"), b"");
    }
    let mut operator = Client::connect(server.operators()).unwrap();
    until("there is no room", PATIENCE, || {
        (client.call("GET", "/v1/claims/?limit=1", "").unwrap().status == 503).then_some(())
    });
    for target in ["/metrics", "/v1/observe/resources", "/openapi.json"] {
        operator.call("GET", target, "").unwrap().expect(200);
    }
    client.call("GET", "/healthz", "").unwrap().expect(200);
}

/// Peers that connect and say nothing are looked at for a moment each, in case they ask for health.
#[test]
fn silent_peers_of_a_full_service_are_not_in_the_way_of_operators() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--connections-max", "4", "--connections-max-per-address", "4"];
    let server = arguments.iter().fold(Launch::on(directory.path()), Launch::arg).start();
    let mut inside: Vec<Client> = (0..4).map(|_| from([127, 0, 0, 2], server.addr)).collect();
    for client in &mut inside {
        client.call("GET", "/lock", "").unwrap().expect(200);
    }
    let mut silent = Vec::new();
    for _ in 0..6 {
        // More at once than are told that there are too many, and than one address may have looks.
        silent.extend((0..100).map(|_| from([127, 0, 0, 3], server.addr)));
        for target in ["/healthz", "/metrics"] {
            from([127, 0, 0, 4], server.addr).call("GET", target, "").unwrap().expect(200);
        }
    }
}
