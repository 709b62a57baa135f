//! A hostile network in front of the real binary: requests that two servers could read in two ways (`table`), thousands
//! of sockets that say nothing or too little (`flood`), and more connections than there is room for (`room`).
//!
//! The first kind is about smuggling. Every row is followed on the same connection by a request that no client sent,
//! and the answers have to show that it was not served: the right answers, no more of them, and no lock in the name of
//! a client that only ever stood in another client's body.

#[cfg(target_os = "linux")]
mod files;
mod flood;
mod room;
mod table;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Client, Launch, Server, report};
use table::{Fate, Row};

/// The request that an attacker wants served: it would leave a visible trace.
const SMUGGLED: &str = "POST /lock?client=smuggled HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
/// The request after a request that is fine: it shows that the end of the one before was found.
const HONEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

#[test]
fn what_could_be_read_in_two_ways_is_read_in_one() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let rows = table::rows();
    assert!(rows.len() >= 100, "{}", rows.len());
    let mut wrong = Vec::new();
    for row in &rows {
        let sent_at = Instant::now();
        let statuses = play(&server, row);
        let took = sent_at.elapsed();
        let holder = server.client().call("GET", "/lock", "").unwrap().expect(200).text("holder");
        // All that there is to read has been sent, so nothing has to wait for a deadline.
        if !row.fate.allows(&statuses) || !holder.is_empty() || took > PROBE_MAX {
            let Row { name, fate, .. } = row;
            wrong.push(format!("{name}: {statuses:?} instead of {fate:?}, lock held by {holder:?}, after {took:?}"));
            server.client().call("DELETE", "/lock?client=smuggled", "").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    server.client().call("GET", "/readyz", "").unwrap().expect(200);
    // A panic in a handler is a closed connection from outside; the log would tell.
    let (status, log) = server.stop(Signal::TERM);
    assert!(status.success() && !log.contains("panicked"), "{log}");
    let refused = rows.iter().filter(|row| !matches!(row.fate, Fate::Served(_))).count();
    report(format_args!(
        "hostile: {} ambiguous requests, {refused} of them refused, none of the requests hidden in them served",
        rows.len()
    ));
}

/// Sends a row and what comes after it, and gives the statuses of all that comes back until the end.
fn play(server: &Server, row: &Row) -> Vec<u16> {
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(2 * PROBE_MAX)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut bytes = row.bytes.clone();
    match row.fate {
        Fate::Served(_) => bytes.extend_from_slice(HONEST.as_bytes()),
        Fate::Refused(_) | Fate::Last(_) | Fate::Then(..) => bytes.extend_from_slice(SMUGGLED.as_bytes()),
        Fate::CutOff(_) => {}
    }
    // It may be refused and closed before all of it is written.
    let _ = stream.write_all(&bytes);
    if matches!(row.fate, Fate::CutOff(_)) {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let mut answers = Vec::new();
    // A reset is an end, too; time running out shows in how long it took.
    let _ = stream.read_to_end(&mut answers);
    statuses(&answers).unwrap_or_else(|| panic!("{}: no HTTP: {:?}", row.name, String::from_utf8_lossy(&answers)))
}

/// The statuses of a row of answers; `None` if there is anything in it that is no answer.
fn statuses(mut bytes: &[u8]) -> Option<Vec<u16>> {
    let mut statuses = Vec::new();
    while !bytes.is_empty() {
        let head_len = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let head = std::str::from_utf8(&bytes[..head_len]).ok()?;
        let status =
            head.strip_prefix("HTTP/1.1 ").or_else(|| head.strip_prefix("HTTP/1.0 "))?.get(..3)?.parse().ok()?;
        statuses.push(status);
        let length = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok();
        let body_len: usize = head.lines().find_map(length).unwrap_or(0);
        bytes = bytes.get(head_len + body_len..)?;
    }
    Some(statuses)
}

/// How long a probe may take while the service is being leaned on. Generous: the machine may have two cores and more to
/// do.
const PROBE_MAX: Duration = Duration::from_secs(2);

/// Asks for something that has to become durable, and says how long that took.
fn probe(server: &Server) -> Duration {
    let asked_at = Instant::now();
    server.client().call("GET", "/readyz", "").unwrap().expect(200);
    asked_at.elapsed()
}

fn is_served(client: &mut Client) {
    client.call("GET", "/healthz", "").unwrap().expect(200);
}
