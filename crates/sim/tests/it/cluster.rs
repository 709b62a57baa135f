//! Worlds of several nodes, by seed. `SIM_CLUSTER_SEEDS` says how many.

use leasehold_sim::cluster::{ClusterWorld, run_seeds, summary};

fn seeds() -> u64 {
    std::env::var("SIM_CLUSTER_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(400)
}

#[test]
fn the_same_seed_twice_is_the_same() {
    for seed in 0..4 {
        let [first, second] = [(); 2].map(|()| ClusterWorld::run(seed, true));
        assert!(!first.story.is_empty() && first.story == second.story, "seed {seed} told two stories");
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
}

#[test]
fn nothing_breaks_and_everything_happens() {
    let (ran, counts, failure) = run_seeds(0..seeds());
    println!("{}", summary(ran, &counts));
    if let Some((seed, violation)) = failure {
        panic!("seed {seed} broke {violation}\nshow it with: cargo run -p leasehold-sim -- cluster {seed}");
    }
    if ran >= 400 {
        let never: Vec<_> = counts.all().into_iter().filter(|(_, count)| *count == 0).collect();
        assert!(never.is_empty(), "never happened: {never:?}");
    }
}

/// Every interleaving of three nodes that bury, take, append, confirm and let go, to the depth that fits.
#[test]
fn a_small_scope_of_ownership() {
    let states: usize = std::env::var("SIM_SCOPE_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(40_000);
    let walked = leasehold_sim::cluster::scope::walk(states);
    println!(
        "small scopes: ownership of three nodes: {} states, {} steps, depth {}",
        walked.states, walked.steps, walked.depth
    );
    assert!(walked.depth >= 5, "{walked:?}");
}

/// Every order of asking, delivering, losing, failing over and handing over, with two real nodes and at most two
/// faults.
#[test]
fn a_small_scope_of_relays() {
    let states: usize = std::env::var("SIM_RELAY_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(12_000);
    let walked = leasehold_sim::cluster::relays::walk(states);
    println!(
        "small scopes: relays and hand-back: {} states, {} steps, all of depth {} and less",
        walked.states,
        walked.steps,
        walked.depth.saturating_sub(1)
    );
    assert!(walked.depth >= 4, "{walked:?}");
}
