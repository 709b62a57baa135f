//! A disk that does not answer: callers are still heard, callers that do not need the disk are answered, and when it is
//! back all goes on. When the process is told to stop meanwhile, no caller is told a change that is not durable, every
//! caller gets an answer, and the end comes all the same. With one thread that serves and appends, and with several.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::STORE_FAILED;
use crate::support::{Client, Launch, PATIENCE, gauge, output_of, report, until};

/// Answers wait for five seconds, and the store has as long to finish.
const END_MAX: Duration = Duration::from_secs(20);

/// The C library's own, except that they hang while there is a file of this name.
const SHIM: &str = r#"
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static void hang(void) {
    const char *path = getenv("HANG_WHILE");
    while (path && access(path, F_OK) == 0) usleep(1000);
}
int fsync(int fd) { hang(); return (int) syscall(SYS_fsync, fd); }
int fdatasync(int fd) { hang(); return (int) syscall(SYS_fdatasync, fd); }
"#;

#[test]
fn a_hung_disk_does_not_hold_up_the_end_with_one_thread() {
    ends("1");
}

#[test]
fn a_hung_disk_does_not_hold_up_the_end_with_two() {
    ends("2");
}

#[test]
fn a_disk_that_hangs_for_a_while_silences_nobody_with_one_thread() {
    goes_on("1");
}

#[test]
fn a_disk_that_hangs_for_a_while_silences_nobody_with_two() {
    goes_on("2");
}

