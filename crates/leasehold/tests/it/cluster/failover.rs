//! Leases through failovers, and how long those take.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::world::{NODES, World};
use crate::support::{Client, Response, gauge, part_of_the_machine, report, until};

/// Asks one node after the other until one answers with something else than 502 or 503.
fn insist(addresses: &[SocketAddr], method: &str, target: &str, within: Duration) -> Response {
    let mut nth = 0;
    until(&format!("{method} {target} is answered"), within, || {
        nth += 1;
        let mut client = Client::connect(addresses[nth % addresses.len()]).ok()?;
        client.send(method, target, &[], b"").ok()?;
        client.receive_within(Duration::from_secs(6)).ok().filter(|response| !matches!(response.status, 502 | 503))
    })
}

fn percentile(sorted_ms: &[u128], percent: usize) -> u128 {
    sorted_ms[(sorted_ms.len() * percent / 100).min(sorted_ms.len() - 1)]
}

fn others(world: &World, n: usize) -> Vec<SocketAddr> {
    (0..NODES).filter(|other| *other != n).map(|other| world.addr(other)).collect()
}

/// A follower of any node hears of a new leader, whichever node the change was made at and whichever owns the lock;
/// also when the owner dies meanwhile.
#[test]
fn callers_that_look_out_at_any_node_are_told() {
    let _machine = part_of_the_machine();
    let mut world = World::start();
    let all = all(&world);
    let within = Duration::from_secs(10);
    let taken = insist(&all, "POST", "/lock?job=led&client=anna&ttl=1m", within).expect(200);
    let partition = taken.header("leasehold-partition").unwrap().parse().unwrap();
    let look_out = |addr: &SocketAddr, token: u64| {
        let mut client = Client::connect(*addr).unwrap();
        let target = format!("/lock?job=led&wait=1m&after={token}");
        client.send("GET", &target, &[], b"").unwrap();
        until("it looks out", within, || {
            let mut other = Client::connect(*addr).unwrap();
            (gauge(&mut other, "leasehold_lookouts") == 1).then_some(())
        });
        client
    };
    let mut followers: Vec<Client> = all.iter().map(|addr| look_out(addr, taken.number("token"))).collect();
    insist(&all, "DELETE", "/lock?job=led&client=anna", within).expect(200);
    for follower in &mut followers {
        assert_eq!(follower.receive_within(within).unwrap().expect(200).text("holder"), "");
    }
    // One change at a node, and the owner is gone before the next.
    let owner = world.owner_of(partition);
    let rest = others(&world, owner);
    let mut followers: Vec<Client> = rest.iter().map(|addr| look_out(addr, 0)).collect();
    world.kill(owner);
    let taken = insist(&rest, "POST", "/lock?job=led&client=bert&ttl=1m", Duration::from_secs(30)).expect(200);
    for follower in &mut followers {
        let seen = follower.receive_within(within).unwrap().expect(200);
        assert_eq!((seen.text("holder"), seen.number("token")), ("bert".to_owned(), taken.number("token")));
    }
}

fn all(world: &World) -> Vec<SocketAddr> {
    (0..NODES).map(|n| world.addr(n)).collect()
}

fn spread(mut times_ms: Vec<u128>) -> String {
    times_ms.sort_unstable();
    let (p50, p99) = (percentile(&times_ms, 50), percentile(&times_ms, 99));
    format!("p50 {p50}, p99 {p99}, max {} ms of {}", times_ms[times_ms.len() - 1], times_ms.len())
}

/// Every node signs with the same key, and one that is rotated at a node is known at all of them.
#[test]
fn the_nodes_of_a_cluster_have_the_same_keys_of_proofs() {
    let _machine = part_of_the_machine();
    let world = World::start();
    let all: Vec<SocketAddr> = (0..NODES).map(|n| world.addr(n)).collect();
    let keys = |addr: &SocketAddr| {
        let mut client = Client::connect(*addr).unwrap();
        client.call("GET", "/.well-known/leasehold/jwks.json", "").unwrap().expect(200).json()
    };
    let first = keys(&all[0]);
    assert!(all.iter().all(|addr| keys(addr) == first));
    insist(&all[..1], "POST", "/v1/admin/proof-key", Duration::from_secs(10)).expect(200);
    let rotated = keys(&all[0]);
    assert_eq!(rotated["keys"].as_array().unwrap().len(), 2);
    until("every node knows of the key", Duration::from_secs(10), || {
        all.iter().all(|addr| keys(addr) == rotated).then_some(())
    });
    let within = Duration::from_secs(10);
    insist(&all, "POST", "/lock?job=led&client=anna&ttl=1m", within).expect(200);
    for addr in &all {
        insist(&[*addr], "GET", "/lock/proof?job=led&client=anna&aud=guard", within).expect(200);
    }
}

