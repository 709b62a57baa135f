//! Two thousand sockets at once that say nothing, too little, or a byte a second. The service answers others all along,
//! and is rid of every one of them after about ten seconds.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{PROBE_MAX, probe};
use crate::support::{Launch, Server, report};

const SOCKETS: usize = 2_000;
/// Ten seconds, and a margin for a busy machine.
const EARLIEST: Duration = Duration::from_millis(9_500);
const LATEST: Duration = Duration::from_secs(15);
/// How often each socket is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const DRIP_EVERY: Duration = Duration::from_secs(1);

/// The bytes of an attacker, and how it sends them.
#[derive(Clone, Copy, Debug)]
struct Manner {
    at_once: &'static str,
    /// One byte of this a second.
    slowly: &'static str,
}

const MANNERS: [Manner; 6] = [
    Manner { at_once: "", slowly: "" },
    Manner { at_once: "GET /lock HTTP/1.1\r\nhost: localhost\r\n", slowly: "" },
    Manner { at_once: "", slowly: "GET /lock HTTP/1.1\r\nhost: localhost\r\nx: and so on, and so on" },
    Manner {
        at_once: "POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n{\"r",
        slowly: "esource\":\"a long name",
    },
    Manner {
        at_once: "PUT /l/x HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1",
        slowly: ";an extension without end",
    },
    Manner { at_once: "PRI * HTTP/2.0\r\n\r\n", slowly: "" },
];

/// One of them.
#[derive(Debug)]
struct Socket {
    stream: TcpStream,
    manner: Manner,
    opened_at: Instant,
    dripped: usize,
    closed_after: Option<Duration>,
}

#[test]
fn two_thousand_silent_and_slow_sockets_hold_nobody_up() {
    let sockets_max = allow_open_files(SOCKETS);
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let is_over = AtomicBool::new(false);
    let (sockets, probes) = std::thread::scope(|scope| {
        let prober = scope.spawn(|| {
            let mut probes = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                probes.push(probe(&server));
                std::thread::sleep(LOOK_EVERY);
            }
            probes
        });
        let sockets = flood(&server, sockets_max);
        is_over.store(true, Ordering::Relaxed);
        (sockets, prober.join().unwrap())
    });
    for socket in &sockets {
        let took = socket.closed_after.unwrap_or(Duration::MAX);
        assert!((EARLIEST..LATEST).contains(&took), "closed after {took:?}: {:?}", socket.manner);
    }
    let slowest = probes.iter().max().unwrap();
    assert!(*slowest < PROBE_MAX, "one of {} probes took {slowest:?}", probes.len());
    let took = |pick: fn(Option<Duration>, Option<Duration>) -> Option<Duration>| {
        sockets.iter().map(|socket| socket.closed_after).reduce(pick).flatten().unwrap_or_default().as_secs_f64()
    };
    report(format_args!(
        "hostile: {} silent and slow sockets closed after {:.1} to {:.1} s, {} probes meanwhile took at most {} ms",
        sockets.len(),
        took(Option::min),
        took(Option::max),
        probes.len(),
        slowest.as_millis(),
    ));
}

/// Opens them all and goes round until the last one is closed.
fn flood(server: &Server, sockets_max: usize) -> Vec<Socket> {
    let mut sockets: Vec<Socket> =
        (0..sockets_max).map(|number| Socket::open(server, MANNERS[number % MANNERS.len()])).collect();
    let give_up_at = Instant::now() + LATEST;
    while sockets.iter().any(|socket| socket.closed_after.is_none()) && Instant::now() < give_up_at {
        for socket in sockets.iter_mut().filter(|socket| socket.closed_after.is_none()) {
            socket.drip();
            socket.look();
        }
        std::thread::sleep(LOOK_EVERY);
    }
    sockets
}

impl Socket {
    fn open(server: &Server, manner: Manner) -> Socket {
        let mut stream = TcpStream::connect(server.addr).unwrap();
        let opened_at = Instant::now();
        stream.write_all(manner.at_once.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        Socket { stream, manner, opened_at, dripped: 0, closed_after: None }
    }

    fn drip(&mut self) {
        let is_due = self.opened_at.elapsed() >= DRIP_EVERY * u32::try_from(self.dripped + 1).unwrap();
        if let (true, Some(byte)) = (is_due, self.manner.slowly.as_bytes().get(self.dripped)) {
            self.dripped += 1;
            // Closed by now, perhaps; reading will tell.
            let _ = self.stream.write(&[*byte]);
        }
    }

    fn look(&mut self) {
        let mut said = [0; 1_024];
        loop {
            match self.stream.read(&mut said) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nothing but a 408, or the first frames of HTTP/2, before the end.
                Ok(len) if len > 0 => assert!(!said.starts_with(b"HTTP/1.1 2"), "served: {:?}", &said[..len]),
                Ok(_) | Err(_) => {
                    self.closed_after = Some(self.opened_at.elapsed());
                    return;
                }
            }
        }
    }
}

/// Asks for enough files for both ends of so many sockets, here and in the server, which inherits it. How many sockets
/// the machine lets us have in the end.
fn allow_open_files(sockets: usize) -> usize {
    const BESIDE: u64 = 512;
    let limit = getrlimit(Resource::Nofile);
    let wanted = sockets as u64 + BESIDE;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
        setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum }).unwrap();
    }
    let allowed = getrlimit(Resource::Nofile).current.unwrap_or(wanted);
    sockets.min(usize::try_from(allowed.saturating_sub(BESIDE)).unwrap())
}
