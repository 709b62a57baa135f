//! The tools of every test here: a process, a client, and patience that ends.

mod client;
mod machine;
mod raw_h2;
mod server;
mod stream;
mod wall;

use std::fmt;
use std::io::{self, Write as _};
use std::time::{Duration, Instant};

pub(crate) use client::{Client, Position, Response};
pub(crate) use machine::{machine_to_itself, part_of_the_machine};
pub(crate) use raw_h2::{Came, RawH2};
pub(crate) use server::{Ended, Launch, Server, done, is_killed_at, leasehold, output_of, refused, run, utf8};
pub(crate) use stream::EventStream;
pub(crate) use wall::FakeWall;

/// Long enough that no machine is too slow for it, short enough that a test that hangs fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Tries until `look` finds something. Panics with `what` when it takes longer than `within`.
pub(crate) fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One line about how hard a test looked, also when it passes: the test harness swallows the output of `println!`.
pub(crate) fn report(figures: fmt::Arguments<'_>) {
    // In one piece, as tests run side by side.
    let _ = io::stderr().write_all(format!("{figures}\n").as_bytes());
}

/// A fresh pool id.
pub(crate) fn random_uuid() -> String {
    let hex = format!("{:032x}", rand::random::<u128>());
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

/// One number of `/metrics`; of one that has labels, the sum.
pub(crate) fn gauge(client: &mut Client, name: &str) -> u64 {
    // On a machine with other work the store may be late for this question, too.
    let metrics = until(name, PATIENCE, || {
        let answer = client.call("GET", "/metrics", "").unwrap();
        (!matches!(answer.status, 502 | 503)).then(|| answer.expect(200))
    });
    let text = String::from_utf8(metrics.body).unwrap();
    let samples = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.strip_prefix(' ').or_else(|| rest.strip_prefix('{')?.split_once("} ").map(|(_, value)| value))
    });
    let values: Vec<u64> = samples.map(|value| value.parse().unwrap()).collect();
    assert!(!values.is_empty(), "no {name} in {text}");
    values.iter().sum()
}