/// The ttl of a lease that is not renewed.
const LEFT_TTL: Duration = Duration::from_secs(10);

/// Checks whether the lease that is not renewed has ended: not before its time, and not long after it. Outages are
/// charged to no lease, and nothing else is added to it.
fn has_ended(world: &World, target: &str, since: Instant, without_owner: Duration) -> bool {
    let seen = insist(&all(world), "GET", target, Duration::from_secs(10)).expect(200);
    let has_ended = seen.text("holder").is_empty() || seen.json()["is_expired"] == true;
    // A slow machine stops the clock as well, for as long as its beats are late.
    let (held_for, most) = (since.elapsed(), 2 * LEFT_TTL + without_owner);
    assert!(!has_ended || held_for >= LEFT_TTL, "a lease of {LEFT_TTL:?} ended after {held_for:?}");
    assert!(has_ended || held_for <= most, "a lease of {LEFT_TTL:?} is held after {held_for:?}, {most:?} are the most");
    has_ended
}

/// Ten owners die or stop in a row: a lease that is renewed is never lost, one that is not ends in bounded time, and
/// the first grant after each is soon. `LEASEHOLD_CLUSTER_FAILOVERS` asks for more of them.
#[test]
fn leases_live_through_ten_failovers() {
    /// Shorter than the ttl of the renewed lease, and long enough for a machine with other work.
    const PATIENCE: Duration = Duration::from_secs(40);
    /// The service time of a partition is at most so old in the store, with a beat that is late.
    const MARK_AGE_MAX: Duration = Duration::from_millis(2_500);
    let _machine = part_of_the_machine();
    let asked = std::env::var("LEASEHOLD_CLUSTER_FAILOVERS").map_or(10, |text| text.parse().unwrap());
    let failovers = asked.max(10_usize);
    let mut world = World::start();
    let kept = "/lock?job=kept&client=holder&ttl=45s";
    let first = insist(&all(&world), "POST", kept, Duration::from_secs(10)).expect(200);
    let (token, partition) = (first.number("token"), first.header("leasehold-partition").unwrap().parse().unwrap());
    let (mut killed_ms, mut stopped_ms) = (Vec::new(), Vec::new());
    let (mut left, mut without_owner, mut ended) = (None, Duration::ZERO, 0);
    for round in 0..failovers {
        // A lease in the same partition or another, which is not renewed: it lives through several failovers.
        let (target, since) = left.take().unwrap_or_else(|| {
            without_owner = Duration::ZERO;
            let target = format!("/lock?job=left-{round}");
            let (asked_at, ttl_s) = (Instant::now(), LEFT_TTL.as_secs());
            let took =
                insist(&all(&world), "POST", &format!("{target}&client=gone&ttl={ttl_s}s"), Duration::from_secs(10));
            assert_eq!(took.expect(200).text("message"), "acquired");
            (target, asked_at)
        });
        let owner = world.owner_of(partition);
        let rest = others(&world, owner);
        let is_killed = round % 2 == 0;
        if is_killed {
            world.kill(owner);
        } else {
            world.signal(owner, Signal::STOP);
        }
        let struck_at = Instant::now();
        let renewed = insist(&rest, "POST", kept, PATIENCE).expect(200);
        let took_ms = struck_at.elapsed().as_millis();
        if is_killed { &mut killed_ms } else { &mut stopped_ms }.push(took_ms);
        without_owner += struck_at.elapsed() + MARK_AGE_MAX;
        assert_eq!((renewed.text("message").as_str(), renewed.number("token")), ("renewed", token), "round {round}");
        if is_killed {
            world.launch(owner);
        } else {
            world.signal(owner, Signal::CONT);
        }
        world.settle();
        insist(&all(&world), "POST", kept, PATIENCE).expect(200);
        if has_ended(&world, &target, since, without_owner) {
            ended += 1;
        } else {
            left = Some((target, since));
        }
    }
    if let Some((target, since)) = left {
        let ends = || has_ended(&world, &target, since, without_owner).then_some(());
        until("the lease that is not renewed ends", 2 * LEFT_TTL + without_owner, ends);
        ended += 1;
    }
    report(format_args!(
        "cluster: {failovers} failovers, a renewed lease kept its token, {ended} that were not renewed ended in time; first answer \
         of the new owner after kill -9 {}, after SIGSTOP {}",
        spread(killed_ms),
        spread(stopped_ms),
    ));
}

