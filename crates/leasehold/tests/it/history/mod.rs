//! The answers to clients of the real binary can be true, whichever process is killed: several clients over the three
//! dialects, with timeouts, retries and connections they cut themselves, SIGKILL again and again, and every call
//! written down with when it was asked, when it was answered, what, and at which position. The whole history is then
//! searched for a world in which all of it happened (`leasehold_history::search`); a call without an answer may have
//! happened or not. The check uses nothing else of the service. `LEASEHOLD_KILLS` asks for more than the usual thirty.
//!
//! That the search can see is shown on the same history: falsified in many ways (`falsify`), it is rejected.

pub(crate) mod falsify;
pub(crate) mod player;
mod wire;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leasehold_history::{HeardAnswer, Kind, Op, Outcome, Rules, search};
use rustix::process::Signal;

use crate::support::{Launch, PATIENCE, Server, part_of_the_machine, random_uuid, report, until};
use player::Player;

const CLIENTS: usize = 8;
const KILLS: usize = 30;
/// Answers from one kill to the next.
const ANSWERS: std::ops::Range<u64> = 150..600;
const GRACE: Duration = Duration::from_millis(200);

/// The service as its clients find it.
#[derive(Debug)]
pub(crate) struct Service {
    began: Instant,
    /// Where its processes listen, each with how many there were before it.
    at: Mutex<Vec<(SocketAddr, usize)>>,
    /// How long a client waits for an answer: longer than a call waits.
    pub(crate) patience: Duration,
    /// One call in so many is cut by its client.
    pub(crate) calls_per_cut: u32,
    pub(crate) pools: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) jobs: Vec<String>,
    pub(crate) answers: AtomicU64,
    is_over: AtomicBool,
}

/// A call as it was written down, the process it was sent to, and the partition that answered.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) op: Op,
    pub(crate) life: usize,
    pub(crate) partition: Option<u32>,
}