/// Callers that were given up on made room for more, and all their changes waited in memory for the disk.
#[test]
fn while_the_disk_hangs_a_bounded_number_of_bytes_waits_for_it() {
    const CALLERS: usize = 250;
    let directory = tempfile::tempdir().unwrap();
    let (data, hangs) = (directory.path().join("data"), directory.path().join("hangs"));
    let shim = shim(directory.path());
    let launch = Launch::on(&data).arg("--store-timeout").arg("100ms").env("LD_PRELOAD", &shim);
    let server = launch.env("HANG_WHILE", &hangs).start();
    let mut known = server.client();
    known.call("POST", "/lock?job=held&client=a&ttl=1h", "").unwrap().expect(200);
    let before_kib = server.resident_kib();

    std::fs::write(&hangs, "").unwrap();
    let mut callers: Vec<Client> = (0..CALLERS).map(|_| server.client()).collect();
    let metadata = "x".repeat(16_000);
    let (mut taken, mut refused) = (0, None);
    for round in 0..100 {
        for (number, caller) in callers.iter_mut().enumerate() {
            let resource = format!("{round}-{number}");
            let body = format!(r#"{{"resource": "{resource}", "timeout": 60, "metadata": "{metadata}"}}"#);
            caller.send("POST", "/v1/claims/", &[], body.as_bytes()).unwrap();
        }
        for caller in &mut callers {
            let answer = caller.receive().unwrap();
            match answer.status {
                502 => taken += 1,
                503 => refused = Some(answer),
                status => panic!("{status}: {}", answer.json()),
            }
        }
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("growth is refused in the end");
    assert!(refused.text("error").starts_with("the store does not keep up"), "{}", refused.text("error"));
    assert_eq!((refused.header("retry-after"), &*refused.text("code")), (Some("1"), "overloaded"));
    // A holder that renews is not turned away: its answer waits for the store, like all that are not refused.
    known.call("POST", "/lock?job=held&client=a&ttl=1h", "").unwrap().expect(502);
    let taken_mib = taken * 16_000 / (1 << 20);
    assert!((24..40).contains(&taken_mib), "{taken_mib} MiB were taken");

    std::fs::remove_file(&hangs).unwrap();
    let claim = r#"{"resource": "after", "timeout": 60}"#;
    until("it goes on", PATIENCE, || (known.call("POST", "/v1/claims/", claim).unwrap().status < 300).then_some(()));
    known.call("POST", "/lock?job=held&client=a&ttl=1h", "").unwrap().expect(200);
    let after_kib = server.resident_kib();
    report(format_args!(
        "faults: while the disk hung, {taken_mib} MiB in {taken} claims were taken for it, then 503; resident from {:?} to {:?} KiB",
        before_kib.unwrap_or(0),
        after_kib.unwrap_or(0),
    ));
}

fn goes_on(threads: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (data, hangs) = (directory.path().join("data"), directory.path().join("hangs"));
    let shim = shim(directory.path());
    let launch = Launch::on(&data).arg("--threads").arg(threads).env("LD_PRELOAD", &shim).env("HANG_WHILE", &hangs);
    let server = launch.start();
    let mut known = server.client();
    known.call("POST", "/lock?job=held&client=a&ttl=1h", "").unwrap().expect(200);
    let mut longest = Duration::ZERO;
    for round in 0..5 {
        std::fs::write(&hangs, "").unwrap();
        let mut stuck: Vec<_> = (0..4).map(|_| server.client()).collect();
        for (number, client) in stuck.iter_mut().enumerate() {
            client.send("POST", &format!("/lock?job={round}-{number}&client=a&ttl=1h"), &[], b"").unwrap();
        }
        let held = |client: &mut Client| gauge(client, "leasehold_held_answers");
        until("they are stuck", PATIENCE, || (held(&mut known) == 4).then_some(()));
        // Callers that were connected before, and new ones.
        for client in [&mut known, &mut server.client()] {
            let asked_at = Instant::now();
            client.call("GET", "/healthz", "").unwrap().expect(200);
            longest = longest.max(asked_at.elapsed());
        }
        std::fs::remove_file(&hangs).unwrap();
        for client in &mut stuck {
            client.receive().unwrap().expect(200);
        }
        known.call("POST", "/lock?job=held&client=a&ttl=1h", "").unwrap().expect(200);
    }
    report(format_args!(
        "faults: while the disk hung, {threads} serving, callers were answered within {:.1} ms",
        longest.as_secs_f64() * 1e3
    ));
}

fn ends(threads: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (data, hangs) = (directory.path().join("data"), directory.path().join("hangs"));
    let shim = shim(directory.path());
    let launch = Launch::on(&data).arg("--threads").arg(threads).env("LD_PRELOAD", &shim).env("HANG_WHILE", &hangs);
    let mut server = launch.start();
    server.client().call("POST", "/lock?job=held&client=a&ttl=1h", "").unwrap().expect(200);
    let mut parked = server.client();
    parked.send("POST", "/lock?job=held&client=b&wait=2m", &[], b"").unwrap();
    until("it is parked", PATIENCE, || (gauge(&mut server.client(), "leasehold_parked_callers") == 1).then_some(()));
    std::fs::write(&hangs, "").unwrap();
    let mut stuck = server.client();
    stuck.send("POST", "/lock?job=other&client=a&ttl=1h", &[], b"").unwrap();
    until("it is stuck", PATIENCE, || (gauge(&mut server.client(), "leasehold_held_answers") >= 1).then_some(()));

    let told_at = Instant::now();
    server.signal(Signal::TERM);
    // Neither can be a 503: what that promises is not durable.
    parked.receive().unwrap().expect(502);
    let heard_after = told_at.elapsed();
    stuck.receive().unwrap().expect(502);
    let status = server.wait();
    let ended_after = told_at.elapsed();
    let log = server.whole_log();
    assert_eq!(status.code(), Some(STORE_FAILED), "{log}");
    assert!(log.contains("the store did not finish within 5 s"), "{log}");
    assert!(ended_after < END_MAX, "it took {ended_after:?} to end");

    let server = Launch::on(&data).start();
    assert_eq!(server.client().call("GET", "/lock?job=held", "").unwrap().text("holder"), "a");
    report(format_args!(
        "faults: told to stop while the disk hung, {threads} serving, the parked heard 502 after {:.1} s and the process ended after {:.1} s",
        heard_after.as_secs_f64(),
        ended_after.as_secs_f64(),
    ));
}

fn shim(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("shim.c"), directory.join("shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let made = output_of(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    library
}