/// A stopped owner has questions in its sockets when it wakes: what it answers is what its successor decided, or
/// nothing.
#[test]
fn a_stopped_owner_that_wakes_tells_no_old_story() {
    let _machine = part_of_the_machine();
    let world = World::start();
    let anywhere: Vec<SocketAddr> = (0..NODES).map(|n| world.addr(n)).collect();
    let took = insist(&anywhere, "POST", "/lock?job=story&client=old&ttl=2s", Duration::from_secs(10)).expect(200);
    let (old, partition) = (took.number("token"), took.header("leasehold-partition").unwrap().parse().unwrap());
    let owner = world.owner_of(partition);
    world.signal(owner, Signal::STOP);
    let ask = |method: &str, target: &str| {
        let mut client = Client::connect(world.addr(owner)).unwrap();
        client.send(method, target, &[], b"").unwrap();
        client
    };
    // The kernel takes them in; the process does not see them before it wakes.
    let fence = format!("/v1/fence?resource=lock:story&token={old}");
    let mut seen = ask("GET", "/lock?job=story");
    let mut renewed = ask("POST", &format!("/lock?job=story&client=old&ttl=2s&token={old}"));
    let mut fenced = ask("GET", &fence);
    let new = until("another client has the lock", Duration::from_secs(30), || {
        let rest = others(&world, owner);
        let got = insist(&rest, "POST", "/lock?job=story&client=new&ttl=60s", Duration::from_secs(14));
        (got.status == 200).then(|| got.number("token"))
    });
    assert!(new > old);
    world.signal(owner, Signal::CONT);
    let patience = Duration::from_secs(20);
    let told = seen.receive_within(patience).unwrap();
    if told.status == 200 {
        assert_eq!((told.text("holder").as_str(), told.number("token")), ("new", new), "{}", told.json());
    } else {
        assert!(matches!(told.status, 502 | 503), "{}", told.json());
    }
    let told = renewed.receive_within(patience).unwrap();
    assert!(matches!(told.status, 409 | 502 | 503), "a lost lock was renewed: {}", told.json());
    let told = fenced.receive_within(patience).unwrap();
    assert!(told.status != 200 || told.json()["current"] == false, "{}", told.json());
    world.settle();
    report(format_args!("cluster: a stopped owner woke with GET, renew and /v1/fence waiting, and told no old story"));
}

/// An owner gives a partition away while a caller works there: the pause that the caller sees. Beside it, a call to the
/// owner and one that another node forwards.
#[test]
fn a_partition_that_moves_makes_callers_wait_but_not_fail() {
    const MOVES: usize = 12;
    const CALLS: usize = 300;
    let _machine = part_of_the_machine();
    let world = World::start();
    let renew = "/lock?job=moving&client=a&ttl=30s";
    let anywhere: Vec<SocketAddr> = (0..NODES).map(|n| world.addr(n)).collect();
    let first = insist(&anywhere, "POST", renew, Duration::from_secs(10)).expect(200);
    let (token, partition) = (first.number("token"), first.header("leasehold-partition").unwrap().parse().unwrap());
    let timed = |client: &mut Client| {
        let began = Instant::now();
        let told = client.call("POST", renew, "").unwrap().expect(200);
        assert_eq!(told.number("token"), token);
        began.elapsed()
    };
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    let owner = world.owner_of(partition);
    let mut there = Client::connect(world.addr(owner)).unwrap();
    let mut elsewhere = Client::connect(world.addr((owner + 1) % NODES)).unwrap();
    let (mut local, mut forwarded) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        local.push(timed(&mut there));
        forwarded.push(timed(&mut elsewhere));
    }
    let (local, forwarded) = (median(local), median(forwarded));
    let mut pauses_ms = Vec::new();
    let mut client = Client::connect(world.addr(0)).unwrap();
    for _ in 0..MOVES {
        let owner = world.owner_of(partition);
        world.drain(owner, true);
        let mut longest = Duration::ZERO;
        until("another node owns the partition", Duration::from_secs(20), || {
            longest = longest.max(timed(&mut client));
            (world.owner_of(partition) != owner).then_some(())
        });
        longest = longest.max(timed(&mut client));
        pauses_ms.push(longest.as_millis());
        world.drain(owner, false);
    }
    pauses_ms.sort_unstable();
    report(format_args!(
        "cluster: {MOVES} moves of a partition, no call failed, the longest call of each took p50 {} ms, p99 {} ms; a call to the \
         owner {local:?}, forwarded {forwarded:?} (medians of {CALLS}), {:.2} times",
        percentile(&pauses_ms, 50),
        percentile(&pauses_ms, 99),
        forwarded.as_secs_f64() / local.as_secs_f64(),
    ));
}

