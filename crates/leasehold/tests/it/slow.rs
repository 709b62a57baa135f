//! Clients that send nothing, or a byte now and then, are closed after about ten seconds; one that waits for its turn
//! is not. All of them wait at the same time, so the test takes as long as one.

use std::time::{Duration, Instant};

use crate::support::{Client, Launch, Server, random_uuid, report};

/// Ten seconds, and a margin for a busy machine.
const EARLIEST: Duration = Duration::from_millis(9_500);
const LATEST: Duration = Duration::from_secs(15);

#[test]
fn slow_and_silent_clients_are_closed_after_ten_seconds() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let borrow = format!("POST /l/{}/borrow HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n", random_uuid());
    let half_body = format!("{borrow}{{\"t");
    // The bytes it sends, one at a time or at once, and the status it may get before the end.
    let clients: [(&str, &str, bool, Option<u16>); 7] = [
        ("nothing", "", false, None),
        ("half a request line", "GET /heal", false, None),
        ("half a head", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n", false, None),
        ("half the preface of HTTP/2", "PRI * HTTP", false, None),
        ("a byte a second", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n", true, None),
        ("no body", &borrow, false, Some(408)),
        ("half a body", &half_body, false, Some(408)),
    ];
    std::thread::scope(|scope| {
        for (name, bytes, is_slow, status) in clients {
            let server = &server;
            scope.spawn(move || {
                let took = closed_after(server, bytes, is_slow, status);
                assert!((EARLIEST..LATEST).contains(&took), "{name}: closed after {took:?}");
            });
        }
        // A caller that waits in a queue sends nothing either, and is not closed.
        let server = &server;
        scope.spawn(move || {
            let mut client = server.client();
            client.call("POST", "/lock?client=a&ttl=1m", "").unwrap().expect(200);
            let mut waiter = server.client();
            let asked_at = Instant::now();
            waiter.call("POST", "/lock?client=b&wait=12s", "").unwrap().expect(409);
            assert!(asked_at.elapsed() >= Duration::from_secs(12));
        });
    });
    server.client().call("GET", "/readyz", "").unwrap().expect(200);
    report(format_args!("bad input: {} kinds of slow and silent clients were closed in time", clients.len()));
}

fn closed_after(server: &Server, bytes: &str, is_slow: bool, status: Option<u16>) -> Duration {
    let mut client: Client = server.client();
    let began = Instant::now();
    if is_slow {
        for byte in bytes.as_bytes() {
            // Once the peer has closed, writing fails sooner or later.
            if began.elapsed() > LATEST || client.send_raw(&[*byte]).is_err() {
                break;
            }
            if client.rest(Duration::from_secs(1)).is_ok() {
                return began.elapsed();
            }
        }
    } else {
        client.send_raw(bytes.as_bytes()).unwrap();
    }
    if let Some(status) = status {
        client.receive().unwrap().expect(status);
    }
    // An orderly end or a reset, but an end.
    if let Err(error) = client.rest(LATEST) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "still open: {error}");
    }
    began.elapsed()
}
