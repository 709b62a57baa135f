//! A cluster of real processes: three nodes on three etcd members, on PostgreSQL, or on one with a synchronous standby,
//! with every connection through a proxy, while nodes and servers of the store are killed, stopped and cut off. The
//! answers that clients heard from all nodes are searched for a world in which all of them are true, partition by
//! partition. `LEASEHOLD_CLUSTER_FAULTS` asks for more than the usual number on etcd, `LEASEHOLD_POSTGRES_FAULTS` on
//! PostgreSQL.

mod bad_input;
mod failover;
mod went_back;
mod world;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasehold_history::{Kind, Op, Outcome, Rules, search};
use leasehold_testbed::{Flow, Postgres, Way};
use rustix::process::Signal;

use crate::history::player::Player;
use crate::history::{Noted, Service};
use crate::support::{part_of_the_machine, report};
use world::{Backing, NODES, World};

const FAULTS: usize = 40;
/// A twentieth of them are nonsense, and prove nothing.
const OPERATIONS: u64 = 43_000;
/// For each fault on PostgreSQL.
const POSTGRES_OPERATIONS: u64 = 500;
const CLIENTS: usize = 8;
const GRACE_US: u64 = 200_000;
const HOUR_S: i64 = 3_600;
/// Longer than a request is sent again by itself.
const AWAY_LONG: Duration = Duration::from_secs(8);
/// Longer than a failover.
const CLIENT_PATIENCE: Duration = Duration::from_secs(4);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    NodeKilled,
    NodeStopped,
    NodeEnded,
    /// Of etcd.
    MemberKilled,
    MemberStopped,
    LeaderKilled,
    LeaderStopped,
    LeaderCut,
    LeaderOneWay,
    /// Of PostgreSQL.
    ServerKilled,
    ServerStopped,
    StandbyStopped,
    /// The primary is killed, and its standby is promoted. Once in a world.
    StandbyPromoted,
    LinksCut,
    LinksOneWay,
    StoreCut,
    StoreOneWay,
    RepliesLost,
    StoreAway,
    StoreAwayLong,
    ClockForward,
    ClockBack,
}

const ON_ETCD: [Fault; 18] = [
    Fault::NodeKilled,
    Fault::NodeStopped,
    Fault::NodeEnded,
    Fault::MemberKilled,
    Fault::MemberStopped,
    Fault::LeaderKilled,
    Fault::LeaderStopped,
    Fault::LeaderCut,
    Fault::LeaderOneWay,
    Fault::LinksCut,
    Fault::LinksOneWay,
    Fault::StoreCut,
    Fault::StoreOneWay,
    Fault::RepliesLost,
    Fault::StoreAway,
    Fault::StoreAwayLong,
    Fault::ClockForward,
    Fault::ClockBack,
];

const ON_POSTGRES: [Fault; 11] = [
    Fault::NodeKilled,
    Fault::NodeStopped,
    Fault::NodeEnded,
    Fault::ServerKilled,
    Fault::ServerStopped,
    Fault::LinksCut,
    Fault::LinksOneWay,
    Fault::StoreCut,
    Fault::StoreOneWay,
    Fault::RepliesLost,
    Fault::StoreAway,
];

/// While there is a standby; then the promotion, and whatever may happen to one server.
const WITH_STANDBY: [Fault; 4] =
    [Fault::StandbyStopped, Fault::RepliesLost, Fault::ServerStopped, Fault::StandbyPromoted];

/// The number of faults that a variable asks for, and no fewer than one of each kind.
fn asked(variable: &str, usual: usize, kinds: usize) -> usize {
    std::env::var(variable).map_or(usual, |text| text.parse().unwrap()).max(kinds)
}

/// Each kind once, then any.
fn each_then_any(kinds: &'static [Fault], faults: usize) -> impl Iterator<Item = Fault> {
    let any = std::iter::repeat_with(|| kinds[rand::random_range(0..kinds.len())]);
    kinds.iter().copied().chain(any).take(faults)
}

#[test]
fn what_clients_of_a_cluster_hear_can_be_true() {
    let _machine = part_of_the_machine();
    let faults = asked("LEASEHOLD_CLUSTER_FAULTS", FAULTS, ON_ETCD.len());
    play("three etcd members", World::start(), each_then_any(&ON_ETCD, faults), OPERATIONS / FAULTS as u64);
}

#[test]
fn what_clients_of_a_cluster_on_postgres_hear_can_be_true() {
    let _machine = part_of_the_machine();
    let faults = asked("LEASEHOLD_POSTGRES_FAULTS", ON_POSTGRES.len(), ON_POSTGRES.len());
    let world = World::on(Backing::Postgres(Postgres::one()));
    play("one PostgreSQL", world, each_then_any(&ON_POSTGRES, faults), POSTGRES_OPERATIONS);
}

