//! Everything that a few callers, the store and time can do to one partition, in every order. `CALLERS_STATES` bounds
//! each walk.

use leasehold_sim::callers::Callers;
use leasehold_sim::scope::Walked;

fn states_max() -> usize {
    std::env::var("CALLERS_STATES").ok().and_then(|text| text.parse().ok()).unwrap_or(8_000)
}

fn walk(name: &str, scope: &Callers) {
    let walked = scope.walk();
    let Walked { states, steps, depth, is_complete } = walked;
    let extent = if is_complete { "to the end".to_owned() } else { format!("complete to depth {depth}") };
    println!("callers: {name}: {states} states, {steps} transitions, {extent}");
    assert!(is_complete || states >= states_max(), "the walk stopped early: {walked:?}");
    assert!(depth >= 5, "the walk is too shallow to mean anything: {walked:?}");
}

#[test]
fn three_callers_of_a_pool() {
    walk("a pool", &Callers::of_a_pool(states_max()));
}

#[test]
fn three_callers_of_a_pool_in_use() {
    walk("a pool in use", &Callers::of_a_pool_in_use(states_max()));
}

#[test]
fn three_callers_of_a_pool_in_memory() {
    walk("a pool in memory", &Callers::of_a_pool_in_memory(states_max()));
}

#[test]
fn three_callers_who_share_an_owner_and_two_a_key() {
    walk("one owner", &Callers::of_one_owner(states_max()));
}

#[test]
fn three_callers_of_a_lock_two_of_them_one_client() {
    walk("a lock", &Callers::of_a_lock(states_max()));
}

#[test]
fn three_callers_of_a_claimed_resource() {
    walk("a claimed resource", &Callers::of_a_claimed_resource(states_max()));
}
