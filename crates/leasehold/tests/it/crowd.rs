//! Many clients on few slots over real sockets, judged by the clients' own monotonic clock: never more than the
//! capacity at once, never one slot twice, first come first served, and no client forgotten at the end.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::support::{
    Client, Launch, PATIENCE, Position, Server, gauge, machine_to_itself, random_uuid, report, until,
};

const CLIENTS: usize = 200;
const SLOTS: usize = 5;
const FOR_HOW_LONG: Duration = Duration::from_secs(10);
const HOLD_MAX_US: u64 = 20_000;

/// From having the answer to a borrow until just before sending the return. The service has held it for longer.
#[derive(Clone, Copy, Debug)]
struct Hold {
    from: Instant,
    until: Instant,
    slot: u64,
    token: u64,
    at: Position,
}

#[test]
fn a_crowd_shares_five_slots() {
    let _machine = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let pool = new_pool(&server, SLOTS);
    let deadline = Instant::now() + FOR_HOW_LONG;
    let holds_by_client: Vec<Vec<Hold>> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (client, pool) = (server.client(), &pool);
                scope.spawn(move || borrow_and_return(client, pool, deadline))
            })
            .collect();
        // Every one of them comes back: a wake-up that got lost would leave its client waiting for a minute.
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let overtime = deadline.elapsed();
    assert!(overtime < Duration::from_secs(10), "the last client finished {overtime:?} late");

    let mut client = server.client();
    assert_eq!(in_use_and_waiting(&mut client, &pool), (0, 0));
    for _ in 0..SLOTS {
        client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":60}").unwrap().expect(200);
    }
    let holds: Vec<Hold> = holds_by_client.iter().flatten().copied().collect();
    let most = most_at_once(&holds);
    tokens_rise_with_positions(&holds);
    let fewest = holds_by_client.iter().map(Vec::len).min().unwrap();
    let greatest = holds_by_client.iter().map(Vec::len).max().unwrap();
    assert!(fewest > 0, "a client never got a slot");
    report(format_args!(
        "sockets: {CLIENTS} clients on {SLOTS} slots for {} s, {} holds ({fewest} to {greatest} a client), at most {most} at once",
        FOR_HOW_LONG.as_secs(),
        holds.len()
    ));
}

fn borrow_and_return(mut client: Client, pool: &str, deadline: Instant) -> Vec<Hold> {
    let mut holds = Vec::new();
    while Instant::now() < deadline {
        let borrowed = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":60,\"wait\":60}").unwrap();
        let from = Instant::now();
        let borrowed = borrowed.expect(200);
        let body = format!("{{\"lease\":\"{}\"}}", borrowed.text("lease"));
        std::thread::sleep(Duration::from_micros(rand::random_range(0..HOLD_MAX_US)));
        let until = Instant::now();
        let returned = client.call("POST", &format!("/l/{pool}/return"), &body).unwrap().expect(200);
        assert_eq!(returned.json()["returned"], true);
        let (slot, token) = (borrowed.number("position"), borrowed.number("token"));
        holds.push(Hold { from, until, slot, token, at: borrowed.position().unwrap() });
    }
    holds
}

/// Goes through all beginnings and ends in order of time.
fn most_at_once(holds: &[Hold]) -> usize {
    // At the same instant ends come first: `false` sorts before `true`.
    let mut events: Vec<(Instant, bool, &Hold)> =
        holds.iter().flat_map(|hold| [(hold.from, true, hold), (hold.until, false, hold)]).collect();
    events.sort_by_key(|&(time, begins, _)| (time, begins));
    let mut held: BTreeMap<u64, &Hold> = BTreeMap::new();
    let mut most = 0;
    for (_, begins, hold) in events {
        if begins {
            let other = held.insert(hold.slot, hold);
            assert!(other.is_none(), "a slot held twice: {hold:?} and {other:?}");
            assert!(held.len() <= SLOTS && hold.slot < SLOTS as u64, "{held:?}");
            most = most.max(held.len());
        } else if held.get(&hold.slot).is_some_and(|known| known.token == hold.token) {
            held.remove(&hold.slot);
        } else {
            // It began and ended within the clock's resolution, end first.
            assert_eq!(hold.from, hold.until);
        }
    }
    most
}

