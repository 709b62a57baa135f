//! The most memory that an anonymous caller can make the process take, tried: it does everything at once that is
//! bounded in bytes. `docs/security.md` calculates the bounds; here they are scaled down so that the test takes
//! seconds.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::support::{Client, Launch, PATIENCE, RawH2, Server, gauge, output_of, part_of_the_machine, report, until};

/// As `faults::hung_disk` has it.
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

const MAX_STATE_MIB: u64 = 32;
const EVENTS_KEPT: u64 = 10_000;
/// Connections that claim, that have sent half a head, half a body, and that do not read.
const CALLERS: usize = 250;
const HALF_SENT: usize = 100;
const UNREAD: usize = 60;
/// Connections of HTTP/2 that do not read, and that have as many calls parked as they may.
const UNREAD_H2: usize = 4;
const PARKING_H2: usize = 2;

/// The sum of the bounds, in MiB, beside what the process takes when it has just started.
fn bound_mib() -> u64 {
    let state = MAX_STATE_MIB * 11 / 10;
    let events = EVENTS_KEPT * 512 / (1 << 20) + 1;
    let (orders, unsent) = (32, 64);
    // A head, a body and what a connection keeps while it waits.
    let connections = ((CALLERS + 2 * HALF_SENT + UNREAD + UNREAD_H2 + PARKING_H2) as u64 * (32 + 64 + 12)) / 1024 + 1;
    let streams = PARKING_H2 as u64 * 256 * 16 / 1024;
    // The batch under way, the batch that fills, its record, and the store's copies while it is written.
    let batches = 6 * 32;
    state + events + orders + unsent + connections + streams + batches
}

fn peak_kib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells the peak");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn claim_body(resource: &str, metadata: &str) -> String {
    format!(r#"{{"resource": "{resource}", "timeout": 3600, "metadata": "{metadata}"}}"#)
}