/// Every node is told to end and started again, one after the other, while clients work: one that tries again at
/// another node has every call done.
#[test]
fn a_rolling_restart_fails_no_call_for_a_client_that_tries_again() {
    let _machine = part_of_the_machine();
    let mut world = World::start();
    let at = std::sync::Mutex::new((0..NODES).map(|n| world.addr(n)).collect::<Vec<_>>());
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let work = |number: usize| {
        let (mut calls, mut longest) = (0_u64, Duration::ZERO);
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            for method in ["POST", "DELETE"] {
                let addresses = at.lock().unwrap().clone();
                let began = Instant::now();
                let target = format!("/lock?job=roll-{number}&client=c{number}&ttl=30s");
                let target = if method == "DELETE" { target.replace("&ttl=30s", "") } else { target };
                let told = insist(&addresses, method, &target, Duration::from_secs(40));
                // A release that was repeated found nothing left to release.
                assert!(told.status == 200 || method == "DELETE" && told.status == 403, "{}", told.json());
                longest = longest.max(began.elapsed());
                calls += 1;
            }
        }
        (calls, longest)
    };
    let (calls, longest) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4).map(|number| scope.spawn(move || work(number))).collect();
        for n in 0..NODES {
            at.lock().unwrap().retain(|addr| *addr != world.nodes[n].server.as_ref().unwrap().addr);
            world.terminate(n);
            world.launch(n);
            at.lock().unwrap().push(world.addr(n));
            world.settle();
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .fold((0, Duration::ZERO), |(sum, most), (calls, longest)| (sum + calls, most.max(longest)))
    });
    assert!(calls > 30, "{calls}");
    report(format_args!(
        "cluster: rolling restart of three nodes, {calls} calls, none failed, the longest took {longest:?}"
    ));
}

/// The store answers no node for longer than a request is sent again: callers are told so, and no lease runs out by it.
#[test]
fn a_store_that_is_away_for_eight_seconds_costs_no_lease() {
    const AWAY: Duration = Duration::from_secs(8);
    const TTL: Duration = Duration::from_secs(5);
    let _machine = part_of_the_machine();
    let world = World::start_with(&["--store-timeout", "2s"]);
    let anywhere = all(&world);
    let lock = |client: &str| format!("/lock?job=through&client={client}&ttl={}s", TTL.as_secs());
    let token = insist(&anywhere, "POST", &lock("a"), Duration::from_secs(10)).expect(200).number("token");
    let began = Instant::now();
    let told = std::thread::scope(|scope| {
        let away = scope.spawn(|| world.store_away(AWAY));
        let mut told = std::collections::BTreeMap::<u16, usize>::new();
        while !away.is_finished() {
            for addr in &anywhere {
                let mut client = Client::connect(*addr).unwrap();
                client.send("POST", &lock("b"), &[], b"").unwrap();
                if let Ok(response) = client.receive_within(AWAY) {
                    *told.entry(response.status).or_default() += 1;
                }
            }
        }
        told
    });
    assert!(told.contains_key(&502) || told.contains_key(&503), "callers were not told: {told:?}");
    assert!(!told.contains_key(&200), "the lock was given away: {told:?}");
    let seen = insist(&anywhere, "GET", "/lock?job=through", Duration::from_secs(10)).expect(200);
    assert_eq!((seen.text("holder").as_str(), seen.number("token")), ("a", token), "{}", seen.json());
    let renewed = insist(&anywhere, "POST", &lock("a"), Duration::from_secs(10)).expect(200);
    assert_eq!((renewed.text("message").as_str(), renewed.number("token")), ("renewed", token));
    let held = began.elapsed();
    world.settle();
    let next = until("the lease ends when the store is back", TTL * 4, || {
        let told = insist(&anywhere, "POST", &lock("b"), Duration::from_secs(10));
        (told.status == 200).then(|| told.number("token"))
    });
    assert!(next > token);
    report(format_args!(
        "cluster: the store was away for {AWAY:?}, callers heard {told:?}, a lease of {TTL:?} was renewed after {held:?}"
    ));
}

/// At rest each node writes its beat and nothing else, whatever is lent.
#[test]
fn an_idle_cluster_writes_a_beat_a_second_and_node() {
    const WATCHED: Duration = Duration::from_secs(30);
    let _machine = part_of_the_machine();
    let world = World::start();
    for number in 0..20 {
        let lock = format!("/lock?job=idle-{number}&client=a&ttl=10m");
        insist(&all(&world), "POST", &lock, Duration::from_secs(10)).expect(200);
    }
    world.divide();
    // A compaction may write a key a minute.
    let (before, began) = (world.revision(), Instant::now());
    std::thread::sleep(WATCHED);
    let (writes, took_s) = (world.revision() - before, began.elapsed().as_secs_f64());
    #[allow(clippy::cast_precision_loss, reason = "a hundred or so")]
    let rate = writes as f64 / took_s;
    report(format_args!(
        "cluster: at rest with 20 leases, {writes} writes in {took_s:.1} s, {rate:.2} a second with {NODES} nodes"
    ));
    assert!(rate <= 3.2, "{rate} writes a second");
}
