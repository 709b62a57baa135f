//! Every state in which a crash can leave the files of the SQLite store, as far as there is time: the store is used
//! under `strace` (`trace`, `workload`), what it did is played into a disk that keeps only what was synced (`disk`),
//! and after each step any part of what was on its way is kept (`subsets`). The result is opened as the service would
//! (`check`): every acknowledged batch is there, no batch that was never written is, and the store is never refused.
//!
//! Recovery writes as well, so crashes in the middle of it are played too: the result of one crash is opened under
//! `strace` again, three crashes deep. `LEASEHOLD_CRASH_STATES` asks for more than the usual number of states.

mod check;
mod disk;
mod recording;
mod subsets;
mod trace;
mod workload;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use self::check::check;
use self::disk::{Disk, Image};
use self::recording::{Content, Recording};
use self::subsets::Random;
use self::workload::Role;
use crate::sqlite::scratch;

const STATES: usize = 100_000;
/// The shares of the states, in hundredths: of the first crash, of a crash while recovering from it, and so on.
const SHARES: [usize; 3] = [60, 25, 15];
/// How many images of one crash are taken on to the next.
const TAKEN_ON: usize = 40;
const THREADS: usize = 2;
const RANDOM_A_PASS: usize = 12;

/// The same test in two roles: the traced process is this one started again with these set.
const ROLE: &str = "LEASEHOLD_CRASH_ROLE";
const DIRECTORIES: &str = "LEASEHOLD_CRASH_DIRECTORIES";

#[test]
fn every_crash_state_has_what_was_acknowledged() {
    if let Ok(role) = std::env::var(ROLE) {
        let directories = std::env::var_os(DIRECTORIES).unwrap();
        return std::env::split_paths(&directories).for_each(|directory| Role::play(&role, &directory));
    }
    let states = std::env::var("LEASEHOLD_CRASH_STATES").map_or(STATES, |text| text.parse().unwrap());
    let began = Instant::now();
    let mut recordings = record(Role::Grow, vec![Start::default(), Start::default()]);
    let mut totals = Totals::default();
    for (depth, share) in SHARES.into_iter().enumerate() {
        let explored = explore(&recordings, states * share / 100, depth as u64);
        totals.add(&explored.totals);
        if depth + 1 < SHARES.len() {
            recordings = record(Role::Again, pick(explored.starts));
        }
    }
    let Totals { states, steps, syncs, torn, ahead, .. } = totals;
    let line = format!(
        "crash states: {states} of {steps} writes, cuts, names and syncs ({syncs}), {} crashes deep; {torn} with a torn \
         tail, {ahead} with what was under way, none lost, none refused, {:.0} s\n",
        SHARES.len(),
        began.elapsed().as_secs_f64(),
    );
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    assert!(torn > 0 && ahead > 0);
}

/// The directory's name was not synced, so it could be gone with everything in it; and the journal with which SQLite
/// makes a database could come back after the log had begun, which undid the switch to the log: "database is locked".
#[test]
fn a_new_database_is_there_with_its_name_before_anything_is_acknowledged() {
    explore(&record(Role::Begin, vec![Start::default()]), 0, 0);
}

/// A crash kept the end of a transaction but not its beginning. While that was recovered from, another one tore the
/// write that raises the epoch, which goes where the lost beginning was: with the end of the other transaction still
/// behind it, it looked like damage in the middle, and was refused.
#[test]
fn a_crash_while_recovering_from_a_torn_tail_is_recovered_from_too() {
    let recording = record(Role::Begin, vec![Start::default()]).remove(0);
    let mut disk = Disk::new(None);
    let mut torn = None;
    for (number, step) in recording.steps.iter().enumerate() {
        disk.take(number, step);
        let pieces = disk.pending();
        let mut steps: Vec<usize> = pieces.iter().map(|piece| piece.step).collect();
        steps.dedup();
        // The last transaction of several frames, each a write of its header and one of its page.
        if recording.expected[number].maybe.is_some() && steps.len() > 4 {
            let keep: Vec<bool> = pieces.iter().map(|piece| !steps[..2].contains(&piece.step)).collect();
            let content = Content::clone(&recording.expected[number].sure);
            torn = Some(Start { image: Some(disk.image(&pieces, &keep)), content });
        }
    }
    let explored = explore(&record(Role::Again, vec![torn.expect("a batch was of several pages")]), 0, 0);
    assert!(explored.totals.torn > 0);
}

/// The files that a traced process finds at its start.
#[derive(Clone, Debug, Default)]
struct Start {
    image: Option<Image>,
    content: Content,
}

/// Has a process work in a directory for each start, and tells what it did there.
fn record(role: Role, starts: Vec<Start>) -> Vec<Recording> {
    let root = scratch();
    // Names with the same number of digits and no mark of the system in them.
    let root_path = root.path().canonicalize().unwrap();
    let directories: Vec<PathBuf> = (0..starts.len()).map(|n| root_path.join(format!("{n}/data"))).collect();
    for (directory, start) in directories.iter().zip(&starts) {
        std::fs::create_dir(directory.parent().unwrap()).unwrap();
        if let Some(image) = &start.image {
            image.put(directory);
        }
    }
    let mut program = Command::new(std::env::current_exe().unwrap());
    program
        .args(["--exact", "crash::every_crash_state_has_what_was_acknowledged", "--nocapture"])
        .env(ROLE, role.name())
        .env(DIRECTORIES, std::env::join_paths(&directories).unwrap());
    let traced = trace::trace(&mut program, &root_path);
    let recordings = directories.iter().zip(starts);
    recordings.map(|(path, start)| Recording::new(&traced, path, start.image, start.content)).collect()
}

