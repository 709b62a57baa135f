//! The engine against a naive model of the same rules: random scripts, every answer and the whole state compared after
//! each step, the promises checked from the outside, and at the end of each case replay, snapshot and determinism.
//!
//! `MODEL_CASES` (3 000), `MODEL_STEPS` (200 a case on average) and `MODEL_SEED` (0) choose how much and which.
//! A failure shrinks to a short script, which proptest prints.

#[path = "model/naive.rs"]
mod naive;
#[path = "model/naive_bytes.rs"]
mod naive_bytes;
#[path = "model/naive_fittings.rs"]
mod naive_fittings;
#[path = "model/naive_rows.rs"]
mod naive_rows;
#[path = "model/naive_views.rs"]
mod naive_views;
#[path = "model/outside.rs"]
mod outside;
#[path = "model/script.rs"]
mod script;
#[path = "model/seen.rs"]
mod seen;

use std::cell::RefCell;
use std::panic;

use leasehold_engine::{
    Answer, Change, Command, Effect, Engine, Fact, Kind, Limits, Moment, Outbox, Retelling, Status, Time, Wall,
};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

use naive::Naive;
use outside::Outside;
use script::{Script, scripts};
use seen::Seen;

#[test]
fn the_engine_does_what_the_naive_model_does() {
    let (cases, steps) = (setting("MODEL_CASES", 3_000), setting("MODEL_STEPS", 200));
    let config = Config {
        cases: u32::try_from(cases).expect("MODEL_CASES fits 32 bits"),
        failure_persistence: None,
        max_shrink_iters: 50_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, rng(setting("MODEL_SEED", 0)));
    let steps = usize::try_from(steps).expect("MODEL_STEPS fits a usize");

    let seen = RefCell::new(Seen::default());
    // Shrinking fails on purpose, very often: a failure is told once, at the end.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = runner.run(&scripts(steps), |script| {
        seen.borrow_mut().count("cases");
        Rig::new(&script).run(&script, &mut seen.borrow_mut());
        Ok(())
    });
    panic::set_hook(hook);
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(why, script)) => panic!("{why}\n{}", told(&script)),
        Err(TestError::Abort(why)) => panic!("aborted: {why}"),
    }
    let seen = seen.into_inner();
    println!("{seen}");
    assert_eq!(seen.of("cases"), cases);
    // Short runs, such as one under a debugger, cannot meet everything.
    if cases >= 1_000 && steps >= 100 {
        seen.assert_all();
    }
}

/// The same seed draws the same scripts, on every machine.
fn rng(seed: u64) -> TestRng {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRng::from_seed(RngAlgorithm::ChaCha, &bytes)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("the MODEL_… settings are whole numbers"))
}

/// A script a line a step, to be read after a failure.
fn told(script: &Script) -> String {
    let steps: Vec<String> =
        script.steps.iter().map(|step| format!("  {:?}, then {:?}", step.advance, step.op)).collect();
    let Script { limits, snapshot_at, snapshot_budget, .. } = script;
    format!("{limits:?}\nsnapshot before step {snapshot_at}, by {snapshot_budget}\n{}", steps.join("\n"))
}

/// Everything that runs side by side in one case.
struct Rig {
    now: Moment,
    engine: Engine,
    model: Naive,
    outside: Outside,
    out: Outbox,
    /// Commands and answers, to be played again.
    asked: Vec<(Moment, bool, Option<Command>, Option<Answer>)>,
    /// The changes as the journal would have them.
    journal: Vec<(Moment, Change)>,
    /// The effects as they were told, and how many changes there were then.
    told: Vec<(usize, Effect)>,
    snapshot: Snapshot,
    /// The engine's facts after the last step.
    facts: Vec<Fact>,
}

#[derive(Default)]
struct Snapshot {
    /// When and where in the journal it began.
    began: Option<(Time, usize)>,
    /// The facts at that time.
    true_then: Vec<Fact>,
    is_complete: bool,
    facts: Vec<Fact>,
}

impl Rig {
    fn new(script: &Script) -> Self {
        Rig {
            now: Moment { at: Time(0), wall: Wall(1_000) },
            engine: Engine::new(script.limits.clone()),
            model: Naive::new(script.limits.clone()),
            outside: Outside::default(),
            out: Outbox::default(),
            asked: Vec::new(),
            journal: Vec::new(),
            told: Vec::new(),
            snapshot: Snapshot::default(),
            facts: Vec::new(),
        }
    }

