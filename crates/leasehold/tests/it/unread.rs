//! Clients that ask for long answers and do not read them: the process stays small, answers that they do not take are
//! given up after half a minute, and others are served meanwhile. All kinds wait at the same time, so the test takes as
//! long as one.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Came, Client, Launch, RawH2, Server, gauge, part_of_the_machine, random_uuid, report, until};

/// Half a minute, and a margin for a busy machine.
const EARLIEST: Duration = Duration::from_millis(29_500);
const LATEST: Duration = Duration::from_secs(45);
/// With more than this on top, the process keeps answers that no client reads.
const GROWTH_MAX_KIB: u64 = 96 * 1024;

/// Claims with the longest metadata there may be.
fn fill(server: &Server, claims: usize) {
    let mut client = server.client();
    let metadata = "x".repeat(16 * 1024 - 2);
    for n in 0..claims {
        let body = format!(r#"{{"resource":"r{n}","timeout":3600,"metadata":"{metadata}"}}"#);
        client.call("POST", "/v1/claims/", &body).unwrap().expect(201);
    }
}

#[test]
fn answers_that_are_not_read_cost_little_and_are_given_up() {
    let _machine = part_of_the_machine();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    fill(&server, 1_000);
    let mut client = server.client();
    let pool = format!("/l/{}", random_uuid());
    client.call("PUT", &pool, "{\"count\":1}").unwrap().expect(200);
    let before_kib = server.resident_kib();
    let holders_before = gauge(&mut client, "leasehold_holders");

    let asked_at = Instant::now();
    let lists: Vec<(RawH2, Vec<u32>)> = (0..4)
        .map(|_| {
            let mut h2 = RawH2::connect(server.addr, 0);
            let streams = (0..40).map(|_| h2.ask("GET", "/v1/claims/?limit=1000", b"")).collect();
            (h2, streams)
        })
        .collect();
    let sockets: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut socket = TcpStream::connect(server.addr).unwrap();
            // More than one answer, so that no buffer of the operating system has room for all of them.
            for _ in 0..8 {
                socket.write_all(b"GET /v1/claims/?limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            }
            socket
        })
        .collect();
    let mut borrower = RawH2::connect(server.addr, 0);
    let grant = borrower.ask("POST", &format!("{pool}/borrow"), b"{\"ttl\":3600}");
    until("it is granted", LATEST, || (gauge(&mut client, "leasehold_holders") == holders_before + 1).then_some(()));

    std::thread::scope(|scope| {
        for (mut h2, mut streams) in lists {
            scope.spawn(move || {
                while !streams.is_empty() {
                    match h2.next_within(LATEST).unwrap() {
                        Came::Headers(_) => {}
                        Came::Reset(id) => {
                            assert!(asked_at.elapsed() > EARLIEST, "reset after {:?}", asked_at.elapsed());
                            streams.retain(|stream| *stream != id);
                        }
                        came @ Came::Data(..) => panic!("the window is shut: {came:?}"),
                    }
                }
                assert!(asked_at.elapsed() < LATEST, "reset after {:?}", asked_at.elapsed());
                // The connection itself goes on.
                let stream = h2.ask("GET", "/healthz", b"");
                while h2.next_within(LATEST).unwrap() != Came::Headers(stream) {}
            });
        }
        scope.spawn(move || {
            while borrower.next_within(LATEST).unwrap() != Came::Reset(grant) {}
            assert!(asked_at.elapsed() > EARLIEST, "reset after {:?}", asked_at.elapsed());
        });
        // Others are served, and the memory for clients that do not read stays small.
        let mut largest_kib = before_kib;
        let mut other: Client = server.client();
        while asked_at.elapsed() < Duration::from_secs(20) {
            other.call("POST", "/lock?client=c&ttl=1m", "").unwrap().expect(200);
            largest_kib = largest_kib.max(server.resident_kib());
            std::thread::sleep(Duration::from_millis(50));
        }
        if let (Some(before_kib), Some(largest_kib)) = (before_kib, largest_kib) {
            let grew_kib = largest_kib.saturating_sub(before_kib);
            report(format_args!("unread answers: 160 streams and 40 sockets took {grew_kib} KiB"));
            assert!(grew_kib < GROWTH_MAX_KIB, "{before_kib} KiB became {largest_kib} KiB");
        }
    });
    until("the grant that no client read is handed back", Duration::from_secs(5), || {
        (gauge(&mut client, "leasehold_holders") == holders_before + 1).then_some(())
    });
    client.call("POST", &format!("{pool}/borrow"), "{\"ttl\":3600}").unwrap().expect(200);
    for mut socket in sockets {
        socket.set_read_timeout(Some(LATEST)).unwrap();
        let (mut read, mut bytes) = (0, vec![0; 64 * 1024]);
        while let Ok(more @ 1..) = socket.read(&mut bytes) {
            read += more;
        }
        assert!(read < 8 * 1_000_000, "all of it was sent, so nothing was given up");
    }
    assert!(asked_at.elapsed() < 2 * LATEST);
}

#[test]
fn a_list_of_long_claims_ends_early_and_its_links_lead_through_all_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    fill(&server, 100);
    let (mut target, mut seen, mut pages) = ("/v1/claims/?limit=1000".to_owned(), Vec::new(), 0);
    loop {
        let mut socket = TcpStream::connect(server.addr).unwrap();
        let ask = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        socket.write_all(ask.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).unwrap();
        assert!(bytes.len() < 1_100_000, "a page of {} bytes", bytes.len());
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        seen.extend(body.match_indices("\"resource\":\"").map(|(at, found)| {
            let name = &body[at + found.len()..];
            name[..name.find('"').unwrap()].to_owned()
        }));
        pages += 1;
        let Some(link) = head.lines().find_map(|line| line.strip_prefix("link: <")) else { break };
        let url = link.split_once('>').unwrap().0;
        target = url[url.find("/v1/").unwrap()..].to_owned();
    }
    let expected: Vec<String> = (0..100).map(|n| format!("r{n}")).collect();
    assert_eq!(seen, expected, "nothing is missed or shown twice");
    assert!(pages >= 3, "33 KiB each, a hundred of them, on {pages} pages");
}

