//! SIGKILL under load, again and again on the same data: what was acknowledged is still there, what was given back
//! stays gone, and no token is ever given twice. `LEASEHOLD_KILLS` asks for more than the usual sixty.
//!
//! Sixteen workers, each with one connection and one request under way, note exactly what they were told (`worker`). A
//! kill leaves each of them with at most one request whose outcome is unknown. After the restart their notes are held
//! against the service, the unknown is settled, and then the numbers have to be exact (`audit`).

pub(crate) mod audit;
pub(crate) mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Launch, PATIENCE, Server, part_of_the_machine, random_uuid, report, until};
use audit::Audit;
use worker::{Pool, Rig, Worker};

pub(crate) const WORKERS: usize = 16;

#[test]
fn nothing_acknowledged_is_lost_by_kills_under_load() {
    let _machine = part_of_the_machine();
    let kills: usize = std::env::var("LEASEHOLD_KILLS").map_or(60, |text| text.parse().unwrap());
    let began = Instant::now();
    let directory = tempfile::tempdir().unwrap();
    let world = world();
    let mut workers: Vec<Worker> = (0..WORKERS).map(|number| Worker::new(&world, number)).collect();
    let mut audit = Audit::new(&world);
    let mut kills_at_start = 0;

    let mut server = Launch::on(directory.path()).start();
    let mut client = server.client();
    for Pool { id, count } in &world.pools {
        client.call("PUT", &format!("/l/{id}"), &format!("{{\"count\":{count}}}")).unwrap().expect(200);
    }
    for round in 0..kills {
        load_and_kill(server, &mut workers);
        if round % 4 == 3 {
            // Recovery can be killed as well.
            let after = Duration::from_micros(rand::random_range(0..60_000));
            Launch::on(directory.path()).start_and_kill(after);
            kills_at_start += 1;
        }
        server = Launch::on(directory.path()).start();
        audit.after_restart(&mut server.client(), &mut workers);
    }
    let (status, _) = server.stop(Signal::TERM);
    assert!(status.success(), "{status}");

    let grants = audit::check_tokens(&workers);
    report(format_args!(
        "kills: {kills} under load of {WORKERS} connections and {kills_at_start} while starting, {} answers, {} requests \
         of unknown outcome ({} had happened), {} leases, locks and claims looked up after restarts, {grants} tokens, {:.0} s",
        workers.iter().map(|worker| worker.answers).sum::<u64>(),
        audit.unknown,
        audit.unknown_had_happened,
        audit.looked_up,
        began.elapsed().as_secs_f64(),
    ));
    assert!(audit.unknown > 0, "no kill ever hit a request under way");
}

pub(crate) fn world() -> Rig {
    // Wide ones without waiters, and a narrow one with a queue.
    let pools = [200, 40, 3].map(|count| Pool { id: random_uuid(), count });
    let named = |prefix: &str| (0..6).map(|number| format!("{prefix}-{number}")).collect();
    Rig { pools: pools.into(), jobs: named("job"), resources: named("resource") }
}

/// Lets the workers loose and kills the server at a moment picked by how many answers they have got.
fn load_and_kill(server: Server, workers: &mut [Worker]) {
    let answers = AtomicU64::new(0);
    let is_killed = AtomicBool::new(false);
    let enough = rand::random_range(50..1_500);
    let addr = server.addr;
    std::thread::scope(|scope| {
        for worker in workers {
            let (answers, is_killed) = (&answers, &is_killed);
            scope.spawn(move || {
                let error = worker.run(addr, answers);
                assert!(is_killed.load(Ordering::SeqCst), "a connection broke before the kill: {error}");
            });
        }
        until("the workers get answers", PATIENCE, || (answers.load(Ordering::Relaxed) >= enough).then_some(()));
        is_killed.store(true, Ordering::SeqCst);
        server.kill();
    });
}