#[cfg(target_os = "linux")]
#[test]
fn all_that_an_anonymous_caller_can_do_at_once_stays_within_the_sum_of_the_bounds() {
    let _machine = part_of_the_machine();
    let directory = tempfile::tempdir().unwrap();
    let (source, shim) = (directory.path().join("shim.c"), directory.path().join("shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let made = output_of(Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(&source));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let hangs = directory.path().join("hangs");
    // The address space is a second net: past it the process would abort. It is larger than the sum, as reserved pages
    // and the stacks of threads count there.
    let launch = Launch::with_address_space(&directory.path().join("data"), 2 << 20)
        .arg("--state-max")
        .arg(format!("{MAX_STATE_MIB}MiB"))
        .arg("--events-kept")
        .arg(EVENTS_KEPT.to_string())
        .arg("--store-timeout")
        .arg("100ms");
    let mut server = launch.env("LD_PRELOAD", &shim).env("HANG_WHILE", &hangs).start();
    let start_kib = peak_kib(&server);
    let mut client = server.client();

    // The state, until it is full; then a third of it ends, so that there is something to do while the disk hangs.
    let long = "x".repeat(16 * 1024 - 2);
    let mut ids = Vec::new();
    loop {
        let answer = client.call("POST", "/v1/claims/", &claim_body(&format!("r{}", ids.len()), &long)).unwrap();
        match answer.status {
            201 => ids.push(answer.text("id")),
            503 => break,
            // The disk of a busy machine may take longer than a tenth of a second.
            502 => {}
            status => panic!("{status}: {}", answer.json()),
        }
    }
    for id in &ids[..ids.len() / 3] {
        let ended = client.call("PATCH", &format!("/v1/claims/{id}/"), r#"{"status": "released"}"#).unwrap();
        assert!([204, 502].contains(&ended.status), "{}", ended.status);
    }
    let state_kib = peak_kib(&server);

    // Orders of lists that are kept for their next pages.
    for n in 0..50 {
        let target = format!("/v1/observe/resources?sort=waiting&limit=1&q=r{n}");
        client.call("GET", &target, "").unwrap().expect(200);
    }
    // Long answers and events that no client reads.
    let unread: Vec<TcpStream> = (0..UNREAD)
        .map(|n| {
            let mut socket = TcpStream::connect(server.addr).unwrap();
            let target = if n % 3 == 0 { "/v1/events" } else { "/v1/claims/?limit=1000" };
            for _ in 0..8 {
                write!(socket, "GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
            }
            socket
        })
        .collect();
    let unread_h2: Vec<RawH2> = (0..UNREAD_H2)
        .map(|_| {
            let mut h2 = RawH2::connect(server.addr, 0);
            for _ in 0..40 {
                h2.ask("GET", "/v1/claims/?limit=1000", b"");
            }
            h2
        })
        .collect();
    // Calls that wait.
    until("the lock is held", PATIENCE, || {
        (client.call("POST", "/lock?client=holder&ttl=1h", "").unwrap().status == 200).then_some(())
    });
    let parking: Vec<RawH2> = (0..PARKING_H2)
        .map(|number| {
            let mut h2 = RawH2::connect(server.addr, 65_535);
            for n in 0..250 {
                h2.ask("POST", &format!("/lock?client={number}-{n}&wait=5m"), b"");
            }
            h2
        })
        .collect();
    until("unread answers wait", PATIENCE, || (gauge(&mut client, "leasehold_unsent_bytes") > 32 << 20).then_some(()));
    let unsent = gauge(&mut client, "leasehold_unsent_bytes");

    let unread_kib = peak_kib(&server);

    // A disk that hangs, and callers that go on claiming; meanwhile others send half of what they announced.
    std::fs::write(&hangs, "").unwrap();
    let mut callers: Vec<Client> = (0..CALLERS).map(|_| server.client()).collect();
    let half_sent: Vec<TcpStream> = (0..2 * HALF_SENT)
        .map(|n| {
            let mut socket = TcpStream::connect(server.addr).unwrap();
            if n % 2 == 0 {
                write!(socket, "GET /lock HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(15 * 1024)).unwrap();
            } else {
                let head = "POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 65536\r\n\r\n";
                write!(socket, "{head}{}", "z".repeat(65_000)).unwrap();
            }
            socket
        })
        .collect();
    let (mut taken, mut is_refused) = (0, false);
    for round in 0..40 {
        for (number, caller) in callers.iter_mut().enumerate() {
            caller
                .send("POST", "/v1/claims/", &[], claim_body(&format!("{round}-{number}"), &long).as_bytes())
                .unwrap();
        }
        for caller in &mut callers {
            let answer = caller.receive().unwrap();
            match answer.status {
                502 => taken += 1,
                503 => is_refused |= answer.json()["error"].as_str().is_some_and(|error| error.contains("keep up")),
                status => panic!("{status}: {}", answer.json()),
            }
        }
        if is_refused {
            break;
        }
    }
    assert!(server.is_alive());
    assert!(is_refused, "the batch that waits for the disk is full in the end; {taken} claims were taken");
    let hung_kib = peak_kib(&server);
    drop((unread, unread_h2, parking, half_sent));

    // It is well afterwards.
    std::fs::remove_file(&hangs).unwrap();
    until("it goes on", PATIENCE, || {
        let listed = client.call("GET", "/v1/claims/?limit=1", "").unwrap();
        (listed.status == 200 && listed.json().as_array().is_some_and(|claims: &Vec<Value>| !claims.is_empty()))
            .then_some(())
    });
    let peak_kib = peak_kib(&server);
    let (added_mib, bound_mib) = ((peak_kib - start_kib) / 1024, bound_mib());
    let beside_mib = |kib: u64| (kib - start_kib) / 1024;
    report(format_args!(
        "hostile: all at once took {added_mib} MiB beside {} MiB at the start, of at most {bound_mib}: {} MiB with a state of {MAX_STATE_MIB} MiB, {} with {} MiB unsent, {} with {} MiB that wait for the disk, the rest when it writes them",
        start_kib / 1024,
        beside_mib(state_kib),
        beside_mib(unread_kib),
        unsent >> 20,
        beside_mib(hung_kib),
        taken * 16 / 1024,
    ));
    assert!(added_mib <= bound_mib, "{added_mib} MiB were taken, the bounds add up to {bound_mib}");
}
