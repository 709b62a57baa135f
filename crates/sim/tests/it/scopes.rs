//! Every interleaving of a small world. `SCOPE_STATES` bounds the walk.

use leasehold_engine::ResourceKey;
use leasehold_sim::scope::{Scope, Walked};

fn states_max() -> usize {
    std::env::var("SCOPE_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(350_000)
}

fn walk(name: &str, resources: [ResourceKey; 2]) {
    let walked = Scope { resources, depth: 30, states_max: states_max() }.walk();
    let Walked { states, steps, depth, is_complete } = walked;
    let extent = if is_complete { "to the end".to_owned() } else { format!("complete to depth {depth}") };
    println!("small scopes: {name}: {states} states, {steps} transitions, {extent}");
    assert!(walked.is_complete || walked.states >= states_max(), "the walk stopped early: {walked:?}");
    assert!(walked.depth >= 4, "the walk is too shallow to mean anything: {walked:?}");
}

#[test]
fn a_pool_and_a_lock() {
    walk("a pool and a lock", [ResourceKey::Pool(1), ResourceKey::Lock("l".into())]);
}

#[test]
fn a_pool_and_a_claimed_resource() {
    walk("a pool and a claimed resource", [ResourceKey::Pool(1), ResourceKey::Claim("r".into())]);
}

#[test]
fn two_locks() {
    walk("two locks", [ResourceKey::Lock("k".into()), ResourceKey::Lock("l".into())]);
}