/// Nothing that was acknowledged is lost when the primary dies in mid-load and its synchronous standby is promoted.
#[test]
fn what_clients_hear_through_the_promotion_of_a_standby_can_be_true() {
    let _machine = part_of_the_machine();
    let more = asked("LEASEHOLD_POSTGRES_FAULTS", 2, 2);
    let world = World::on(Backing::Postgres(Postgres::with_standby()));
    let any = std::iter::repeat_with(|| ON_POSTGRES[rand::random_range(0..ON_POSTGRES.len())]);
    play(
        "PostgreSQL with a synchronous standby",
        world,
        WITH_STANDBY.into_iter().chain(any.take(more)),
        POSTGRES_OPERATIONS,
    );
}

/// Strikes the world with these faults while clients play, at least so many answers for each.
fn play(place: &str, mut world: World, faults: impl Iterator<Item = Fault>, per_round: u64) {
    let began = Instant::now();
    let service = Service::new(CLIENT_PATIENCE, 2_000);
    service.is_at(world.addresses());
    let mut rounds_us = Vec::new();
    let mut struck = BTreeMap::<Fault, usize>::new();
    let notes: Vec<Noted> = std::thread::scope(|scope| {
        let player = |number| Player::new(&service, number);
        let players: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || player(number).play())).collect();
        for fault in faults {
            *struck.entry(fault).or_default() += 1;
            strike(&mut world, &service, fault);
            service.is_at(world.addresses());
            // Enough for calls of before to be over: those that were given up, too.
            let pause_ms = rand::random_range(1_000..2_500);
            sleep(Duration::from_millis(pause_ms));
            rounds_us.push(service.now_us());
        }
        while service.answers.load(Ordering::Relaxed) < per_round * rounds_us.len() as u64 {
            sleep(Duration::from_millis(50));
        }
        world.settle();
        service.end();
        players.into_iter().flat_map(|player| player.join().unwrap()).collect()
    });
    rounds_us.push(service.now_us());
    for n in 0..NODES {
        world.terminate(n);
    }
    let played = began.elapsed();
    judge(place, notes, &rounds_us, &struck, played);
}

fn strike(world: &mut World, service: &Service, fault: Fault) {
    let n = rand::random_range(0..NODES);
    let for_a_while = |from_ms: u64, to_ms: u64| sleep(Duration::from_millis(rand::random_range(from_ms..to_ms)));
    match fault {
        Fault::NodeKilled => {
            world.kill(n);
            service.is_at(world.addresses());
            for_a_while(500, 2_500);
            world.launch(n);
        }
        Fault::NodeEnded => {
            world.terminate(n);
            service.is_at(world.addresses());
            world.launch(n);
        }
        Fault::NodeStopped => {
            world.signal(n, Signal::STOP);
            for_a_while(500, 5_000);
            world.signal(n, Signal::CONT);
        }
        Fault::MemberKilled => {
            let member = rand::random_range(0..3);
            world.etcd().kill(member);
            for_a_while(200, 1_500);
            world.etcd().restart(member);
        }
        Fault::MemberStopped => {
            let leader = world.etcd().leader();
            let member = (leader + rand::random_range(1..3)) % 3;
            world.etcd().stop(member);
            for_a_while(500, 2_500);
            world.etcd().wake(member);
        }
        Fault::LeaderKilled => {
            let leader = world.etcd().leader();
            world.etcd().kill(leader);
            for_a_while(200, 1_500);
            world.etcd().restart(leader);
        }
        Fault::LeaderCut | Fault::LeaderOneWay => {
            let leader = world.etcd().leader();
            let proxy = world.etcd().members()[leader].peer_proxy.as_ref().unwrap();
            let way = if rand::random() { Way::Request } else { Way::Reply };
            if fault == Fault::LeaderCut {
                proxy.set_both(Flow::Stall);
            } else {
                proxy.set(way, Flow::Stall);
            }
            for_a_while(500, 3_000);
            proxy.heal();
        }
        Fault::LeaderStopped => {
            let leader = world.etcd().leader();
            world.etcd().stop(leader);
            for_a_while(500, 2_500);
            world.etcd().wake(leader);
        }
        Fault::ServerKilled => {
            let primary = world.primary;
            world.postgres().kill(primary);
            for_a_while(200, 1_500);
            world.postgres().restart(primary);
        }
        Fault::ServerStopped => {
            let primary = world.primary;
            world.postgres().stop(primary);
            for_a_while(500, 3_000);
            world.postgres().wake(primary);
        }
        Fault::StandbyStopped => {
            world.postgres().stop(1);
            for_a_while(500, 3_000);
            world.postgres().wake(1);
        }
        Fault::StandbyPromoted => {
            world.postgres().kill(0);
            world.postgres().promote(1);
            world.primary = 1;
        }
        Fault::LinksCut => {
            world.nodes[n].links.set_both(Flow::Stall);
            world.nodes[n].links.cut();
            for_a_while(200, 3_000);
            world.nodes[n].links.set_both(Flow::Pass);
        }
        Fault::LinksOneWay => {
            let way = if rand::random() { Way::Request } else { Way::Reply };
            world.nodes[n].links.set(way, Flow::Stall);
            for_a_while(500, 4_500);
            world.nodes[n].links.set_both(Flow::Pass);
        }
        Fault::StoreCut => {
            world.store_flow(n, None, Flow::Stall);
            for_a_while(500, 5_000);
            world.store_flow(n, None, Flow::Pass);
        }
        Fault::StoreOneWay => {
            let way = if rand::random() { Way::Request } else { Way::Reply };
            world.store_flow(n, Some(way), Flow::Stall);
            for_a_while(500, 5_000);
            world.store_flow(n, None, Flow::Pass);
        }
        Fault::RepliesLost => {
            for _ in 0..3 {
                world.store_flow(n, Some(Way::Reply), Flow::CutBefore);
                for_a_while(20, 200);
                world.store_flow(n, None, Flow::Pass);
                for_a_while(20, 200);
            }
        }
        Fault::StoreAway => world.store_away(Duration::from_millis(rand::random_range(500..4_000))),
        Fault::StoreAwayLong => world.store_away(AWAY_LONG),
        // It stays so for the next faults, or until it steps again.
        Fault::ClockForward => world.nodes[n].wall.set(HOUR_S),
        Fault::ClockBack => world.nodes[n].wall.set(-HOUR_S),
    }
}

