//! The suite for every shared store: on one member, on three, and on three of which one is ended or stopped.

use std::time::Instant;

use leasehold_cluster::conformance;
use leasehold_etcd::EtcdStore;
use leasehold_testbed::Etcd;

use tokio::task::{LocalSet, spawn_local};

use super::common::address;

/// All at the same time, each under a prefix of its own.
fn suite(hosts: &str) {
    let began_at = Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut tests = Vec::new();
        for (name, test) in conformance::TESTS {
            let address = address(hosts, "");
            let run = test(Box::new(move || Box::new(EtcdStore::new(&address).unwrap())));
            tests.push((name, spawn_local(run)));
        }
        for (name, test) in tests {
            test.await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    });
    println!("{} tests: {:?}", conformance::TESTS.len(), began_at.elapsed());
}

#[test]
fn one_member_keeps_the_contract() {
    suite(&Etcd::one().hosts());
}

#[test]
fn three_members_keep_the_contract_whichever_of_them_is_away() {
    let mut etcd = Etcd::three();
    suite(&etcd.hosts());
    let follower = (etcd.leader() + 1) % 3;
    etcd.kill(follower);
    suite(&etcd.hosts());
    etcd.restart(follower);
    let leader = etcd.leader();
    etcd.stop(leader);
    suite(&etcd.hosts());
    etcd.wake(leader);
    println!("etcd store: {} tests of the contract on 1 and 3 members, 4 times", conformance::TESTS.len());
}
