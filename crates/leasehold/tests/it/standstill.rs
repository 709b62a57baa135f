//! Time in which the service could not serve is charged to no lease (S9): a process that is stopped and resumed, and
//! one that was down. Both by the clients' own clocks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{Client, Launch, PATIENCE, Server, gauge, machine_to_itself, random_uuid, report, until};

const LEASES: usize = 10;
const RENEW_EVERY: Duration = Duration::from_millis(300);
const STANDSTILL: Duration = Duration::from_secs(3);

/// A lease and how to renew it.
struct Holder {
    client: Client,
    renewal: (String, String),
    token: u64,
}

#[test]
fn a_stopped_process_costs_nobody_a_lease() {
    let _machine = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    // Without grace, a waiter gets the lock the moment it expires.
    let server = Launch::on(directory.path()).arg("--grace").arg("0s").start();
    let pool = full_pool(&server, LEASES);
    let holders = (0..LEASES).map(|_| Holder::of_pool(&server, &pool)).chain([Holder::of_lock(&server)]).collect();
    let mut rivals = rivals(&server, &pool);

    let is_over = AtomicBool::new(false);
    let renewals = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let holders: Vec<Holder> = holders;
        for holder in holders {
            let (is_over, renewals) = (&is_over, &renewals);
            scope.spawn(move || holder.renew_until(is_over, renewals));
        }
        // Each has renewed a few times, then none can for three times the ttl, then each does again.
        let rounds = |wanted: usize| {
            let target = renewals.load(Ordering::SeqCst) + wanted * (LEASES + 1);
            until("leases are renewed", PATIENCE, || (renewals.load(Ordering::SeqCst) >= target).then_some(()));
        };
        rounds(2);
        server.signal(Signal::STOP);
        std::thread::sleep(STANDSTILL);
        server.signal(Signal::CONT);
        rounds(5);
        is_over.store(true, Ordering::SeqCst);
    });
    let mut client = server.client();
    // The rivals have stood in their queues all along, and only now get their turn.
    let expired_at = Instant::now();
    for rival in &mut rivals {
        rival.receive().unwrap().expect(200);
    }
    let took = expired_at.elapsed();
    assert!(took < Duration::from_secs(3), "leases of a second took {took:?} to end");
    assert_eq!(gauge(&mut client, "leasehold_waiters"), 0);
    report(format_args!(
        "sockets: stopped for {} s under {} leases of 1 s, {} renewals, none lost; they ended {} ms after the last",
        STANDSTILL.as_secs(),
        LEASES + 1,
        renewals.into_inner(),
        took.as_millis()
    ));
}

#[test]
fn downtime_is_not_charged_and_leases_end_soon_after() {
    const TTL: Duration = Duration::from_millis(1_500);
    let _machine = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let pool = full_pool(&server, LEASES);
    let mut client = server.client();
    let leases: Vec<(String, u64)> = (0..LEASES)
        .map(|_| {
            let lease = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":1.5}").unwrap().expect(200);
            (lease.text("lease"), lease.number("token"))
        })
        .collect();
    let claim = client.call("POST", "/v1/claims/", "{\"resource\":\"r\",\"timeout\":1.5}").unwrap().expect(201);
    let claim = format!("/v1/claims/{}/", claim.text("id"));
    server.kill();
    std::thread::sleep(Duration::from_secs(2));

    let server = Launch::on(directory.path()).start();
    let up_at = Instant::now();
    let mut client = server.client();
    for (lease, token) in &leases {
        let shown = client.call("GET", &format!("/l/{pool}/leases/{lease}"), "").unwrap().expect(200);
        assert_eq!(shown.number("token"), *token);
    }
    assert_eq!(client.call("GET", &claim, "").unwrap().text("status"), "active");
    assert!(up_at.elapsed() < TTL, "looking took too long to tell anything");
    until("the leases end", TTL + Duration::from_secs(2), || {
        let pool = client.call("GET", &format!("/l/{pool}"), "").unwrap();
        let claim = client.call("GET", &claim, "").unwrap();
        (pool.number("in_use") == 0 && claim.text("status") == "expired").then_some(())
    });
    let took = up_at.elapsed();
    report(format_args!(
        "sockets: down for 2 s, {LEASES} leases of 1.5 s were held after it and ended {} ms later",
        took.as_millis()
    ));
}

fn full_pool(server: &Server, count: usize) -> String {
    let pool = random_uuid();
    server.client().call("PUT", &format!("/l/{pool}"), &format!("{{\"count\":{count}}}")).unwrap().expect(200);
    pool
}

/// One that wants a slot and one that wants the lock, as soon as either is free.
fn rivals(server: &Server, pool: &str) -> Vec<Client> {
    let borrow = (format!("/l/{pool}/borrow"), "{\"ttl\":60,\"wait\":60}");
    let lock = ("/lock?client=rival&wait=60s".to_owned(), "");
    let rivals = [borrow, lock].map(|(target, body)| {
        let mut rival = server.client();
        rival.send("POST", &target, &[], body.as_bytes()).unwrap();
        rival
    });
    let mut client = server.client();
    until("the rivals wait", PATIENCE, || (gauge(&mut client, "leasehold_waiters") == 2).then_some(()));
    rivals.into()
}

impl Holder {
    fn of_pool(server: &Server, pool: &str) -> Holder {
        let mut client = server.client();
        let lease = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":1}").unwrap().expect(200);
        let body = format!("{{\"lease\":\"{}\",\"ttl\":1}}", lease.text("lease"));
        Holder { client, renewal: (format!("/l/{pool}/renew"), body), token: lease.number("token") }
    }

    fn of_lock(server: &Server) -> Holder {
        let mut client = server.client();
        let target = "/lock?client=holder&ttl=1s";
        let token = client.call("POST", target, "").unwrap().expect(200).number("token");
        Holder { client, renewal: (target.to_owned(), String::new()), token }
    }

    fn renew_until(mut self, is_over: &AtomicBool, renewals: &AtomicUsize) {
        let (target, body) = &self.renewal;
        while !is_over.load(Ordering::SeqCst) {
            let renewed = self.client.call("POST", target, body).unwrap().expect(200);
            assert_eq!(renewed.number("token"), self.token, "a lease was lost and taken again");
            renewals.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(RENEW_EVERY);
        }
    }
}
