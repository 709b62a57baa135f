//! Every planted bug is found within 500 seeds.

use leasehold_sim::planted::{Bug, find_all};

/// Finds every planted bug of a cluster, or every other one, and tells how.
fn finds_all(is_of_cluster: bool, at_least: usize) {
    let bugs: Vec<String> =
        Bug::ALL.iter().filter(|bug| bug.is_of_cluster() == is_of_cluster).map(|bug| format!("{bug:?}")).collect();
    assert!(bugs.len() >= at_least);
    let mut missed = Vec::new();
    for bug in &bugs {
        let (report, is_found) = find_all(500, Some(bug));
        print!("{}", report.lines().next().map(|line| format!("{line}\n")).unwrap_or_default());
        if !is_found {
            missed.push(bug);
        }
    }
    println!("planted bugs: {} of {} found", bugs.len() - missed.len(), bugs.len());
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_planted_bug_of_one_machine_is_found() {
    finds_all(false, 25);
}

#[test]
fn every_planted_bug_of_a_cluster_is_found() {
    finds_all(true, 38);
}