#[derive(Clone, Debug, Default)]
struct Totals {
    states: usize,
    steps: usize,
    syncs: usize,
    torn: usize,
    ahead: usize,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        let Totals { states, steps, syncs, torn, ahead } = other;
        self.states += states;
        self.steps += steps;
        self.syncs += syncs;
        self.torn += torn;
        self.ahead += ahead;
    }
}

#[derive(Debug, Default)]
struct Explored {
    totals: Totals,
    /// Some of the states, to go on from; those with a torn tail first.
    starts: [Vec<Start>; 2],
}

/// Tries different states until there were this many; those that are tried first in any case.
fn explore(recordings: &[Recording], states: usize, seed: u64) -> Explored {
    let tried = Mutex::new(HashSet::new());
    let is_over = AtomicBool::new(false);
    let explorers: Vec<Explored> = std::thread::scope(|scope| {
        let explorers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let mut explorer = Explorer {
                    thread,
                    tried: &tried,
                    directory: scratch(),
                    random: Random(seed << 32 | thread as u64),
                    explored: Explored::default(),
                };
                let is_over = &is_over;
                scope.spawn(move || {
                    for pass in 0..10_000 {
                        for (number, recording) in recordings.iter().enumerate() {
                            let is_enough = pass > 0 && explorer.tried.lock().unwrap().len() >= states;
                            if is_enough || is_over.load(Ordering::Relaxed) {
                                return explorer.explored;
                            }
                            explorer.walk(number, recording, pass);
                        }
                    }
                    panic!("there are less than {states} states");
                })
            })
            .collect();
        let joined = explorers.into_iter().map(|explorer| {
            let result = explorer.join();
            // When one found something, the other need not go on.
            is_over.store(true, Ordering::Relaxed);
            result
        });
        joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let mut explored = Explored::default();
    for Explored { totals, starts: [torn, whole] } in explorers {
        explored.totals.add(&totals);
        explored.starts[0].extend(torn);
        explored.starts[1].extend(whole);
    }
    explored.totals.steps = recordings.iter().map(|recording| recording.steps.len()).sum();
    let is_sync = |step: &&recording::Step| matches!(step.action, recording::FileCall::Sync(_));
    let steps = recordings.iter().flat_map(|recording| &recording.steps);
    explored.totals.syncs = steps.filter(is_sync).count();
    explored
}

/// One thread's share of the states.
struct Explorer<'a> {
    thread: usize,
    tried: &'a Mutex<HashSet<(usize, bool, u32)>>,
    directory: tempfile::TempDir,
    random: Random,
    explored: Explored,
}

impl Explorer<'_> {
    /// Crashes after every step of the recordings that belong to this thread.
    fn walk(&mut self, number: usize, recording: &Recording, pass: usize) {
        let mut disk = Disk::new(recording.start.as_ref());
        for (step_number, step) in recording.steps.iter().enumerate() {
            disk.take(step_number, step);
            if step_number % THREADS != self.thread {
                continue;
            }
            let pieces = disk.pending();
            let subsets = if pass == 0 {
                subsets::systematic(&pieces, step_number)
            } else {
                (0..RANDOM_A_PASS).map(|_| subsets::random(&pieces, &mut self.random)).collect()
            };
            for keep in subsets {
                let image = disk.image(&pieces, &keep);
                self.crash(&image, recording, step_number).unwrap_or_else(|what| {
                    let kept = keep_image(&image);
                    let lost: Vec<_> = pieces.iter().zip(&keep).filter(|(_, keep)| !**keep).map(|(p, _)| p).collect();
                    panic!(
                        "recording {number}, step {step_number} ({:.80}), lost {lost:?}: {what}; the files are in {}",
                        format!("{:?}", step.action),
                        kept.display()
                    )
                });
            }
        }
    }

    fn crash(&mut self, image: &Image, recording: &Recording, step: usize) -> Result<(), String> {
        let expected = &recording.expected[step];
        let hash = image.hash();
        // The same files are another state when more was acknowledged.
        let state = (std::ptr::from_ref(&*expected.sure).addr(), expected.maybe.is_some(), hash);
        if !self.tried.lock().unwrap().insert(state) {
            return Ok(());
        }
        let verdict = check(image, expected, self.directory.path())?;
        let Explored { totals, starts: [torn, whole] } = &mut self.explored;
        totals.states += 1;
        totals.torn += usize::from(verdict.is_torn);
        totals.ahead += usize::from(verdict.is_ahead);
        let (starts, one_in) = if verdict.is_torn { (torn, 23) } else { (whole, 101) };
        if hash.is_multiple_of(one_in) {
            starts.push(Start { image: Some(image.clone()), content: Content::clone(&verdict.content) });
        }
        Ok(())
    }
}

/// As many as are taken on, of both sorts, from all over the place.
fn pick(starts: [Vec<Start>; 2]) -> Vec<Start> {
    let some = |starts: Vec<Start>| {
        let every = starts.len().div_ceil(TAKEN_ON / 2).max(1);
        starts.into_iter().step_by(every).collect::<Vec<_>>()
    };
    starts.map(some).concat()
}

/// Keeps the files of a state that went wrong.
fn keep_image(image: &Image) -> PathBuf {
    let directory =
        tempfile::Builder::new().prefix("crash-").tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    image.put(directory.path());
    directory.keep()
}
