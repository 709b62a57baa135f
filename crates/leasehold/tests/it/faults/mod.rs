//! A disk that fails under the real binary. `strace` has a sync or a write of it fail (here), or the disk is really
//! full (`full_disk`): the process ends with its own exit code, or does not even start, acknowledges nothing that is
//! not there afterwards, and after a plain restart everything it did acknowledge is there. `LEASEHOLD_FAULTS` asks for
//! more than one round.

mod files;
mod full_disk;
mod hung_disk;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::kills::audit::{self, Audit};
use crate::kills::worker::{Pool, Worker};
use crate::kills::{WORKERS, world};
use crate::support::{Ended, Launch, PATIENCE, Server, part_of_the_machine, report};

/// The store failed while serving (`Exit::StoreFailed`).
const STORE_FAILED: i32 = 5;
/// It did not start (`Exit::Failed`).
const FAILED: i32 = 1;

/// More than any fault here takes to show.
const ANSWERS_MAX: u64 = 20_000;

/// `strace` counts the calls of each thread for itself, so small numbers meet the opening and greater ones the commits.
#[derive(Clone, Copy, Debug)]
struct Fault {
    calls: &'static str,
    error: &'static str,
    nth: u32,
}

#[test]
fn nothing_acknowledged_is_lost_when_a_sync_or_a_write_fails() {
    let _machine = part_of_the_machine();
    let began = Instant::now();
    let rounds: usize = std::env::var("LEASEHOLD_FAULTS").map_or(1, |text| text.parse().unwrap());
    let syncs = (1..=30).map(|nth| Fault { calls: "fsync,fdatasync", error: "EIO", nth });
    let writes = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89].map(|nth| Fault { calls: "pwrite64", error: "ENOSPC", nth });
    let faults: Vec<Fault> = syncs.chain(writes).collect();
    let mut tally = Tally::default();
    for _ in 0..rounds {
        under_load(&faults, &mut tally);
    }
    let Tally { while_starting, while_serving, answers, unknown } = tally;
    report(format_args!(
        "faults: {} failed syncs and writes ({while_serving} while serving, {while_starting} while starting), {answers} \
         answers, {unknown} requests of unknown outcome, nothing acknowledged lost, {:.0} s",
        while_serving + while_starting,
        began.elapsed().as_secs_f64(),
    ));
    assert!(while_serving >= 20 * rounds && while_starting > 0, "the faults did not meet what they were meant for");
}

/// One of them is the sync with which the database switches to its log. The database reports the failure only to a
/// caller that asks twice, and then goes on without a log, which this store relies on.
#[test]
fn a_sync_that_fails_while_a_database_is_made_is_noticed() {
    let _machine = part_of_the_machine();
    let (mut noticed, mut harmless) = (0, 0);
    for nth in 1..=14 {
        let fault = Fault { calls: "fsync,fdatasync", error: "EIO", nth };
        if is_noticed_while_making_a_database(fault) {
            noticed += 1;
        } else {
            harmless += 1;
        }
    }
    report(format_args!(
        "faults: {noticed} failed syncs while a database was made, noticed, and {harmless} of directories by SQLite, which \
         are made again"
    ));
    assert!(noticed >= 8, "{noticed}");
}

#[derive(Debug, Default)]
struct Tally {
    while_starting: usize,
    while_serving: usize,
    answers: u64,
    unknown: usize,
}

/// One fault after the other on the same data, each under the load of `kills`.
fn under_load(faults: &[Fault], tally: &mut Tally) {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let world = world();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(&world, number)).collect();
    let mut audit = Audit::new(&world);
    let server = Launch::on(&data).start();
    for Pool { id, count } in &world.pools {
        let put = server.client().call("PUT", &format!("/l/{id}"), &format!("{{\"count\":{count}}}"));
        put.unwrap().expect(200);
    }
    server.stop(Signal::TERM);
    for &fault in faults {
        match fault.start(&data, directory.path()) {
            Err(ended) => {
                fault.check_start_failed(&ended);
                tally.while_starting += 1;
            }
            Ok(server) => {
                load_until_it_ends(server, fault, &mut workers);
                tally.while_serving += 1;
            }
        }
        let server = Launch::on(&data).start();
        audit.after_restart(&mut server.client(), &mut workers);
        let (status, _) = server.stop(Signal::TERM);
        assert!(status.success(), "{status}");
    }
    audit::check_tokens(&workers);
    tally.answers += workers.iter().map(|worker| worker.answers).sum::<u64>();
    tally.unknown += audit.unknown;
}

/// The workers go on until the service does not, which must be soon.
fn load_until_it_ends(mut server: Server, fault: Fault, workers: &mut [Worker]) {
    let answers = AtomicU64::new(0);
    let addr = server.addr;
    std::thread::scope(|scope| {
        for worker in workers {
            let answers = &answers;
            scope.spawn(move || worker.run(addr, answers));
        }
        let deadline = Instant::now() + PATIENCE;
        let is_due = || answers.load(Ordering::Relaxed) > ANSWERS_MAX || Instant::now() > deadline;
        while server.is_alive() && !is_due() {
            std::thread::sleep(Duration::from_millis(1));
        }
        if server.is_alive() {
            // The workers would go on with it.
            server.signal(Signal::KILL);
        }
    });
    let status = server.wait();
    let log = server.whole_log();
    assert_eq!(status.code(), Some(STORE_FAILED), "{fault:?}: {log}");
    assert!(log.contains("nothing can be made durable any more"), "{fault:?}: {log}");
}

/// A fault while there is no database yet. Afterwards there can be one.
fn is_noticed_while_making_a_database(fault: Fault) -> bool {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let is_noticed = match fault.start(&data, directory.path()) {
        Err(ended) => {
            fault.check_start_failed(&ended);
            true
        }
        // SQLite syncs directories, too, and does not mind when that fails. We do it ourselves, and mind.
        Ok(server) => {
            let met = std::fs::read_to_string(report_of(directory.path())).unwrap();
            let mut injected = met.lines().filter(|line| line.contains("(INJECTED)"));
            let of_directory = format!("<{}>", data.display());
            assert!(injected.all(|line| line.contains(&of_directory)), "{fault:?} was passed over: {met}");
            server.kill();
            false
        }
    };
    let (status, log) = Launch::on(&data).start().stop(Signal::TERM);
    assert!(status.success(), "after {fault:?}: {status}, {log}");
    is_noticed
}

fn report_of(directory: &Path) -> PathBuf {
    directory.join("strace")
}

impl Fault {
    fn start(self, data: &Path, directory: &Path) -> Result<Server, Ended> {
        let Fault { calls, error, nth } = self;
        let trace = format!("trace={calls}");
        let inject = format!("inject={calls}:error={error}:when={nth}");
        Launch::on(data).under_strace(&["-e", &trace, "-e", &inject], &report_of(directory)).try_start()
    }

    fn check_start_failed(self, Ended { status, log }: &Ended) {
        assert_eq!(status.code(), Some(FAILED), "{self:?}: {log}");
        assert!(log.contains("failed: ") || log.contains("no room left in"), "{self:?}: {log}");
        assert!(!log.contains("damaged"), "{self:?}: {log}");
    }
}
