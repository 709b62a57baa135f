//! Many worlds: seeds one after another, totals at the end, a failing seed made small.

use std::fmt::Write as _;

use crate::Violation;
use crate::fault::{Fault, FaultCounts};
use crate::plan::{Cuts, Plan};
use crate::sometimes::{Rare, RareCounts};
use crate::world::{RunReport, World};

/// The totals of a run of seeds.
#[derive(Clone, Debug, Default)]
pub struct RunTotals {
    pub seeds: u64,
    pub steps: u64,
    pub faults: FaultCounts,
    pub rare: RareCounts,
    pub crashes: u64,
    pub recoveries: u64,
    pub answers: u64,
    pub changes: u64,
}

impl RunTotals {
    pub fn add(&mut self, outcome: &RunReport) {
        self.seeds += 1;
        self.steps += outcome.steps;
        self.faults.merge(&outcome.faults);
        self.rare.merge(&outcome.rare);
        self.crashes += outcome.crashes;
        self.recoveries += outcome.recoveries;
        self.answers += outcome.answers;
        self.changes += outcome.changes;
    }

    pub fn summary(&self) -> String {
        let RunTotals { seeds, steps, crashes, recoveries, answers, changes, .. } = self;
        let mut text = format!(
            "simulation: {seeds} seeds, {} faults, {crashes} crashes, {recoveries} recoveries, {steps} steps, {answers} \
             answers, {changes} changes, {} of {} rare events\n",
            self.faults.total(),
            Rare::ALL.len() - self.rare.missed().len(),
            Rare::ALL.len(),
        );
        let by_kind: Vec<String> =
            Fault::ALL.iter().map(|&fault| format!("{fault} {}", self.faults.of(fault))).collect();
        writeln!(text, "faults by kind: {}", by_kind.join(", ")).expect("a string takes it");
        text
    }
}

/// A seed that broke something, as small as it could be made.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    pub cuts: Cuts,
}

impl Failure {
    /// The command that shows it again.
    pub fn command(&self) -> String {
        let mut command = format!("cargo run -p leasehold-sim -- repro {}", self.seed);
        if !self.cuts.without.is_empty() {
            let names: Vec<&str> = self.cuts.without.iter().map(|fault| fault.name()).collect();
            write!(command, " --without {}", names.join(",")).expect("a string takes it");
        }
        if let Some(clients) = self.cuts.clients {
            write!(command, " --clients {clients}").expect("a string takes it");
        }
        if let Some(chaos_us) = self.cuts.chaos_us {
            write!(command, " --chaos-us {chaos_us}").expect("a string takes it");
        }
        command
    }
}

/// Runs seeds until one fails.
pub fn run_seeds(seeds: std::ops::Range<u64>, mut each: impl FnMut(u64)) -> (RunTotals, Option<Failure>) {
    let mut totals = RunTotals::default();
    for seed in seeds {
        let outcome = World::run(seed, &Cuts::default(), false);
        totals.add(&outcome);
        if let Some(violation) = outcome.violation {
            return (totals, Some(shrink(seed, violation)));
        }
        each(seed);
    }
    (totals, None)
}

/// Removes every part that is not needed to break the same invariant: kinds of faults, clients, time.
pub fn shrink(seed: u64, violation: Violation) -> Failure {
    let mut smallest = Failure { seed, violation, cuts: Cuts::default() };
    let try_cuts = |smallest: &mut Failure, cuts: Cuts| {
        let found = World::run(seed, &cuts, false).violation;
        if let Some(violation) = found.filter(|found| found.invariant == smallest.violation.invariant) {
            smallest.violation = violation;
            smallest.cuts = cuts;
        }
    };
    for &fault in &Plan::of(seed, &Cuts::default()).faults {
        let mut cuts = smallest.cuts.clone();
        cuts.without.insert(fault);
        try_cuts(&mut smallest, cuts);
    }
    for clients in 1..Plan::of(seed, &Cuts::default()).clients {
        let cuts = Cuts { clients: Some(clients), ..smallest.cuts.clone() };
        if smallest.cuts.clients.is_none() {
            try_cuts(&mut smallest, cuts);
        }
    }
    for _ in 0..6 {
        let chaos_us = Plan::of(seed, &smallest.cuts).chaos_us / 2;
        let cuts = Cuts { chaos_us: Some(chaos_us), ..smallest.cuts.clone() };
        try_cuts(&mut smallest, cuts);
    }
    smallest
}
