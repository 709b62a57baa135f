//! The seams between the driver's threads and tasks, under thousands of schedules: callers, committer and pulse meet in
//! every order that shuttle comes up with (`crate::sync`). Driver, partition and engine are the real
//! ones, the store is in memory (`world`).
//!
//! Time stands still unless a test moves it, so nothing is rescued by a timer: a wake-up that is lost is a deadlock,
//! and shuttle reports it with the schedule that leads there. After each schedule,
//! * every caller was answered, with no change that was not durable, or had left and was forgotten;
//! * the held slots are those that callers were told of, and no claim waits;
//! * the journal, replayed, equals the engine.

mod world;

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use leasehold_journal::TICK_US;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, MaxSteps, Runner, thread};

use world::{Rig, StoreCall, Told};

/// A schedule longer than this goes round in circles.
const STEPS_MAX: usize = 100_000;
/// The same schedules every time.
const SEED: u64 = 0x5ea5;
/// Orders that differ from the usual one in this many places: most mistakes need two or three.
const PCT_DEPTH: usize = 3;

/// `LEASEHOLD_SCHEDULES` times as many schedules as usual.
fn times() -> usize {
    std::env::var("LEASEHOLD_SCHEDULES").map_or(1, |text| text.parse().expect("a number"))
}

/// Runs a story under `schedules` orders, half of them picked at random, half by priorities.
fn explore(name: &str, schedules: usize, story: fn()) {
    let schedules = schedules * times();
    let began = Instant::now();
    let random = RandomScheduler::new_from_seed(SEED, schedules / 2);
    let by_priority = PctScheduler::new_from_seed(SEED, PCT_DEPTH, schedules - schedules / 2);
    assert_eq!(run(random, story) + run(by_priority, story), schedules, "a run ended early");
    let took_s = began.elapsed().as_secs_f64();
    // Printed past the test harness, which swallows the output of a passing test.
    let _ = std::io::stderr().write_all(format!("seams: {name}: {schedules} schedules in {took_s:.1} s\n").as_bytes());
}

/// How many schedules were played to their end.
fn run(scheduler: impl Scheduler + 'static, story: fn()) -> usize {
    let mut config = Config::new();
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.silence_warnings = true;
    let played = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&played);
    Runner::new(scheduler, config).run(move || {
        story();
        counted.fetch_add(1, Ordering::Relaxed);
    });
    usize::try_from(played.load(Ordering::Relaxed)).expect("it was counted in usize")
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().expect("no caller panics");
    }
}

/// A slot goes from its holder to one of two waiters, one of whom may leave at any moment: before it is parked, while
/// it is, while the grant is being written, while the answer is on its way.
#[test]
fn a_waiter_that_leaves_around_its_grant_leaves_no_slot_behind() {
    explore("wake-up against cancel", 6_000, || {
        let world = Rig::new(1);
        let holder = world.caller(1);
        let held = holder.borrow_now();
        let giving = thread::spawn(move || assert!(holder.give_back(held)));
        let leaving = [2, 4].map(|number| {
            let caller = world.caller(number);
            thread::spawn(move || {
                if let Told::Holds(claim) = caller.borrow_and_maybe_leave() {
                    assert!(caller.give_back(claim));
                }
            })
        });
        // This one stays, and gets the slot in every order there is.
        let staying = world.caller(3);
        let Told::Holds(claim) = staying.borrow_waiting() else { panic!("its turn did not come") };
        assert!(staying.give_back(claim));
        giving.join().expect("no caller panics");
        join(leaving);
        world.comes_to_rest(0);
    });
}

/// No caller gives anything back, so nothing but their leaving takes waiters out of the queue.
#[test]
fn a_waiter_that_leaves_is_out_of_the_queue() {
    explore("leaving a queue that does not move", 2_000, || {
        let world = Rig::new(1);
        let held = world.caller(1).borrow_now();
        let leaving = [2, 3].map(|number| {
            let caller = world.caller(number);
            thread::spawn(move || assert_eq!(caller.borrow_and_maybe_leave(), Told::Nothing))
        });
        join(leaving);
        world.still_holds(held);
        world.comes_to_rest(1);
    });
}

/// Two slots and four callers who come, leave, and give back as they like.
#[test]
fn leaving_against_granting_against_returning() {
    explore("leave against grant", 6_000, || {
        let world = Rig::new(2);
        let threads: Vec<_> = (1..=4)
            .map(|number| {
                let caller = world.caller(number);
                thread::spawn(move || {
                    for _ in 0..2 {
                        if let Told::Holds(claim) = caller.borrow_and_maybe_leave() {
                            assert!(caller.give_back(claim));
                        }
                    }
                })
            })
            .collect();
        join(threads);
        world.comes_to_rest(0);
    });
}

/// The same key from two callers at once: one lease, and it stays if either of them was told.
#[test]
fn two_callers_with_one_key_share_what_either_was_told() {
    explore("one key, two callers", 4_000, || {
        let world = Rig::new(1);
        let stays = thread::spawn({
            let caller = world.caller(1);
            move || caller.with_key("k").borrow_waiting()
        });
        let leaves = thread::spawn({
            let caller = world.caller(1);
            move || caller.with_key("k").borrow_and_maybe_leave()
        });
        let stayed = stays.join().expect("no caller panics");
        let left = leaves.join().expect("no caller panics");
        let Told::Holds(claim) = stayed else { panic!("the slot was free, but it was told {stayed:?}") };
        assert!(matches!(left, Told::Nothing) || left == stayed, "{left:?} and {stayed:?}");
        world.still_holds(claim);
        world.comes_to_rest(1);
    });
}

