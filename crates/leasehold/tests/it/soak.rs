//! A long life: mixed load with kills, and in the end memory, files and the journal are where they were. A few seconds
//! of it in an ordinary run; `LEASEHOLD_SOAK_SECONDS` asks for more, an hour in `make test-long`, and
//! `LEASEHOLD_SOAK_PAUSE_MS` for workers that rest between two things they do, where the machine has other work, too.
//!
//! The load comes in stretches, and after each of them the service comes to rest: no caller holds, waits or listens,
//! and ended claims are forgotten. Rest is always the same state, so any difference between two rests was left behind.
//! During the first half the process is killed in every stretch; data that survives that is on disk. The second half is
//! one process, and its base is its first rest, when it has done everything once and its buffers and allocator have
//! grown to their size.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Client, Launch, PATIENCE, Server, gauge, machine_to_itself, random_uuid, report, until};

const WORKERS: usize = 12;
const POOLS: usize = 4;
/// Stretches of load at least this many, and none longer than a minute.
const STRETCHES_MIN: u32 = 6;
const STRETCH_MAX: Duration = Duration::from_mins(1);
/// From one kill to the next, in long stretches.
const KILL_EVERY: Duration = Duration::from_secs(5);
/// Claims carry as much as this, so that a long run gets through several checkpoints of the journal.
const METADATA_MAX: usize = 8_000;

/// The journal is cut once it is 64 MiB long.
const CHECKPOINT_BYTES: u64 = 64 * 1024 * 1024;
/// Before that, while the checkpoint is written, and until its pages are used
/// again, it takes up more, but never as much as this.
const DISK_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The allowed difference of memory: a part of it, for the allocator's reserve, and a few pages.
const MEMORY_SLACK_KIB: u64 = 8 * 1024;
/// Sockets that are just being closed.
const FILES_SLACK: usize = 3;

#[test]
fn a_long_life_leaves_nothing_behind() {
    let _machine = machine_to_itself();
    let total = Duration::from_secs(number_from("LEASEHOLD_SOAK_SECONDS").unwrap_or(6));
    let stretch = (total / STRETCHES_MIN).min(STRETCH_MAX);
    let directory = tempfile::tempdir().unwrap();
    let soak = Soak::start(
        directory.path(),
        number_from("LEASEHOLD_SOAK_PAUSE_MS").map_or(Duration::ZERO, Duration::from_millis),
    );
    let began = Instant::now();
    while began.elapsed() < total / 2 {
        soak.load(stretch, Kills::Many);
        soak.rest();
    }
    let mut rests = Vec::new();
    while began.elapsed() < total || rests.len() < 2 {
        soak.load(stretch, Kills::None);
        rests.push(soak.rest());
    }
    soak.report_and_check(&rests, began.elapsed());
    // And all of it can be read again.
    let (status, _) = soak.server.into_inner().unwrap().stop(Signal::TERM);
    assert!(status.success(), "{status}");
    let server = launch(directory.path()).start();
    is_at_rest(&mut server.client());
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kills {
    Many,
    None,
}

/// The resources of the service at rest.
#[derive(Clone, Copy, Debug)]
struct Rest {
    memory_kib: u64,
    files: usize,
    disk_bytes: u64,
}

struct Soak<'a> {
    directory: &'a Path,
    /// Between two things a worker does.
    pause: Duration,
    server: Mutex<Server>,
    pools: Vec<String>,
    answers: AtomicU64,
    broken: AtomicU64,
    kills: AtomicU64,
    checkpoints: AtomicU64,
    written_bytes: AtomicU64,
    disk_most_bytes: AtomicU64,
}

fn launch(directory: &Path) -> Launch {
    // Nothing lives long, so that rest comes soon.
    let mut launch = Launch::on(directory).arg("--log-level").arg("warn,leasehold=info");
    for (flag, value) in
        [("--ttl-max", "1s"), ("--default-ttl", "1s"), ("--grace", "100ms"), ("--retain-finished", "1s")]
    {
        launch = launch.arg(flag).arg(value);
    }
    launch
}

