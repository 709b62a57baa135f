//! A store that went back, on real stores: a snapshot of etcd that was saved under load and is put back, and a standby
//! of PostgreSQL that lags behind and is promoted. Nodes notice it and say so, and every token that is given out
//! afterwards is higher than all that were given out before on the same resource, also those that no server knows of
//! any more.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_testbed::{Etcd, Flow, Postgres, PostgresOptions};
use rustix::process::Signal;

use super::world::{Backing, NODES, World};
use crate::support::{Client, PATIENCE, gauge, leasehold, output_of, part_of_the_machine, random_uuid, report, until};

const POOLS: usize = 8;

/// Callers that borrow and give back all the time, and the tokens they got.
struct Load {
    pools: Vec<String>,
    /// The lowest and the highest token of each pool in the present time.
    tokens: Mutex<BTreeMap<usize, (u64, u64)>>,
    grants: AtomicUsize,
    is_over: AtomicBool,
}

impl Load {
    fn new(world: &World) -> Load {
        let pools: Vec<String> = (0..POOLS).map(|_| random_uuid()).collect();
        let mut client = Client::connect(world.addr(0)).unwrap();
        for pool in &pools {
            client.call("PUT", &format!("/l/{pool}"), "{\"count\":1000}").unwrap().expect(200);
        }
        Load { pools, tokens: Mutex::default(), grants: AtomicUsize::new(0), is_over: AtomicBool::new(false) }
    }

    /// Borrows from all pools in turn, at one node after the other, until it is over.
    fn run(&self, addresses: &[SocketAddr]) {
        let mut client = None;
        for nth in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let number = nth % POOLS;
            let caller = client.take().or_else(|| Client::connect(addresses[nth % addresses.len()]).ok());
            let Some(mut caller) = caller else { continue };
            let target = format!("/l/{}/borrow", self.pools[number]);
            if caller.send("POST", &target, &[("Content-Type", "application/json")], b"{\"ttl\":3600}").is_err() {
                continue;
            }
            let Ok(answer) = caller.receive_within(Duration::from_secs(10)) else { continue };
            if answer.status == 200 {
                let token = answer.number("token");
                let mut tokens = self.tokens.lock().unwrap();
                let (lowest, highest) = tokens.entry(number).or_insert((token, token));
                (*lowest, *highest) = ((*lowest).min(token), (*highest).max(token));
                drop(tokens);
                self.grants.fetch_add(1, Ordering::Relaxed);
                client = Some(caller);
            }
        }
    }

    /// Waits until every pool has had grants since the last look, and this many in all.
    fn goes_on(&self, grants: usize) {
        let before = self.grants.load(Ordering::Relaxed);
        until("callers get slots", PATIENCE * 2, || {
            let is_each = self.tokens.lock().unwrap().len() == POOLS;
            (is_each && self.grants.load(Ordering::Relaxed) >= before + grants).then_some(())
        });
    }

    /// Ends one time and begins another: the tokens so far.
    fn take(&self) -> BTreeMap<usize, (u64, u64)> {
        std::mem::take(&mut self.tokens.lock().unwrap())
    }
}

fn addresses(world: &World) -> Vec<SocketAddr> {
    (0..NODES).map(|n| world.addr(n)).collect()
}

/// Every pool's tokens of afterwards are above its tokens of before.
fn are_above(before: &BTreeMap<usize, (u64, u64)>, after: &BTreeMap<usize, (u64, u64)>) -> u64 {
    assert_eq!((before.len(), after.len()), (POOLS, POOLS));
    for (pool, (lowest, _)) in after {
        let (_, highest) = before[pool];
        assert!(*lowest > highest, "pool {pool}: token {lowest} after {highest} was given out");
    }
    after.values().map(|(lowest, _)| *lowest).min().unwrap()
}

