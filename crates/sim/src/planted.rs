//! Planted bugs: each is armed alone, and seeds are run until an invariant breaks. This shows that the simulation can
//! see.

use std::fmt::Write as _;

pub use leasehold_engine::planted::{Bug, arm};

use crate::Violation;
use crate::callers::Callers;
use crate::cluster::scope::Explored;
use crate::cluster::{ClusterWorld, relays, scope};
use crate::plan::Cuts;
use crate::world::World;

/// How a bug was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// After so many seeds; none, when it took the small scopes.
    pub seeds: u64,
    pub violation: Violation,
}

/// A bug by its name.
pub fn named(name: &str) -> Option<Bug> {
    Bug::ALL.iter().copied().find(|bug| format!("{bug:?}").eq_ignore_ascii_case(name))
}

/// Runs seeds with this bug until it shows; a bug that needs no world around it shows in the small scopes.
pub fn find(bug: Bug, seeds: u64) -> Option<Found> {
    arm(Some(bug));
    if bug.is_of_cluster() {
        let found = in_clusters(seeds).or_else(in_scopes_of_clusters);
        arm(None);
        return found;
    }
    let found = (0..seeds).find_map(|seed| {
        let violation = World::run(seed, &Cuts::default(), false).violation?;
        Some(Found { seeds: seed + 1, violation })
    });
    let found = found.or_else(in_small_scopes);
    arm(None);
    found
}

fn in_clusters(seeds: u64) -> Option<Found> {
    (0..seeds).find_map(|seed| {
        let violation = ClusterWorld::run(seed, false).violation?;
        Some(Found { seeds: seed + 1, violation })
    })
}

/// Walks the small scopes of ownership and of relays until one of them panics.
fn in_scopes_of_clusters() -> Option<Found> {
    const STATES_MAX: usize = 8_000;
    let walked = |walk: fn(usize) -> Explored| std::panic::catch_unwind(|| walk(STATES_MAX)).err();
    let panic = walked(scope::walk).or_else(|| walked(relays::walk))?;
    let what = crate::world::said_in_panic(panic.as_ref());
    Some(Found { seeds: 0, violation: Violation { invariant: "small scopes of clusters", what } })
}

/// Walks the small scopes of callers until one of them panics.
fn in_small_scopes() -> Option<Found> {
    const STATES_MAX: usize = 4_000;
    let scopes = Callers::all(STATES_MAX);
    let panic = scopes.iter().find_map(|scope| std::panic::catch_unwind(|| scope.walk()).err())?;
    let what = crate::world::said_in_panic(panic.as_ref());
    Some(Found { seeds: 0, violation: Violation { invariant: "small scopes", what } })
}

/// Finds every bug, or the one of this name; returns the report, and whether all were found.
pub fn find_all(seeds: u64, only: Option<&str>) -> (String, bool) {
    let mut report = String::new();
    let mut counts = Vec::new();
    let (mut found, mut missed) = (0, Vec::new());
    for &bug in Bug::ALL.iter().filter(|bug| only.is_none_or(|name| named(name) == Some(**bug))) {
        match find(bug, seeds) {
            Some(Found { seeds, violation }) => {
                let what: String = violation.what.chars().take(90).collect();
                let by = violation.invariant;
                writeln!(report, "{bug:?}: found after {seeds} seeds by {by} ({what})").expect("a string takes it");
                counts.extend(Some(seeds).filter(|seeds| *seeds > 0));
                found += 1;
            }
            None => missed.push(bug),
        }
    }
    counts.sort_unstable();
    let median = counts.get(counts.len() / 2).copied().unwrap_or(0);
    let (all, in_scopes) = (found + missed.len(), found - counts.len());
    let slowest = counts.last().copied().unwrap_or(0);
    writeln!(
        report,
        "planted bugs: {found} of {all} found, median {median} seeds, slowest {slowest}, {in_scopes} in the small scopes"
    )
    .expect("a string takes it");
    if !missed.is_empty() {
        writeln!(report, "not found within {seeds} seeds: {missed:?}").expect("a string takes it");
    }
    (report, missed.is_empty())
}