impl<'a> Soak<'a> {
    fn start(directory: &'a Path, pause: Duration) -> Soak<'a> {
        let server = launch(directory).start();
        let pools: Vec<String> = (0..POOLS).map(|_| format!("/l/{}", random_uuid())).collect();
        for (number, pool) in pools.iter().enumerate() {
            server.client().call("PUT", pool, &format!("{{\"count\":{}}}", 1 + number * 3)).unwrap().expect(200);
        }
        let zero = AtomicU64::default;
        let (answers, broken, kills, checkpoints) = (zero(), zero(), zero(), zero());
        let (written_bytes, disk_most_bytes) = (zero(), zero());
        let server = Mutex::new(server);
        Soak { directory, pause, server, pools, answers, broken, kills, checkpoints, written_bytes, disk_most_bytes }
    }

    fn addr(&self) -> SocketAddr {
        self.server.lock().unwrap().addr
    }

    /// Lets the workers loose for this long.
    fn load(&self, stretch: Duration, kills: Kills) {
        let is_over = AtomicBool::new(false);
        let ends_at = Instant::now() + stretch;
        std::thread::scope(|scope| {
            for number in 0..WORKERS {
                let is_over = &is_over;
                scope.spawn(move || self.work(number, is_over));
            }
            while Instant::now() < ends_at {
                let left = ends_at.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(KILL_EVERY).mul_f64(0.9) + Duration::from_millis(20));
                if kills == Kills::Many {
                    self.kill();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    fn kill(&self) {
        let mut server = self.server.lock().unwrap();
        self.note_written(&server);
        // There is always one in there; the old one goes when it is dropped.
        server.signal(Signal::KILL);
        server.wait();
        *server = launch(self.directory).start();
        self.kills.fetch_add(1, Ordering::Relaxed);
    }

    /// The counter and the log are the process's own, so they are asked before that ends.
    fn note_written(&self, server: &Server) {
        let written = gauge(&mut server.client(), "leasehold_journal_bytes_total");
        self.written_bytes.fetch_add(written, Ordering::Relaxed);
        let checkpoints = server.log().matches("checkpoint written").count();
        self.checkpoints.fetch_add(checkpoints as u64, Ordering::Relaxed);
    }

    /// Makes random calls. Connections break, answers are refusals: all that counts is that it goes on.
    fn work(&self, number: usize, is_over: &AtomicBool) {
        while !is_over.load(Ordering::Relaxed) {
            let Ok(mut client) = Client::connect(self.addr()) else { continue };
            while !is_over.load(Ordering::Relaxed) {
                if rand::random_ratio(1, 50) {
                    self.leave_while_waiting(number);
                }
                if self.step(&mut client, number).is_err() {
                    self.broken.fetch_add(1, Ordering::Relaxed);
                    break;
                }
                self.answers.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(self.pause);
            }
        }
    }

    fn step(&self, client: &mut Client, number: usize) -> std::io::Result<()> {
        let pool = &self.pools[rand::random_range(0..POOLS)];
        match rand::random_range(0..12) {
            0..5 => {
                let body = format!("{{\"ttl\":{},\"wait\":0.05}}", rand::random_range(0.05..1.0));
                let key = random_uuid();
                let headers = [("idempotency-key", key.as_str())];
                let borrowed = client.call_with("POST", &format!("{pool}/borrow"), &headers, body.as_bytes())?;
                // Now and then it is forgotten, and runs out.
                if borrowed.status == 200 && rand::random_ratio(9, 10) {
                    let lease = borrowed.text("lease");
                    let renewal = format!("{{\"lease\":\"{lease}\",\"ttl\":1}}");
                    client.call("POST", &format!("{pool}/renew"), &renewal)?;
                    client.call("POST", &format!("{pool}/return"), &format!("{{\"lease\":\"{lease}\"}}"))?;
                }
            }
            5..7 => {
                let lock = format!("/lock?job=job-{}&client=worker-{number}", rand::random_range(0..5));
                client.call("POST", &format!("{lock}&ttl=300ms&wait=20ms"), "")?;
                client.call("DELETE", &lock, "")?;
            }
            7..10 => {
                let resource = format!("resource-{}", rand::random_range(0..8));
                let metadata = "m".repeat(rand::random_range(0..METADATA_MAX));
                let body = format!("{{\"resource\":\"{resource}\",\"timeout\":0.5,\"metadata\":\"{metadata}\"}}");
                let made = client.call("POST", "/v1/claims/", &body)?;
                if made.status < 300 {
                    let claim = format!("/v1/claims/{}", made.text("id"));
                    client.call("GET", &format!("{claim}?wait=0.01"), "")?;
                    client.call("PATCH", &claim, "{\"status\":\"revoked\"}")?;
                }
            }
            10 => {
                client.call("GET", "/v1/claims/?limit=20", "")?;
                client.call("GET", pool, "")?;
            }
            _ => {
                client.call("POST", &format!("{pool}/borrow"), "{\"ttl\":")?;
                client.call("GET", "/nowhere", "")?;
            }
        }
        Ok(())
    }

    /// A connection of its own, gone before there is an answer.
    fn leave_while_waiting(&self, number: usize) {
        let Ok(mut client) = Client::connect(self.addr()) else { return };
        let target = if number.is_multiple_of(2) {
            format!("{}/borrow", self.pools[0])
        } else {
            format!("/lock?job=job-0&client=gone-{number}&wait=30s")
        };
        let _ = client.send("POST", &target, &[], b"{\"ttl\":1,\"wait\":30}");
    }

    /// Waits until the service is at rest, and measures it.
    fn rest(&self) -> Rest {
        let server = self.server.lock().unwrap();
        let mut client = server.client();
        is_at_rest(&mut client);
        let disk_bytes = disk_bytes(self.directory);
        self.disk_most_bytes.fetch_max(disk_bytes, Ordering::Relaxed);
        let files = until("the workers' connections are gone", PATIENCE, || {
            let files = open_files(&server);
            (files < WORKERS + 60).then_some(files)
        });
        Rest { memory_kib: server.resident_kib().unwrap_or(0), files, disk_bytes }
    }

    fn report_and_check(&self, rests: &[Rest], took: Duration) {
        self.note_written(&self.server.lock().unwrap());
        let (base, end) = (rests[0], rests[rests.len() - 1]);
        let mib = |bytes: u64| bytes / (1024 * 1024);
        let written = self.written_bytes.load(Ordering::Relaxed);
        let disk_most = self.disk_most_bytes.load(Ordering::Relaxed);
        report(format_args!(
            "soak: {:.0} s, {} kills, {} answers, {} broken connections, {} MiB written, {} checkpoints; memory {} to {} KiB, open files {} to \
             {}, on disk {} MiB in the end and {} MiB at most, over {} rests",
            took.as_secs_f64(),
            self.kills.load(Ordering::Relaxed),
            self.answers.load(Ordering::Relaxed),
            self.broken.load(Ordering::Relaxed),
            mib(written),
            self.checkpoints.load(Ordering::Relaxed),
            base.memory_kib,
            end.memory_kib,
            base.files,
            end.files,
            mib(end.disk_bytes),
            mib(disk_most),
            rests.len(),
        ));
        assert!(end.memory_kib <= base.memory_kib * 5 / 4 + MEMORY_SLACK_KIB, "memory grew: {rests:?}");
        assert!(end.files <= base.files + FILES_SLACK, "files were left open: {rests:?}");
        let enough = written > 3 * CHECKPOINT_BYTES;
        assert!(!enough || self.checkpoints.load(Ordering::Relaxed) > 0, "the journal is never cut");
        assert!(disk_most <= DISK_MAX_BYTES, "{} MiB on disk, {} MiB were written", mib(disk_most), mib(written));
    }
}

/// No caller holds, waits or listens, and ended claims are forgotten.
fn is_at_rest(client: &mut Client) {
    let names = ["holders", "waiters", "retained_claims", "parked_callers", "held_answers"];
    until("the service comes to rest", PATIENCE, || {
        let busy = names.iter().any(|name| gauge(client, &format!("leasehold_{name}")) > 0);
        (!busy && gauge(client, "leasehold_resources") == POOLS as u64).then_some(())
    });
}

fn disk_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap();
    files.map(|file| file.unwrap().metadata().map_or(0, |metadata| metadata.len())).sum()
}

fn open_files(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).map_or(0, Iterator::count)
}
