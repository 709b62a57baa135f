//! Being told to stop, a second process on the same data, and data that is not what was written.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{
    Client, Launch, PATIENCE, Server, gauge, leasehold, machine_to_itself, output_of, random_uuid, report, until,
};

const POOL_WAITERS: usize = 20;
const LOCK_WAITERS: usize = 5;
const BUSY: usize = 4;

#[test]
fn sigterm_answers_everybody_and_loses_nothing() {
    stops_gracefully_on(Signal::TERM, "SIGTERM");
}

#[test]
fn sigint_answers_everybody_and_loses_nothing() {
    stops_gracefully_on(Signal::INT, "SIGINT");
}

fn stops_gracefully_on(signal: Signal, name: &str) {
    let _machine = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    let held = Held::take(&mut client);
    let mut parked = held.park_others(&server);
    let parked_count = u64::try_from(parked.len()).unwrap();
    until("all are parked", PATIENCE, || {
        (gauge(&mut client, "leasehold_parked_callers") == parked_count).then_some(())
    });

    let busy_pool = random_uuid();
    client.call("PUT", &format!("/l/{busy_pool}"), "{\"count\":100}").unwrap().expect(200);
    let progress = AtomicUsize::new(0);
    let (took, mut server, busy_leases) = std::thread::scope(|scope| {
        let busy: Vec<_> = (0..BUSY)
            .map(|_| {
                let (client, pool, progress) = (server.client(), &busy_pool, &progress);
                scope.spawn(move || borrow_until_turned_away(client, pool, progress))
            })
            .collect();
        until("the busy ones are busy", PATIENCE, || (progress.load(Ordering::Relaxed) > 100).then_some(()));
        let told_at = Instant::now();
        server.signal(signal);
        for waiter in &mut parked {
            let answer = waiter.receive().unwrap().expect(503);
            assert_eq!(answer.header("retry-after"), Some("1"), "{answer:?}");
            assert_eq!(answer.json()["error"], "shutting down");
        }
        let took = told_at.elapsed();
        let mut server = server;
        let status = server.wait();
        assert_eq!(status.code(), Some(0), "{}", server.whole_log());
        let ended = told_at.elapsed();
        assert!(ended < Duration::from_secs(2), "it took {ended:?} to end");
        let leases: Vec<Known> = busy.into_iter().map(|thread| thread.join().unwrap()).collect();
        (took, server, leases)
    });
    assert!(took < Duration::from_secs(1), "the parked ones waited {took:?} for their answers");
    let log = server.whole_log();
    assert!(log.contains(&format!("stopping on {name}")) && log.trim_end().ends_with("stopped"), "{log}");

    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    held.is_still_held(&mut client);
    let mut sure = 0;
    for known in &busy_leases {
        for lease in &known.held {
            client.call("GET", &format!("/l/{busy_pool}/leases/{lease}"), "").unwrap().expect(200);
            sure += 1;
        }
    }
    let unknown = busy_leases.iter().filter(|known| known.is_last_unknown).count();
    let in_use = client.call("GET", &format!("/l/{busy_pool}"), "").unwrap().number("in_use");
    let in_use = usize::try_from(in_use).unwrap();
    assert!((sure..=sure + unknown).contains(&in_use), "{in_use} in use, {sure} known, {unknown} unknown");
    let (status, _) = server.stop(signal);
    assert_eq!(status.code(), Some(0));
    report(format_args!("sockets: {name} answered {parked_count} parked callers within {} ms", took.as_millis()));
}

/// The leases that are held when the signal comes, of each kind.
struct Held {
    pool: String,
    lease: String,
    token: u64,
    active: String,
    waiting: String,
}