impl Service {
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap()
    }

    /// A service with three of everything.
    pub(crate) fn new(patience: Duration, calls_per_cut: u32) -> Service {
        let named = |prefix: &str| (0..3).map(|number| format!("{prefix}-{number}")).collect();
        Service {
            began: Instant::now(),
            at: Mutex::default(),
            patience,
            calls_per_cut,
            pools: (0..3).map(|_| random_uuid()).collect(),
            resources: named("resource"),
            jobs: named("job"),
            answers: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Any of its processes; `None` while there is none.
    pub(crate) fn find(&self) -> Option<(SocketAddr, usize)> {
        let at = self.at.lock().unwrap();
        (!at.is_empty()).then(|| at[rand::random_range(0..at.len())])
    }

    /// Its processes listen here from now on.
    pub(crate) fn is_at(&self, at: Vec<(SocketAddr, usize)>) {
        *self.at.lock().unwrap() = at;
    }

    /// The clients are to end.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

#[test]
fn what_clients_hear_can_be_true_whatever_is_killed() {
    let _machine = part_of_the_machine();
    let kills: usize = std::env::var("LEASEHOLD_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let began = Instant::now();
    let directory = tempfile::tempdir().unwrap();
    let history = play(kills, || Launch::on(directory.path()));
    let played = began.elapsed();
    let rules = Rules { grace_us: u64::try_from(GRACE.as_micros()).unwrap(), ..Rules::default() };
    let searching = Instant::now();
    let searched = match search(&history, rules) {
        Ok(searched) => searched,
        Err(contradiction) => {
            let suspect = &history[contradiction.op];
            let file = std::env::temp_dir().join("leasehold-history.txt");
            std::fs::write(&file, about(&history, suspect)).unwrap();
            panic!("{contradiction}\n{suspect:?}\neverything about it is in {}", file.display());
        }
    };
    let by_kind = count_by_kind(&history);
    report(format_args!(
        "history: {} answers of the real binary ({} about pools, {} about claims, {} about locks) and {} calls of unknown \
         outcome, {CLIENTS} clients, {kills} kills, {:.0} s; {} worlds searched in {:.1} s, at most {} at once, all of it can \
         be true",
        searched.answered,
        by_kind[&Kind::Pool],
        by_kind[&Kind::Claim],
        by_kind[&Kind::Lock],
        searched.unknown,
        played.as_secs_f64(),
        searched.worlds,
        searching.elapsed().as_secs_f64(),
        searched.widest,
    ));
    assert!(searched.unknown >= kills, "hardly a kill hit a call: {}", searched.unknown);
    falsify::is_always_noticed(&history, rules);
}

/// Without a journal, positions order answers all the same: those that a look at the state went into, and those that
/// are given at the door.
#[test]
fn what_clients_hear_can_be_true_without_a_journal() {
    let _machine = part_of_the_machine();
    let history = play(0, || Launch::with(&["--listen", "127.0.0.1:0", "--memory"]));
    let rules = Rules { grace_us: u64::try_from(GRACE.as_micros()).unwrap(), ..Rules::default() };
    let searched = search(&history, rules).unwrap_or_else(|contradiction| panic!("{contradiction}"));
    let is_nonsense = |op: &&Op| matches!(op.outcome, Outcome::Answered { answer: HeardAnswer::Malformed, .. });
    let nonsense = history.iter().filter(is_nonsense).count();
    assert!(nonsense > 0, "of {} answers none was about nonsense", searched.answered);
    report(format_args!("history: {} answers without a journal, {nonsense} about nonsense", searched.answered));
}

/// Lets clients loose on a service that is killed so many times. Returns their records.
fn play(kills: usize, launch: impl Fn() -> Launch) -> Vec<Op> {
    let launch = || launch().arg("--grace").arg(format!("{}ms", GRACE.as_millis())).start();
    let mut server = launch();
    // Shorter than a process takes to come back.
    let service = Service::new(Duration::from_millis(400), 150);
    service.is_at(vec![(server.addr, 0)]);
    let mut gone_us = Vec::new();
    let (notes, server) = std::thread::scope(|scope| {
        let player = |number| Player::new(&service, number);
        let players: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || player(number).play())).collect();
        for life in 1..=kills {
            let enough = service.answers.load(Ordering::Relaxed) + rand::random_range(ANSWERS);
            until("the clients get answers", PATIENCE, || {
                (service.answers.load(Ordering::Relaxed) >= enough).then_some(())
            });
            server.kill();
            gone_us.push(service.now_us());
            server = launch();
            service.is_at(vec![(server.addr, life)]);
        }
        let enough = service.answers.load(Ordering::Relaxed) + ANSWERS.end;
        until("the clients get answers", PATIENCE, || {
            (service.answers.load(Ordering::Relaxed) >= enough).then_some(())
        });
        service.end();
        let notes: Vec<Noted> = players.into_iter().flat_map(|player| player.join().unwrap()).collect();
        (notes, server)
    });
    end(server);
    gone_us.push(service.now_us());
    notes.into_iter().map(|noted| noted.known_to_be_over(&gone_us)).collect()
}

fn end(server: Server) {
    let (status, log) = server.stop(Signal::TERM);
    assert!(status.success(), "{log}");
}

impl Noted {
    /// A call that a process did not answer has happened by the end of that process, or never.
    fn known_to_be_over(mut self, gone_us: &[u64]) -> Op {
        if let Outcome::Unknown { gone_us: end_us } = &mut self.op.outcome {
            *end_us = Some(gone_us[self.life]);
        }
        self.op
    }
}

fn count_by_kind(history: &[Op]) -> BTreeMap<Kind, usize> {
    let mut counts = BTreeMap::new();
    for op in history.iter().filter(|op| matches!(op.outcome, Outcome::Answered { .. })) {
        *counts.entry(op.call.kind()).or_default() += 1;
    }
    counts
}

/// All that was asked and heard of the same resource, in order, a line each. A test of the search reads it as it is.
pub(crate) fn about(history: &[Op], suspect: &Op) -> String {
    let same = |op: &&Op| (op.call.kind(), op.call.resource()) == (suspect.call.kind(), suspect.call.resource());
    let mut ops: Vec<&Op> = history.iter().filter(same).collect();
    ops.sort_by_key(|op| match &op.outcome {
        Outcome::Answered { stamp, .. } => (stamp.position, op.start_us),
        Outcome::Unknown { .. } => (0, op.start_us),
    });
    ops.into_iter().map(Op::to_string).collect::<Vec<_>>().join("\n")
}

/// The same of the seconds around it, for a log that is all that is left of a run.
pub(crate) fn around(history: &[Op], suspect: &Op) -> String {
    const AROUND_US: u64 = 6_000_000;
    let is_near = |op: &&Op| match op.outcome {
        Outcome::Answered { end_us, .. } => {
            end_us + AROUND_US >= suspect.start_us && op.start_us <= suspect.start_us + AROUND_US
        }
        Outcome::Unknown { gone_us } => {
            gone_us.is_none_or(|gone_us| gone_us >= suspect.start_us) && op.start_us <= suspect.start_us + AROUND_US
        }
    };
    about(&history.iter().filter(is_near).cloned().collect::<Vec<Op>>(), suspect)
}
