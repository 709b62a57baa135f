//! Planted bugs: each is armed alone, and seeds are run until an invariant breaks. What this shows is that the
//! simulation can see.

use std::fmt::Write as _;

pub use leasehold_engine::planted::{Bug, arm};

use crate::Violation;
use crate::plan::Cuts;
use crate::world::World;

/// How a bug was found.
#[derive(Clone, Debug)]
pub struct Found {
    pub seeds: u64,
    pub violation: Violation,
}

/// A bug by its name.
pub fn named(name: &str) -> Option<Bug> {
    Bug::ALL.iter().copied().find(|bug| format!("{bug:?}").eq_ignore_ascii_case(name))
}

/// Runs seeds with this bug until it shows.
pub fn find(bug: Bug, seeds: u64) -> Option<Found> {
    arm(Some(bug));
    let found = (0..seeds).find_map(|seed| {
        let violation = World::run(seed, &Cuts::default(), false).violation?;
        Some(Found { seeds: seed + 1, violation })
    });
    arm(None);
    found
}

/// Finds every bug, or the one of this name; the report, and whether all were found.
pub fn find_all(seeds: u64, only: Option<&str>) -> (String, bool) {
    let mut report = String::new();
    let mut counts = Vec::new();
    let mut missed = Vec::new();
    for &bug in Bug::ALL.iter().filter(|bug| only.is_none_or(|name| named(name) == Some(**bug))) {
        match find(bug, seeds) {
            Some(Found { seeds, violation }) => {
                let what: String = violation.what.chars().take(90).collect();
                let by = violation.invariant;
                writeln!(report, "{bug:?}: found after {seeds} seeds by {by} ({what})").expect("a string takes it");
                counts.push(seeds);
            }
            None => missed.push(bug),
        }
    }
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or(0);
    writeln!(report, "planted bugs: {} of {} found, median {median} seeds", counts.len(), counts.len() + missed.len())
        .expect("a string takes it");
    if !missed.is_empty() {
        writeln!(report, "not found within {seeds} seeds: {missed:?}").expect("a string takes it");
    }
    (report, missed.is_empty())
}
