//! The suite for every shared store: on a server alone, and on one with a synchronous standby.

use std::time::Instant;

use leasehold_cluster::conformance;
use leasehold_postgres::PostgresStore;
use leasehold_testbed::Postgres;
use tokio::task::{LocalSet, spawn_local};

use super::common::address;

/// All at the same time, each in a schema of its own.
fn suite(hosts: &str) {
    let began_at = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut tests = Vec::new();
        for (name, test) in conformance::TESTS {
            let address = address(hosts, "");
            let run = test(Box::new(move || Box::new(PostgresStore::new(&address).unwrap())));
            tests.push((name, spawn_local(run)));
        }
        for (name, test) in tests {
            test.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    });
    println!("PostgreSQL store: {} tests of the contract in {:?}", conformance::TESTS.len(), began_at.elapsed());
}

#[test]
fn a_server_alone_keeps_the_contract() {
    suite(&Postgres::one().hosts());
}

#[test]
fn a_primary_with_a_synchronous_standby_keeps_the_contract_before_and_after_its_promotion() {
    let mut postgres = Postgres::with_standby();
    suite(&postgres.hosts());
    postgres.kill(0);
    postgres.promote(1);
    suite(&postgres.hosts());
}