/// Loads the cluster, lets `lose` take away what was acknowledged since `keep`, and looks at the tokens of afterwards.
fn loses(name: &str, mut world: World, keep: impl FnOnce(&mut World), lose: impl FnOnce(&mut World)) {
    let load = Load::new(&world);
    let addresses = addresses(&world);
    let gone = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3).map(|_| scope.spawn(|| load.run(&addresses))).collect();
        load.goes_on(50);
        keep(&mut world);
        load.take();
        load.goes_on(300);
        // The callers pause, so that an answer belongs to one side of the loss.
        load.is_over.store(true, Ordering::SeqCst);
        for caller in callers {
            caller.join().unwrap();
        }
        load.take()
    });
    lose(&mut world);
    load.is_over.store(false, Ordering::SeqCst);
    let after = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3).map(|_| scope.spawn(|| load.run(&addresses))).collect();
        load.goes_on(100);
        load.is_over.store(true, Ordering::SeqCst);
        for caller in callers {
            caller.join().unwrap();
        }
        load.take()
    });
    let first = are_above(&gone, &after);
    let noticed: u64 = (0..NODES)
        .map(|n| {
            let server = world.nodes[n].server.as_ref().unwrap();
            server.wait_for_line("the store went back to an earlier state");
            gauge(&mut server.client(), "leasehold_cluster_store_went_back_total")
        })
        .sum();
    assert!(noticed >= NODES as u64, "{noticed}");
    let last = gone.values().map(|(_, highest)| *highest).max().unwrap();
    report(format_args!(
        "cluster: {name} went back; tokens up to {last} were given out before, from {first} on after it"
    ));
}

#[test]
fn a_snapshot_of_etcd_that_is_put_back_under_running_nodes_is_noticed() {
    let _machine = part_of_the_machine();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("snapshot");
    let world = World::on(Backing::Etcd(Etcd::one()));
    loses("etcd", world, |world| world.etcd().save(0, &file), |world| world.etcd().go_back(&file));
}

#[test]
fn a_promoted_standby_that_lagged_behind_is_noticed() {
    let _machine = part_of_the_machine();
    let options = PostgresOptions { standbys: 1, ..PostgresOptions::default() };
    let world = World::on(Backing::Postgres(Postgres::start(options)));
    let cut_off = |world: &mut World| {
        let servers = world.postgres().servers();
        servers[1].replication.as_ref().unwrap().set_both(Flow::Stall);
    };
    let promote = |world: &mut World| {
        world.postgres().kill(0);
        world.postgres().promote(1);
    };
    loses("PostgreSQL", world, cut_off, promote);
}

/// Where every node has ended, too, no node can know: the operator says so before the first start.
#[test]
fn a_snapshot_that_is_put_back_while_no_node_runs_is_told_by_the_operator() {
    let _machine = part_of_the_machine();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("snapshot");
    let mut world = World::on(Backing::Etcd(Etcd::one()));
    let load = Load::new(&world);
    let borrow = |world: &World, pool: &str| {
        let mut client = Client::connect(world.addr(0)).unwrap();
        client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":3600}").unwrap().expect(200).number("token")
    };
    load.pools.iter().for_each(|pool| assert!(borrow(&world, pool) > 0));
    world.etcd().save(0, Path::new(&file));
    let lost: Vec<u64> = load.pools.iter().map(|pool| (0..5).map(|_| borrow(&world, pool)).max().unwrap()).collect();
    for n in 0..NODES {
        let (status, log) = world.nodes[n].server.take().unwrap().stop(Signal::TERM);
        assert!(status.success(), "{log}");
    }
    world.etcd().go_back(&file);
    let output = output_of(leasehold().args(["cluster", "restored", "--store", &world.address()]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("goes on in epoch"), "{said}");
    (0..NODES).for_each(|n| world.launch(n));
    world.settle();
    for (pool, lost) in load.pools.iter().zip(lost) {
        let token = borrow(&world, pool);
        assert!(token > lost, "token {token} after {lost} was given out");
    }
}