/// A dozen callers are answered together and ask again: the committer lets them go first, and writes for many at once.
#[test]
fn a_gathering_committer_answers_everybody() {
    const CALLERS: u64 = 13;
    static BATCHES: AtomicU64 = AtomicU64::new(0);
    const SCHEDULES: usize = 1_000;
    explore("group commit and gathering", SCHEDULES, || {
        let world = Rig::new(u32::try_from(CALLERS).expect("a few"));
        let threads: Vec<_> = (1..=CALLERS)
            .map(|number| {
                let caller = world.caller(number);
                thread::spawn(move || {
                    let claim = caller.borrow_now();
                    assert!(caller.give_back(claim));
                })
            })
            .collect();
        join(threads);
        BATCHES.fetch_add(world.turns(), Ordering::Relaxed);
        world.comes_to_rest(0);
    });
    let schedules = u64::try_from(SCHEDULES * times()).expect("a number of schedules");
    let each = BATCHES.load(Ordering::Relaxed) / schedules;
    assert!(each < CALLERS, "{each} appends for {CALLERS} callers who ask twice: nothing was gathered");
}

/// Closing down while callers come, wait and leave: all of them are answered, and every promised claim is in the
/// journal.
#[test]
fn closing_down_answers_everybody_and_keeps_what_was_promised() {
    explore("shutting down", 6_000, || {
        let world = Rig::new(1);
        let threads: Vec<_> = (1..=3)
            .map(|number| {
                let caller = world.caller(number);
                thread::spawn(
                    move || if number == 3 { caller.borrow_and_maybe_leave() } else { caller.borrow_waiting() },
                )
            })
            .collect();
        world.close();
        let told: Vec<Told> = threads.into_iter().map(|thread| thread.join().expect("no caller panics")).collect();
        let held: Vec<_> = told.iter().filter_map(Told::claim).collect();
        assert!(held.len() <= 1, "one slot and {told:?}");
        world.ends_with(&held);
    });
}

/// A waiter whose turn comes because a lease runs out: the pulse slept for longer than that, and has to be woken.
#[test]
fn a_deadline_that_comes_nearer_wakes_the_pulse() {
    explore("deadline against pulse", 2_000, || {
        let world = Rig::new(1);
        let clock = world.let_time_pass();
        let held = world.caller(1).with_ttl_us(10_000).borrow_now();
        let waiter = thread::spawn({
            let caller = world.caller(2);
            move || caller.borrow_waiting()
        });
        let Told::Holds(claim) = waiter.join().expect("no caller panics") else { panic!("its turn came") };
        assert_ne!(claim, held);
        clock.stop();
        world.still_holds(claim);
        world.comes_to_rest(1);
    });
}

/// A store that fails while callers wait: no caller is told a change that is not durable, and the failure is reported.
#[test]
fn a_store_that_fails_promises_nothing() {
    explore("a failing store", 4_000, || {
        let world = Rig::with_store_failing_after(1, 2);
        let threads: Vec<_> = (1..=3)
            .map(|number| {
                let caller = world.caller(number);
                // No thread answers these any more, so they leave by themselves.
                thread::spawn(move || caller.borrow_and_maybe_leave())
            })
            .collect();
        let told: Vec<Told> = threads.into_iter().map(|thread| thread.join().expect("no caller panics")).collect();
        world.failed_or_ends_with(&told.iter().filter_map(Told::claim).collect::<Vec<_>>());
    });
}

/// A store that hangs in any of its calls: a lease granted meanwhile is still held when its holder hears of it, however
/// short it is, and the pulse does not run in circles while it waits.
#[test]
fn a_store_that_hangs_wherever_it_does_is_charged_to_nobody() {
    explore("a hanging store", 1_400, || {
        let call = StoreCall::ALL[thread_rng().gen_range(0..StoreCall::ALL.len())];
        let world = Rig::with_store_hanging_in(1, call);
        while !world.is_hanging() {
            world.nudge();
            world.pass(TICK_US);
        }
        let borrower = thread::spawn({
            let caller = world.caller(1).with_ttl_us(1_000_000);
            move || caller.borrow_now()
        });
        for _ in 0..100 {
            world.pass(TICK_US);
        }
        world.hang_no_more();
        let claim = borrower.join().expect("no caller panics");
        world.still_holds(claim);
        world.comes_to_rest(1);
    });
}

/// With a journal and without: an answer that depends on nothing, such as the one to a malformed request, has a
/// position that is not before earlier answers, so that positions order answers.
#[test]
fn what_depends_on_nothing_is_placed_after_what_was_answered() {
    explore("places of answers", 1_000, || {
        let is_kept = thread_rng().gen_range(0..2) == 0;
        let world = if is_kept { Rig::new(2) } else { Rig::in_memory(2) };
        let threads: Vec<_> = (1..=2)
            .map(|number| {
                let caller = world.caller(number);
                thread::spawn(move || {
                    let claim = caller.borrow_now();
                    assert!(caller.give_back(claim));
                })
            })
            .collect();
        join(threads);
        world.ends();
    });
}