/// A call without an answer is over two rounds later: its process is gone by then, or has heard that its caller left.
fn over_us(start_us: u64, rounds_us: &[u64]) -> u64 {
    let round = rounds_us.partition_point(|end_us| *end_us < start_us);
    rounds_us[(round + 2).min(rounds_us.len() - 1)]
}

/// Divides the history by partition, and searches each.
fn judge(place: &str, notes: Vec<Noted>, rounds_us: &[u64], struck: &BTreeMap<Fault, usize>, played: Duration) {
    let mut places: BTreeMap<(Kind, String), u32> = BTreeMap::new();
    for noted in &notes {
        if let Some(partition) = noted.partition {
            let key = (noted.op.call.kind(), noted.op.call.resource().to_owned());
            let known = *places.entry(key).or_insert(partition);
            assert_eq!(known, partition, "a resource is in one partition: {:?}", noted.op);
        }
    }
    let mut histories: BTreeMap<u32, Vec<Op>> = BTreeMap::new();
    for Noted { mut op, .. } in notes {
        if let Outcome::Unknown { gone_us } = &mut op.outcome {
            *gone_us = Some(over_us(op.start_us, rounds_us));
        }
        let key = (op.call.kind(), op.call.resource().to_owned());
        if let Some(partition) = places.get(&key) {
            histories.entry(*partition).or_default().push(op);
        }
    }
    // A call of unknown outcome stays possible for longer here than in one process.
    let rules = Rules { grace_us: GRACE_US, worlds_max: 200_000, asks_repeat: true };
    let (mut answered, mut unknown, mut asked_again, mut worlds) = (0, 0, 0, 0);
    let searching = Instant::now();
    for (partition, history) in &histories {
        let searched = search(history, rules).unwrap_or_else(|contradiction| {
            let suspect = &history[contradiction.op];
            let file = std::env::temp_dir().join(format!("leasehold-cluster-history-{partition}.txt"));
            std::fs::write(&file, crate::history::about(history, suspect)).unwrap();
            panic!(
                "partition {partition}: {contradiction}\n{suspect}\nall about it is in {}, around it:\n{}",
                file.display(),
                crate::history::around(history, suspect)
            );
        });
        answered += searched.answered;
        unknown += searched.unknown;
        asked_again += searched.asked_again;
        worlds += searched.worlds;
    }
    let kinds: Vec<String> = struck.iter().map(|(fault, times)| format!("{fault:?} {times}")).collect();
    report(format_args!(
        "cluster: {answered} answers of three nodes on {place} and {unknown} of unknown outcome, {CLIENTS} \
         clients, {} faults ({}), {:.0} s; {worlds} worlds searched in {:.1} s in {} partitions, {asked_again} resources asked \
         again, all of it can be true",
        struck.values().sum::<usize>(),
        kinds.join(", "),
        played.as_secs_f64(),
        searching.elapsed().as_secs_f64(),
        histories.len(),
    ));
    // Resource by resource, so that positions of several partitions do not meet.
    let all: Vec<Op> = histories.into_values().flatten().collect();
    crate::history::falsify::is_always_noticed(&all, rules);
}