    fn run(mut self, script: &Script, seen: &mut Seen) {
        let mut drawn = 0;
        for (nth, step) in script.steps.iter().enumerate() {
            seen.count("steps");
            if nth == script.snapshot_at {
                self.begin_snapshot();
            }
            self.advance(step.advance.from(self.now.at, self.model.next_due()), nth);
            let is_full = script.full.contains(&nth);
            self.engine.set_store_full(is_full);
            self.model.is_store_full = is_full;
            let command = step.op.command(&self.model, &mut drawn);
            self.step(command, seen);
            self.walk_snapshot(script.snapshot_budget, seen);
        }
        self.check_replay(&script.limits);
        self.check_snapshot(&script.limits);
        self.engine.set_store_full(false);
        self.model.is_store_full = false;
        for claim in self.model.attended.clone() {
            self.step(Some(Command::Attend { claim, is_attended: false }), seen);
        }
        self.drain(seen);
        self.check_replay(&script.limits);
        self.check_determinism(&script.limits);
    }

    /// The wall clock goes its own way, now and then backwards: no decision may depend on it.
    fn advance(&mut self, at: Time, nth: usize) {
        let is_set_back = nth % 13 == 12;
        self.now = Moment { at, wall: Wall(at.0 + if is_set_back { 500 } else { 1_000 }) };
    }

    fn step(&mut self, command: Option<Command>, seen: &mut Seen) {
        let now = self.now;
        let due = self.model.claims.iter().filter_map(naive_rows::due_at);
        let earliest = due.clone().min().filter(|&earliest| earliest <= now.at);
        if earliest.is_some_and(|earliest| due.filter(|&due| due == earliest).count() > 1) {
            seen.count("time: several due at one instant");
        }

        self.out.clear();
        let (ours, theirs) = if let Some(command) = command.clone() {
            self.engine.handle_time_before(now, &command, &mut self.out);
            let ours = self.engine.handle(now, command.clone(), &mut self.out);
            (Some(ours), Some(self.model.handle(now, command, &self.out.changes)))
        } else {
            self.engine.handle_time(now, &mut self.out);
            self.model.handle_time(now, &self.out.changes);
            (None, None)
        };
        assert_eq!(ours, theirs, "the answer to {command:?} at {now:?}");

        self.engine.check();
        let facts = self.engine.facts();
        assert_eq!(facts, self.model.facts(), "the state after {command:?} at {now:?}");
        let totals = self.engine.totals();
        let bytes = (self.model.bytes(), self.model.bytes_used());
        assert_eq!((totals.state_bytes, totals.state_bytes_used), bytes, "bytes after {command:?} at {now:?}");
        for change in &self.out.changes {
            self.outside.see(now, command.as_ref(), change);
            seen.change(change);
        }
        self.outside.check(&facts);
        self.check_deadline();
        self.check_parked();

        if command.is_none() {
            seen.time(&self.facts, &self.out.changes);
        }
        if let Some(command) = &command {
            seen.command(command, &self.facts, &self.out.changes);
        }
        if let Some(answer) = &ours {
            seen.answer(answer);
        }
        self.facts = facts;
        let base = self.journal.len();
        self.told.extend(self.out.effects.iter().map(|effect| (base + effect.nth as usize, effect.clone())));
        self.journal.extend(self.out.changes.iter().map(|change| (now, change.clone())));
        self.asked.push((now, self.model.is_store_full, command, ours));
    }

    /// L3: the engine may ask to be called early, never late.
    fn check_deadline(&self) {
        if let Some(due) = self.model.next_due() {
            let next = self.engine.next_deadline();
            assert!(next.is_some_and(|next| next <= due), "L3: {next:?} is late, something is due at {due:?}");
        }
    }

    /// Every parked caller hears what the model would tell it.
    fn check_parked(&self) {
        let now = self.now;
        for change in &self.out.changes {
            match change {
                Change::Granted { claim, .. } => {
                    let ours = self.engine.view_for_waiter(now, *claim);
                    let theirs = self.model.find(*claim).map(|at| self.model.view_for_waiter(now, at));
                    assert_eq!(ours, theirs, "the answer to the caller parked on {claim:?}");
                }
                Change::Claimed(claimed) => {
                    let ours = self.engine.refusal_for_waiter(now, &claimed.resource);
                    assert_eq!(ours, self.model.refusal_for_waiter(now, &claimed.resource));
                    let waits =
                        self.model.claims.iter().any(|row| row.claim == claimed.claim && row.status == Status::Waiting);
                    assert_eq!(self.engine.is_waiting(claimed.claim), waits);
                }
                _ => {}
            }
        }
    }

