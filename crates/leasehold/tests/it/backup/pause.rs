//! A backup of a server under load: no caller waits for it, and it has all that was acknowledged before it began.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Borrower, check};
use crate::support::{Client, Launch, Server, done, machine_to_itself, report, utf8};

/// Enough that copying and verifying takes several times as long as any caller may wait.
const CLAIMS: usize = 3_000;
const METADATA_BYTES: usize = 15_000;
const LEASES: usize = 300;
const CALLERS: usize = 4;
const BACKUPS: usize = 5;
/// How long to watch without a backup, to know what this machine does by itself.
const QUIET: Duration = Duration::from_secs(1);
/// The longest time without any acknowledgement that a backup may cost.
const PAUSE_MAX: Duration = Duration::from_millis(50);

#[test]
fn nobody_waits_for_a_backup_and_it_has_all_that_was_acknowledged() {
    let _machine = machine_to_itself();
    let scratch = tempfile::tempdir().unwrap();
    let data = scratch.path().join("data");
    let server = Launch::on(&data).start();
    fill(&server);
    let mut borrower = Borrower::new(&server);
    for _ in 0..LEASES {
        borrower.borrow();
    }

    let (quiet, backups, acknowledged) = under_load(&server, || {
        let began = Instant::now();
        std::thread::sleep(QUIET);
        let quiet = began..Instant::now();
        let backups: Vec<Range<Instant>> = (0..BACKUPS).map(|number| back_up(&data, scratch.path(), number)).collect();
        (quiet, backups)
    });

    for number in 0..BACKUPS {
        let copy = copy_at(scratch.path(), number);
        let found = check(utf8(&copy));
        assert_eq!(found["held"]["pool"], LEASES, "{found}");
        assert!(found["held"]["claim"].as_u64().unwrap() >= CLAIMS as u64, "{found}");
        let mode = std::os::unix::fs::MetadataExt::mode(&copy.metadata().unwrap()) & 0o777;
        assert_eq!(mode, 0o600, "for its owner alone");
    }
    let quiet = longest_gap(&acknowledged, &quiet);
    let gaps: Vec<Duration> = backups.iter().map(|backup| longest_gap(&acknowledged, backup)).collect();
    let took: Duration = backups.iter().map(|backup| backup.end - backup.start).sum();
    let worst = gaps.iter().max().unwrap();
    report(format_args!(
        "backup: {BACKUPS} of {} MiB each took {} ms under {CALLERS} callers; no acknowledgement for at most {} ms ({} ms \
         without a backup)",
        copy_at(scratch.path(), 0).metadata().unwrap().len() >> 20,
        (took / u32::try_from(BACKUPS).unwrap()).as_millis(),
        worst.as_millis(),
        quiet.as_millis(),
    ));
    // The best of them: each contains the backup's own pause, but not the other load of the machine.
    let best = *gaps.iter().min().unwrap();
    assert!(best <= PAUSE_MAX.max(quiet * 2), "every backup held all callers up: {gaps:?}, {quiet:?} without one");
}

/// Makes the data large, with several calls on their way at once.
fn fill(server: &Server) {
    let metadata = "m".repeat(METADATA_BYTES);
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (mut client, metadata) = (server.client(), &metadata);
            scope.spawn(move || {
                for number in 0..CLAIMS / CALLERS {
                    claim(&mut client, &format!("filled-{caller}-{number}"), 3600, metadata);
                }
            });
        }
    });
}

fn claim(client: &mut Client, resource: &str, timeout_s: u32, metadata: &str) {
    let body = format!(r#"{{"resource":"{resource}","timeout":{timeout_s},"metadata":"{metadata}"}}"#);
    client.call("POST", "/v1/claims/", &body).unwrap().expect(201);
}

/// Runs `act` while callers call one after the other, and returns when they were answered, in order.
fn under_load<A, B>(server: &Server, act: impl FnOnce() -> (A, B)) -> (A, B, Vec<Instant>) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (mut client, is_over) = (server.client(), &is_over);
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    while !is_over.load(Ordering::Relaxed) {
                        // Each has a resource of its own, so that no caller has to wait for another.
                        claim(&mut client, &format!("load-{caller}-{}", acknowledged.len()), 1, "load");
                        acknowledged.push(Instant::now());
                    }
                    acknowledged
                })
            })
            .collect();
        let acted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        is_over.store(true, Ordering::Relaxed);
        let mut acknowledged: Vec<Instant> = callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        acknowledged.sort_unstable();
        let (one, other) = acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (one, other, acknowledged)
    })
}

fn copy_at(scratch: &Path, number: usize) -> std::path::PathBuf {
    scratch.join(format!("copy-{number}.db"))
}

fn back_up(data: &Path, scratch: &Path, number: usize) -> Range<Instant> {
    let began = Instant::now();
    done(&["backup", "--data", utf8(data), "--to", utf8(&copy_at(scratch, number))]);
    began..Instant::now()
}

/// The longest stretch of this time without an answer.
fn longest_gap(acknowledged: &[Instant], during: &Range<Instant>) -> Duration {
    let inside = acknowledged.iter().copied().filter(|at| during.contains(at));
    let mut last = during.start;
    inside.chain([during.end]).map(|at| at - std::mem::replace(&mut last, at)).max().expect("the end is one")
}