/// The budget of bytes that wait to be sent can be watched.
#[test]
fn unsent_bytes_are_shown_while_they_wait() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    fill(&server, 100);
    let mut client = server.client();
    assert_eq!(gauge(&mut client, "leasehold_unsent_bytes_max"), 64 << 20);
    let mut h2 = RawH2::connect(server.addr, 0);
    let list = h2.ask("GET", "/v1/claims/?limit=1000", b"");
    while h2.next_within(LATEST).unwrap() != Came::Headers(list) {}
    // The answer to the scrape itself is not sent yet when it is counted, so it is not among them.
    until("they wait", LATEST, || (gauge(&mut client, "leasehold_unsent_bytes") > 16 << 10).then_some(()));
    drop(h2);
    until("none waits", LATEST, || (gauge(&mut client, "leasehold_unsent_bytes") == 0).then_some(()));
}

/// One resource whose waiters do not fit into the answer says so.
#[test]
fn a_detail_page_that_was_cut_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    let mut claim = |resource: &str, metadata: &str| {
        let body = format!(r#"{{"resource":"{resource}","timeout":3600,"metadata":"{metadata}"}}"#);
        assert!(client.call("POST", "/v1/claims/", &body).unwrap().status < 300);
    };
    let long = "x".repeat(16 * 1024 - 2);
    for _ in 0..90 {
        claim("long", &long);
        claim("short", "x");
    }
    for (name, is_cut) in [("long", true), ("short", false)] {
        let shown = client.call("GET", &format!("/v1/observe/resources/claim:{name}"), "").unwrap().expect(200).json();
        let waiting = shown["queue"].as_array().unwrap().len();
        assert_eq!((shown["truncated"].as_bool(), shown["waiting"].as_u64()), (Some(is_cut), Some(89)), "{name}");
        assert_eq!(waiting < 89, is_cut, "{waiting} of {name}");
    }
}