    /// The driver loop without any command: it comes to an end, and by then all that can end has ended (L3, L7).
    fn drain(&mut self, seen: &mut Seen) {
        for _ in 0..10_000 {
            let Some(due) = self.engine.next_deadline() else {
                let left = &self.model.claims;
                let waits_for_nothing =
                    |key| self.model.capacity(key) == 0 || self.model.standstill(self.now, key).is_some();
                assert!(
                    left.iter().all(|row| row.status == Status::Waiting && waits_for_nothing(&row.resource)),
                    "{left:?} are left"
                );
                assert!(left.iter().all(|row| row.resource.kind() == Kind::Claim), "callers do not wait for ever");
                return;
            };
            self.advance(due.max(self.now.at), 0);
            self.step(None, seen);
        }
        panic!("L3: something is always due and never done");
    }

    fn begin_snapshot(&mut self) {
        self.snapshot.true_then = self.engine.facts();
        self.engine.begin_snapshot();
        self.snapshot.began = Some((self.now.at, self.journal.len()));
    }

    fn walk_snapshot(&mut self, budget: usize, seen: &mut Seen) {
        if let (Some((_, position)), false) = (self.snapshot.began, self.snapshot.is_complete) {
            self.snapshot.is_complete = !self.engine.step_snapshot(budget, &mut self.snapshot.facts);
            if self.snapshot.is_complete && self.journal.len() > position + 1 {
                seen.count("snapshot: walked while things changed");
            }
        }
    }

    /// S15: the journal replayed is the state.
    fn check_replay(&self, limits: &Limits) {
        let mut fresh = Engine::new(limits.clone());
        let (mut retelling, mut retold) = (Retelling::default(), Vec::new());
        for (nth, (now, change)) in (1..).zip(&self.journal) {
            retelling.hear(&fresh, *now, change, nth, |nth, effect| retold.push((nth, effect)));
            fresh.apply(*now, change);
        }
        retelling.finish(&fresh, |nth, effect| retold.push((nth, effect)));
        fresh.check();
        assert_eq!(fresh.facts(), self.facts, "S15: replay");
        assert_eq!(fresh.totals().state_bytes, self.model.bytes(), "S15: the account of a replay");
        // Which change of its step it was is only known while the step is taken.
        retold.iter_mut().zip(&self.told).for_each(|((_, again), (_, then))| again.nth = then.nth);
        assert_eq!(retold, self.told, "the effects retold from the journal are those told then, each of its change");
    }

    /// S15: a snapshot equals the state where it began, and together with the later changes the state now, in whatever
    /// order its facts are taken in.
    fn check_snapshot(&mut self, limits: &Limits) {
        if self.snapshot.began.is_none() {
            self.begin_snapshot();
        }
        while !self.snapshot.is_complete {
            self.snapshot.is_complete = !self.engine.step_snapshot(7, &mut self.snapshot.facts);
        }
        let (at, position) = self.snapshot.began.expect("it was begun");
        let mut restored = Engine::new(limits.clone());
        self.snapshot.facts.drain(..).rev().for_each(|fact| restored.restore(fact));
        restored.finish_restore(at);
        restored.check();
        assert_eq!(restored.facts(), self.snapshot.true_then, "S15: the snapshot restored");
        self.journal[position..].iter().for_each(|(now, change)| restored.apply(*now, change));
        restored.check();
        assert_eq!(restored.facts(), self.facts, "S15: snapshot and tail");
        assert_eq!(restored.totals().state_bytes, self.model.bytes(), "S15: the account of a snapshot and tail");
    }

    /// The same commands at the same moments make the same changes and get the same answers.
    fn check_determinism(&self, limits: &Limits) {
        let mut again = Engine::new(limits.clone());
        let mut out = Outbox::default();
        for (now, is_full, command, answer) in &self.asked {
            again.set_store_full(*is_full);
            match command {
                Some(command) => {
                    again.handle_time_before(*now, command, &mut out);
                    assert_eq!(Some(again.handle(*now, command.clone(), &mut out)), *answer);
                }
                None => again.handle_time(*now, &mut out),
            }
        }
        assert!(out.changes.iter().eq(self.journal.iter().map(|(_, change)| change)), "the same once more");
    }
}