impl Held {
    fn take(client: &mut Client) -> Held {
        let pool = random_uuid();
        client.call("PUT", &format!("/l/{pool}"), "{\"count\":1}").unwrap().expect(200);
        let borrowed = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":3600}").unwrap().expect(200);
        client.call("POST", "/lock?client=a&ttl=1h", "").unwrap().expect(200);
        let claim = "{\"resource\":\"r\",\"timeout\":3600}";
        let active = client.call("POST", "/v1/claims/", claim).unwrap().expect(201).text("id");
        let waiting = client.call("POST", "/v1/claims/", claim).unwrap().expect(202).text("id");
        Held { pool, lease: borrowed.text("lease"), token: borrowed.number("token"), active, waiting }
    }

    /// Callers of every kind that wait for the held leases.
    fn park_others(&self, server: &Server) -> Vec<Client> {
        let mut parked = Vec::new();
        let mut park = |method: &str, target: &str, body: &str| {
            let mut client = server.client();
            client.send(method, target, &[], body.as_bytes()).unwrap();
            parked.push(client);
        };
        for _ in 0..POOL_WAITERS {
            park("POST", &format!("/l/{}/borrow", self.pool), "{\"ttl\":60,\"wait\":120}");
        }
        for number in 0..LOCK_WAITERS {
            park("POST", &format!("/lock?client=b{number}&wait=2m"), "");
        }
        park("GET", &format!("/v1/claims/{}/?wait=120", self.waiting), "");
        park("PATCH", &format!("/v1/claims/{}/?wait=120", self.waiting), "{\"status\":\"active\"}");
        parked
    }

    fn is_still_held(&self, client: &mut Client) {
        let pool = client.call("GET", &format!("/l/{}", self.pool), "").unwrap().expect(200);
        assert_eq!((pool.number("in_use"), pool.number("waiting")), (1, 0));
        let lease = client.call("GET", &format!("/l/{}/leases/{}", self.pool, self.lease), "").unwrap().expect(200);
        assert_eq!(lease.number("token"), self.token);
        assert_eq!(client.call("GET", "/lock", "").unwrap().text("holder"), "a");
        for (claim, status) in [(&self.active, "active"), (&self.waiting, "waiting")] {
            let shown = client.call("GET", &format!("/v1/claims/{claim}"), "").unwrap().expect(200);
            assert_eq!(shown.text("status"), status);
        }
    }
}

/// The knowledge of a busy client at the end.
struct Known {
    held: Vec<String>,
    /// A request was sent to a connection that was just being closed.
    is_last_unknown: bool,
}

/// Borrows and returns until it is told to stop or its connection is closed.
fn borrow_until_turned_away(mut client: Client, pool: &str, progress: &AtomicUsize) -> Known {
    let mut known = Known { held: Vec::new(), is_last_unknown: false };
    loop {
        let to_return = if known.held.len() >= 3 { known.held.pop() } else { None };
        let answer = match &to_return {
            Some(lease) => client.call("POST", &format!("/l/{pool}/return"), &format!("{{\"lease\":\"{lease}\"}}")),
            None => client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":3600}"),
        };
        let Ok(answer) = answer else {
            known.is_last_unknown = true;
            return known;
        };
        match (answer.status, to_return) {
            (200, None) => known.held.push(answer.text("lease")),
            (200, Some(_)) => assert_eq!(answer.json()["returned"], true),
            (503, to_return) => {
                // A definite refusal: the lease to return is held as before.
                known.held.extend(to_return);
                return known;
            }
            (status, _) => panic!("{status}: {}", answer.json()),
        }
        progress.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_second_process_on_the_same_data_is_told_whose_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let data = directory.path().to_str().unwrap();
    let second = output_of(leasehold().args(["serve", "--listen", "127.0.0.1:0", "--data", data]));
    assert_eq!(second.status.code(), Some(3));
    let said = String::from_utf8(second.stderr).unwrap();
    let expected = format!("the data directory {data} is in use by process {};", server.pid());
    assert!(said.contains(&expected), "{said}");
    server.client().call("GET", "/readyz", "").unwrap().expect(200);
}

#[test]
fn damaged_data_is_refused_with_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut client = server.client();
    for number in 0..50 {
        let claim = format!("{{\"resource\":\"here be damage {number:02}\",\"timeout\":3600}}");
        client.call("POST", "/v1/claims/", &claim).unwrap().expect(201);
    }
    let (status, _) = server.stop(Signal::TERM);
    assert!(status.success(), "only a clean end leaves all of it in the database");

    let path = directory.path().join("leasehold.db");
    let sound = std::fs::read(&path).unwrap();
    // SQLite may leave copies behind in the unused part of a page, so each place is damaged.
    let needle = b"here be damage 25";
    let places: Vec<usize> = (0..sound.len() - needle.len()).filter(|&at| sound[at..].starts_with(needle)).collect();
    assert!(!places.is_empty(), "names are stored as they are");
    let data = directory.path().to_str().unwrap();
    for offset in [0, 8, needle.len()] {
        let mut damaged = sound.clone();
        for place in &places {
            damaged[place + offset] ^= 0x20;
        }
        std::fs::write(&path, &damaged).unwrap();
        let refused = output_of(leasehold().args(["serve", "--listen", "127.0.0.1:0", "--data", data]));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("leasehold.db") && said.contains("is damaged"), "{said}");
        assert!(said.contains("restore the data from a backup"), "{said}");
    }
    // Nothing was touched by refusing: with the bytes as they were it opens.
    std::fs::write(&path, &sound).unwrap();
    let server = Launch::on(directory.path()).start();
    let listed = server.client().call("GET", "/v1/claims/?status=active", "").unwrap().expect(200);
    assert_eq!(listed.json().as_array().map(Vec::len), Some(50));
}
