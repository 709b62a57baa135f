//! Callers that are gone, noticed where the HTTP stack does not look by itself: behind bytes that were sent along with
//! the request, on a connection that is to be closed after the answer, and behind a window of HTTP/2 that stays shut.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::support::{Came, Client, Launch, PATIENCE, RawH2, Server, gauge, random_uuid, report, until};

/// Far below the ttl and the wait of every call here, so that neither can be what frees a slot.
const SOON: Duration = Duration::from_secs(5);
const REPETITIONS: usize = 8;

/// Something that is held already, so that the next caller is parked.
struct Held {
    name: &'static str,
    /// The call that is parked.
    ask: (&'static str, String, &'static str),
    give_back: (&'static str, String, String),
}

fn hold_each(server: &Server) -> Vec<Held> {
    let mut client = server.client();
    let pool = format!("/l/{}", random_uuid());
    client.call("PUT", &pool, "{\"count\":1}").unwrap().expect(200);
    let lease = client.call("POST", &format!("{pool}/borrow"), "{\"ttl\":3600}").unwrap().expect(200).text("lease");
    client.call("POST", "/lock?client=holder&ttl=1h", "").unwrap().expect(200);
    let claim =
        client.call("POST", "/v1/claims/", r#"{"resource":"r","timeout":3600}"#).unwrap().expect(201).text("id");
    vec![
        Held {
            name: "pool",
            ask: ("POST", format!("{pool}/borrow"), "{\"ttl\":3600,\"wait\":120}"),
            give_back: ("POST", format!("{pool}/return"), format!("{{\"lease\":\"{lease}\"}}")),
        },
        Held {
            name: "lock",
            ask: ("POST", "/lock?client=waiter&ttl=1h&wait=2m".to_owned(), ""),
            give_back: ("DELETE", "/lock?client=holder".to_owned(), String::new()),
        },
        Held {
            name: "claim",
            ask: ("POST", "/v1/claims/?wait=120".to_owned(), r#"{"resource":"r","timeout":3600}"#),
            give_back: ("PATCH", format!("/v1/claims/{claim}/"), "{\"status\":\"released\"}".to_owned()),
        },
    ]
}

/// The bytes after the request, in the head or behind the body.
const FOLLOWED_BY: [(&str, &str, &str); 4] = [
    ("a line break", "", "\r\n"),
    ("the next request", "", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
    ("half a request", "", "GET /healthz HT"),
    ("nothing, on a connection to be closed", "connection: close\r\n", ""),
];

#[derive(Clone, Copy, Debug)]
enum Ending {
    Close,
    Reset,
    HalfClose,
}

#[test]
fn a_waiter_behind_more_bytes_leaves_its_queue_when_its_connection_ends() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    let taken = hold_each(&server);
    let mut left = 0;
    for Held { name, ask: (method, target, body), .. } in &taken {
        for (what, header, bytes) in FOLLOWED_BY {
            for ending in [Ending::Close, Ending::Reset, Ending::HalfClose] {
                for _ in 0..REPETITIONS {
                    let mut waiter = TcpStream::connect(server.addr).unwrap();
                    let len = body.len();
                    let head =
                        format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n{header}content-length: {len}");
                    waiter.write_all(format!("{head}\r\n\r\n{body}{bytes}").as_bytes()).unwrap();
                    until("it is queued", PATIENCE, || (gauge(&mut client, "leasehold_waiters") == 1).then_some(()));
                    let open = match ending {
                        Ending::Close => None,
                        Ending::Reset => {
                            socket2::SockRef::from(&waiter).set_linger(Some(Duration::ZERO)).unwrap();
                            None
                        }
                        Ending::HalfClose => {
                            waiter.shutdown(Shutdown::Write).unwrap();
                            Some(waiter.try_clone().unwrap())
                        }
                    };
                    drop(waiter);
                    let case = format!("a waiter for a {name}, followed by {what}, ending by {ending:?}");
                    until(&case, SOON, || (gauge(&mut client, "leasehold_waiters") == 0).then_some(()));
                    drop(open);
                    left += 1;
                }
            }
        }
    }
    for Held { name, give_back: (method, target, body), .. } in &taken {
        let status = client.call(method, target, body).unwrap().status;
        assert!(matches!(status, 200 | 204), "{name}: {status}");
    }
    assert_eq!(gauge(&mut client, "leasehold_holders"), 0, "a waiter that left was granted");
    report(format_args!("sockets: {left} waiters that had sent more bytes left, and all were noticed"));
}

/// How much of an answer each stream takes: nothing, less than the body, and all but its last byte.
fn windows(server: &Server) -> [u32; 3] {
    let pool = format!("/l/{}", random_uuid());
    let mut client = server.client();
    client.call("PUT", &pool, "{\"count\":1}").unwrap().expect(200);
    let granted = client.call("POST", &format!("{pool}/borrow"), "{\"ttl\":1}").unwrap().expect(200);
    client.call("DELETE", &pool, "").unwrap().expect(200);
    [0, 20, u32::try_from(granted.body.len()).unwrap() - 1]
}

#[test]
fn a_grant_whose_answer_cannot_leave_its_http2_stream_is_handed_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    let pool = format!("/l/{}", random_uuid());
    let borrow = format!("{pool}/borrow");
    client.call("PUT", &pool, "{\"count\":1}").unwrap().expect(200);
    let calls: [(&str, &str, &[u8]); 3] = [
        ("pool", &borrow, b"{\"ttl\":3600}"),
        ("lock", "/lock?client=c&ttl=1h", b""),
        ("claim", "/v1/claims/", br#"{"resource":"r","timeout":3600}"#),
    ];
    let mut handed_back = 0;
    for (name, target, body) in calls {
        for window in windows(&server) {
            for is_reset in [true, false] {
                for _ in 0..REPETITIONS {
                    let mut h2 = RawH2::connect(server.addr, window);
                    let stream = h2.ask("POST", target, body);
                    while h2.next() != Came::Headers(stream) {}
                    assert_eq!(gauge(&mut client, "leasehold_holders"), 1, "granted, and told as far as it goes");
                    let open = if is_reset {
                        h2.reset(stream);
                        Some(h2)
                    } else {
                        drop(h2);
                        None
                    };
                    let case = format!("a {name} behind a window of {window}, reset: {is_reset}");
                    until(&case, SOON, || (gauge(&mut client, "leasehold_holders") == 0).then_some(()));
                    drop(open);
                    handed_back += 1;
                }
            }
        }
    }
    // With room for all of it the answer leaves, and a reset afterwards takes nothing back.
    let mut h2 = RawH2::connect(server.addr, 65_535);
    let stream = h2.ask("POST", &borrow, b"{\"ttl\":3600}");
    while !matches!(h2.next(), Came::Data(id, _, true) if id == stream) {}
    h2.reset(stream);
    drop(h2);
    let mut again: Client = server.client();
    again.call("POST", &borrow, "{\"ttl\":3600}").unwrap().expect(409);
    assert_eq!(gauge(&mut client, "leasehold_holders"), 1, "an acknowledged claim is kept");
    report(format_args!("HTTP/2: {handed_back} grants behind windows that stayed shut, all handed back"));
}
