//! Worlds by seed. `SIM_SEEDS` says how many; from 2 000 on every rare event must have happened.

use leasehold_sim::World;
use leasehold_sim::plan::Cuts;
use leasehold_sim::run::run_seeds;

fn seeds() -> u64 {
    std::env::var("SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

#[test]
fn the_same_seed_twice_is_the_same_byte_for_byte() {
    for seed in 0..12 {
        let [first, second] = [(); 2].map(|()| World::run(seed, &Cuts::default(), true));
        assert!(!first.story.is_empty());
        assert!(first.story == second.story, "seed {seed} told two stories");
        assert_eq!(first.digest, second.digest, "seed {seed}");
    }
}

#[test]
fn nothing_breaks_and_everything_rare_happens() {
    let (totals, failure) = run_seeds(0..seeds(), |_| {});
    println!("{}", totals.summary());
    if let Some(failure) = failure {
        panic!("seed {} broke {}\nshow it with: {}", failure.seed, failure.violation, failure.command());
    }
    if totals.seeds >= 2_000 {
        assert!(totals.rare.missed().is_empty(), "never happened: {:?}", totals.rare.missed());
        assert!(totals.faults.total() >= 200_000, "only {} faults", totals.faults.total());
    }
}