fn tokens_rise_with_positions(holds: &[Hold]) {
    let mut by_position = holds.to_vec();
    by_position.sort_by_key(|hold| (hold.at, hold.token));
    for pair in by_position.windows(2) {
        assert!(pair[0].token < pair[1].token, "{:?} before {:?}", pair[0], pair[1]);
    }
}

#[test]
fn waiters_are_served_in_the_order_they_came() {
    const WAITERS: usize = 50;
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let pool = new_pool(&server, 3);
    let mut client = server.client();
    let mut held: VecDeque<String> = (0..3)
        .map(|_| client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":600}").unwrap().text("lease"))
        .collect();
    // Each is seen to stand in the queue before the next one asks.
    let mut waiters: Vec<Client> = (1..=WAITERS as u64)
        .map(|place| {
            let mut waiter = server.client();
            waiter.send("POST", &format!("/l/{pool}/borrow"), &[], b"{\"ttl\":600,\"wait\":60}").unwrap();
            until("the waiter is queued", PATIENCE, || {
                (in_use_and_waiting(&mut client, &pool) == (3, place)).then_some(())
            });
            waiter
        })
        .collect();
    let mut last_token = 0;
    for (place, waiter) in waiters.iter_mut().enumerate() {
        let lease = held.pop_front().unwrap();
        client.call("POST", &format!("/l/{pool}/return"), &format!("{{\"lease\":\"{lease}\"}}")).unwrap().expect(200);
        let granted = waiter.receive().unwrap().expect(200);
        let token = granted.number("token");
        assert!(token > last_token, "waiter {place} was overtaken");
        last_token = token;
        held.push_back(granted.text("lease"));
        let left = (WAITERS - place - 1) as u64;
        assert_eq!(in_use_and_waiting(&mut client, &pool), (3, left), "one return serves one waiter");
    }
    report(format_args!("sockets: {WAITERS} waiters queued one by one were served in that order"));
}

#[test]
fn callers_that_ask_together_share_writes() {
    const CALLERS: usize = 64;
    const ROUNDS: usize = 15;
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let pool = new_pool(&server, CALLERS * ROUNDS);
    let mut clients: Vec<Client> = (0..CALLERS).map(|_| server.client()).collect();
    let commits_before = gauge(&mut server.client(), "leasehold_commit_seconds_count");
    for _ in 0..ROUNDS {
        for client in &mut clients {
            client.send("POST", &format!("/l/{pool}/borrow"), &[], b"{\"ttl\":600}").unwrap();
        }
        for client in &mut clients {
            client.receive().unwrap().expect(200);
        }
    }
    let commits = gauge(&mut server.client(), "leasehold_commit_seconds_count") - commits_before;
    let calls = (CALLERS * ROUNDS) as u64;
    assert!(commits * 4 <= calls, "{commits} writes for {calls} calls, {CALLERS} at a time");
    report(format_args!("sockets: {calls} calls, {CALLERS} at a time, took {commits} writes"));
}

#[test]
fn a_long_answer_leaves_little_behind() {
    const READERS: usize = 300;
    const KEPT_MAX_KIB: u64 = 64;
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut clients: Vec<Client> = (0..READERS).map(|_| server.client()).collect();
    let mut read = |target: &str| {
        let answers = clients.iter_mut().map(|client| client.call("GET", target, "").unwrap().expect(200).body.len());
        answers.max().unwrap()
    };
    read("/healthz");
    let Some(before_kib) = server.resident_kib() else { return };
    let long = read("/openapi.json");
    assert!(long > 90 * 1024, "{long} bytes are not long");
    let kept_kib = server.resident_kib().unwrap().saturating_sub(before_kib) / READERS as u64;
    assert!(kept_kib <= KEPT_MAX_KIB, "{kept_kib} KiB a connection are kept after {long} bytes");
    report(format_args!("sockets: {READERS} connections that read {long} bytes kept {kept_kib} KiB each"));
}

fn new_pool(server: &Server, count: usize) -> String {
    let pool = random_uuid();
    server.client().call("PUT", &format!("/l/{pool}"), &format!("{{\"count\":{count}}}")).unwrap().expect(200);
    pool
}

fn in_use_and_waiting(client: &mut Client, pool: &str) -> (u64, u64) {
    let shown = client.call("GET", &format!("/l/{pool}"), "").unwrap().expect(200);
    (shown.number("in_use"), shown.number("waiting"))
}
