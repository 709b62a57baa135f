//! Bad input against the real binary: the documented 4xx with a helpful sentence, never a 5xx, never a panic, and
//! memory that stays where it is. The calls are in `table` (bodies and fields) and `heads` (paths, methods, headers,
//! sizes).

mod heads;
mod table;

use std::io;

use crate::support::{Client, Launch, PATIENCE, Response, Server, part_of_the_machine, random_uuid, report};

/// A call and its fate.
#[derive(Clone, Debug)]
pub(super) struct Row {
    method: &'static str,
    target: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    status: u16,
    /// The word that the sentence has to contain, in lower case.
    names: String,
}

impl Row {
    pub(super) fn new(method: &'static str, target: impl Into<String>, body: impl AsRef<[u8]>, status: u16) -> Row {
        let (target, body) = (target.into(), body.as_ref().to_vec());
        Row { method, target, headers: Vec::new(), body, status, names: String::new() }
    }

    pub(super) fn naming(mut self, name: impl Into<String>) -> Row {
        self.names = name.into();
        self
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Row {
        self.headers.push((name, value.into()));
        self
    }

    fn play(&self, client: &mut Client) -> io::Result<Response> {
        let headers: Vec<(&str, &str)> = self.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        client.call_with(self.method, &self.target, &headers, &self.body)
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cut = |text: &str| text.chars().take(120).collect::<String>();
        let body = String::from_utf8_lossy(&self.body);
        write!(f, "{} {} {} {}", self.method, cut(&self.target), cut(&format!("{:?}", self.headers)), cut(&body))
    }
}

/// The subjects of the calls: all of them exist, so that nothing but the mistake is in the way.
#[derive(Debug)]
pub(super) struct Known {
    pool: String,
    lease: String,
    claim: String,
}

impl Known {
    fn make(server: &Server) -> Known {
        let mut client = server.client();
        let pool = random_uuid();
        client.call("PUT", &format!("/l/{pool}"), "{\"count\":1000}").unwrap().expect(200);
        let lease = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":3600}").unwrap().text("lease");
        let body = "{\"resource\":\"known\",\"timeout\":3600}";
        let claim = client.call("POST", "/v1/claims/", body).unwrap().expect(201).text("id");
        Known { pool, lease, claim }
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = table::rows(self);
        rows.extend(heads::rows(self));
        rows
    }
}

#[test]
fn every_mistake_gets_its_4xx_and_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let rows = Known::make(&server).rows();
    assert!(rows.len() >= 150, "{}", rows.len());
    let mut wrong = Vec::new();
    let mut client = server.client();
    for row in &rows {
        let answer = row.play(&mut client).unwrap_or_else(|error| panic!("{error} after {row}"));
        if let Some(fault) = fault_of(row, &answer) {
            wrong.push(format!("{row}\n    {fault}: {} {}", answer.status, String::from_utf8_lossy(&answer.body)));
        }
        if answer.header("connection") == Some("close") {
            client = server.client();
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    client.call("GET", "/readyz", "").unwrap().expect(200);
    report(format_args!("bad input: {} calls, each got what is documented", rows.len()));
}

#[test]
fn a_body_announced_far_too_long_is_refused_unread() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    for length in [2 * 1024 * 1024, u64::MAX / 2] {
        let mut client = server.client();
        let head = format!("POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        client.send_raw(head.as_bytes()).unwrap();
        let answer = client.receive().unwrap().expect(413);
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(answer.text("error").contains("at most 65536 bytes"));
    }
}

/// The fault of an answer, if it has one.
fn fault_of(row: &Row, answer: &Response) -> Option<String> {
    if answer.status != row.status {
        return Some(format!("should be {}", row.status));
    }
    if answer.header("cache-control") != Some("no-store") || answer.header("x-request-id").is_none() {
        return Some("lacks a header that every answer has".to_owned());
    }
    if answer.status < 400 {
        return None;
    }
    if answer.header("content-type") != Some("application/json") {
        return Some("is not declared as JSON".to_owned());
    }
    if answer.status == 405 && answer.header("allow").is_none_or(str::is_empty) {
        return Some("does not say what is allowed".to_owned());
    }
    let body: serde_json::Value = match serde_json::from_slice(&answer.body) {
        Ok(body) => body,
        Err(error) => return Some(format!("is not JSON, {error}")),
    };
    match body["error"].as_str() {
        None | Some("") => Some("has no sentence".to_owned()),
        Some(sentence) if !sentence.contains(' ') => Some("is no sentence".to_owned()),
        Some(sentence) if !sentence.to_lowercase().contains(&row.names) => Some(format!("does not name {}", row.names)),
        Some(_) => None,
    }
}

#[test]
fn what_is_not_http_is_refused_without_a_5xx() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let raw = heads::not_http();
    for bytes in &raw {
        let mut client = server.client();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
        client.send_raw(bytes).unwrap();
        let _ = client.hang_up();
        match client.receive() {
            Ok(answer) => assert!((400..500).contains(&answer.status), "{shown:?} got {}", answer.status),
            Err(error) => {
                let is_closed = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
                assert!(is_closed, "{shown:?}: {error}");
            }
        }
        server.client().call("GET", "/healthz", "").unwrap().expect(200);
    }
    // These look like HTTP/2, so they are answered with frames, and closed.
    for opening in ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nthese are no frames, not at all", "PRI * HTTP/1.1\r\n\r\n"] {
        let mut client = server.client();
        client.send_raw(opening.as_bytes()).unwrap();
        client.hang_up().unwrap();
        client.rest(PATIENCE).unwrap();
        server.client().call("GET", "/healthz", "").unwrap().expect(200);
    }
    report(format_args!("bad input: {} openings that are no HTTP", raw.len()));
}

/// Bad input leaves nothing behind.
#[test]
fn memory_stays_flat_under_bad_requests() {
    const THREADS: usize = 4;
    let _machine = part_of_the_machine();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    // Only refused calls: accepted ones may well take up room.
    let rows: Vec<Row> = Known::make(&server).rows().into_iter().filter(|row| row.status >= 400).collect();
    let storm = |calls: usize| {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (server, rows) = (&server, &rows);
                scope.spawn(move || {
                    let mut client = server.client();
                    for row in rows.iter().cycle().skip(thread * rows.len() / THREADS).take(calls / THREADS) {
                        let answer = row.play(&mut client).unwrap();
                        assert_eq!(answer.status, row.status, "{row}");
                        if answer.header("connection") == Some("close") {
                            client = server.client();
                        }
                    }
                });
            }
        });
    };
    storm(4_000);
    let before = server.resident_kib();
    storm(20_000);
    let after = server.resident_kib();
    server.client().call("GET", "/readyz", "").unwrap().expect(200);
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after < before + 6 * 1024, "grew from {before} KiB to {after} KiB");
        report(format_args!("bad input: 20000 bad requests took the process from {before} KiB to {after} KiB"));
    }
}
