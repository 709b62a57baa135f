//! The stream of events and the second listener, against the real binary: told at once, resumed exactly, slow readers
//! cut, and no other caller held up.

use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::{
    Client, EventStream, Launch, PATIENCE, Server, gauge, machine_to_itself, random_uuid, report, until,
};

/// How often a lock is taken before the next one's turn: an answer with its whole history stays below the bytes that
/// such an answer may have, however fast the machine is.
const ROUNDS_OF_A_LOCK: u64 = 500;

/// Takes and gives back locks of its own, until told to stop; how often.
fn churn(server: &Server, number: usize, stop: &AtomicBool) -> u64 {
    let mut client = server.client();
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let lock = format!("/lock?client=c{number}&job=job-{number}-{}", rounds / ROUNDS_OF_A_LOCK);
        client.call("POST", &format!("{lock}&ttl=60s"), "").unwrap().expect(200);
        client.call("DELETE", &lock, "").unwrap().expect(200);
        rounds += 1;
    }
    rounds
}

#[test]
fn a_lock_that_is_taken_is_seen_by_another_connection_at_once() {
    for launch in
        [Launch::on(tempfile::tempdir().unwrap().path()), Launch::with(&["--listen", "127.0.0.1:0", "--memory"])]
    {
        let server = launch.start();
        let mut stream = EventStream::open(server.addr, "/v1/events", None);
        let hello = stream.expect("hello");
        assert_eq!(hello.data["heartbeat_s"], 10);
        let mut filtered = EventStream::open(server.addr, "/v1/events?kind=claim&resource=db", None);
        filtered.expect("hello");

        let mut client = server.client();
        client.call("POST", "/v1/claims/", "{\"resource\":\"other\",\"timeout\":60}").unwrap().expect(201);
        let began = Instant::now();
        client.call("POST", "/lock?client=ann&job=deploy&ttl=60s", "").unwrap().expect(200);
        stream.expect("granted");
        let granted = stream.expect("granted");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        assert_eq!(granted.data["key"], "lock:deploy");
        assert_eq!(
            (&granted.data["client"], &granted.data["slot"], &granted.data["ttl_s"]),
            (&"ann".into(), &0.into(), &60.0.into())
        );
        client.call("DELETE", "/lock?client=ann&job=deploy", "").unwrap().expect(200);
        assert_eq!(stream.expect("released").data["token"], granted.data["token"]);

        let claim = client.call("POST", "/v1/claims/", "{\"resource\":\"db\",\"timeout\":60}").unwrap().expect(201);
        let granted = filtered.expect("granted");
        assert_eq!(granted.data["claim"], claim.text("id"), "and nothing of the others");
    }
}

#[test]
fn a_reader_that_reconnects_misses_nothing_and_hears_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let stop = AtomicBool::new(false);
    let mut heard: Vec<u64> = Vec::new();
    let mut reconnects = 0;
    let mut last_id = EventStream::open(server.addr, "/v1/events", None).expect("hello").id;
    let rounds: Vec<u64> = std::thread::scope(|scope| {
        let churning: Vec<_> = (0..4)
            .map(|number| {
                scope.spawn({
                    let (server, stop) = (&server, &stop);
                    move || churn(server, number, stop)
                })
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let mut stream = EventStream::open(server.addr, "/v1/events", last_id.as_deref());
            stream.expect("hello");
            for _ in 0..=(reconnects % 97) {
                let event = stream.next_named().unwrap();
                heard.push(event.position());
                last_id = event.id;
            }
            reconnects += 1;
        }
        stop.store(true, Ordering::Relaxed);
        churning.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    // Across a restart, too: what happened last is in the journal.
    let (status, _) = server.stop(Signal::TERM);
    assert!(status.success(), "{status}");
    let server = Launch::on(directory.path()).start();
    let mut stream = EventStream::open(server.addr, "/v1/events", last_id.as_deref());
    stream.expect("hello");
    while (heard.len() as u64) < rounds.iter().sum::<u64>() * 2 {
        let event = stream.next_named().unwrap();
        assert_ne!(event.name, "gap");
        heard.push(event.position());
    }
    assert!(heard.is_sorted_by(|earlier, later| earlier < later), "one came twice or out of order");
    // A lock that is free is claimed, granted and released: three changes, of which two are told.
    let expected: Vec<u64> = positions(server.addr, &rounds);
    assert_eq!(heard, expected, "one was left out");
    report(format_args!("events: {} heard over {reconnects} reconnects and a restart, each once", heard.len()));
}

/// Where each grant and release stands, by the histories of the locks.
fn positions(addr: SocketAddr, rounds: &[u64]) -> Vec<u64> {
    let mut client = Client::connect(addr).unwrap();
    let mut all = Vec::new();
    for (number, rounds) in rounds.iter().enumerate() {
        for lock in 0..rounds.div_ceil(ROUNDS_OF_A_LOCK) {
            let path = format!("/v1/observe/resources/lock:job-{number}-{lock}/history?limit=10000");
            let history = client.call("GET", &path, "").unwrap().expect(200).json();
            let events = history["events"].as_array().unwrap();
            let taken = ROUNDS_OF_A_LOCK.min(rounds - lock * ROUNDS_OF_A_LOCK);
            assert_eq!(events.len() as u64, taken * 2, "the history of lock {number}-{lock} is whole");
            let ids = events.iter().map(|event| event["id"].as_str().unwrap());
            all.extend(ids.map(|id| id.split('.').nth(1).unwrap().parse::<u64>().unwrap()));
        }
    }
    all.sort_unstable();
    all
}

#[test]
fn a_reader_that_does_not_read_is_cut_and_nobody_else_notices() {
    let _quiet = machine_to_itself();
    let launch = Launch::with(&["--listen", "127.0.0.1:0", "--memory", "--events-kept", "1000"]);
    let server = launch.arg("--log-level").arg("info,leasehold_server=warn").start();
    // A window as small as can be, so that the server soon has nowhere to write.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    socket.connect(&server.addr.into()).unwrap();
    let stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut slow = EventStream::on(stream, "/v1/events", None);
    let mut last_id = slow.expect("hello").id;

    let mut client = server.client();
    // Long names fill what the kernel holds for it.
    let job = "j".repeat(1_000);
    let lock = format!("/lock?job={job}&client={}", "c".repeat(1_000));
    let (mut slowest, mut rounds) = (Duration::ZERO, 0);
    let began = Instant::now();
    while gauge(&mut client, "leasehold_events_dropped_total") < 10_000 {
        for _ in 0..100 {
            let asked = Instant::now();
            client.call("POST", &format!("{lock}&ttl=60s"), "").unwrap().expect(200);
            client.call("DELETE", &lock, "").unwrap().expect(200);
            slowest = slowest.max(asked.elapsed());
            rounds += 1;
        }
        assert!(began.elapsed() < PATIENCE, "it takes too long to fill the socket");
    }
    assert!(slowest < Duration::from_secs(2), "a slow reader held others up for {slowest:?}");
    // Now it reads: what was on its way already, and then why there is no more.
    let lagging = loop {
        let event = slow.next_named().expect("it is told before it is cut");
        if event.name == "lagging" {
            break event;
        }
        last_id = event.id;
    };
    assert_eq!(lagging.data["resume_from"].as_str(), last_id.as_deref());
    assert!(slow.next().is_none(), "that was the last of it");
    assert_eq!(gauge(&mut client, "leasehold_event_readers_cut_total"), 1);
    until("it is gone", PATIENCE, || (gauge(&mut client, "leasehold_event_readers") == 0).then_some(()));
    // Coming back it is told of the gap, and goes on.
    let mut back = EventStream::open(server.addr, "/v1/events", last_id.as_deref());
    back.expect("hello");
    let gap = back.expect("gap");
    assert_eq!(gap.data["reason"], "older than what is kept");
    back.next_named().unwrap();
    report(format_args!("events: a reader that did not read was cut; the slowest of {rounds} others took {slowest:?}"));
}

#[test]
fn open_streams_do_not_hold_up_the_end() {
    let _quiet = machine_to_itself();
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let mut streams: Vec<_> = (0..50).map(|_| EventStream::open(server.addr, "/v1/events", None)).collect();
    for stream in &mut streams {
        stream.expect("hello");
    }
    let mut client = server.client();
    assert_eq!(gauge(&mut client, "leasehold_event_readers"), 50);
    // Idle ones are not cut meanwhile; the deadline between requests does not apply to them.
    let began = Instant::now();
    let (status, log) = server.stop(Signal::TERM);
    let took = began.elapsed();
    assert!(status.success(), "{log}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    for mut stream in streams {
        assert!(stream.next_named().is_none(), "it ends");
        assert!(stream.seen.ends_with(": shutting down\n\n"), "{}", stream.seen);
    }
    report(format_args!("events: stopped in {took:?} with 50 streams open"));
}

#[test]
fn a_second_address_takes_what_is_for_operators() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--admin-listen").arg("127.0.0.1:0").start();
    let (mut callers, mut operators) = (server.client(), Client::connect(server.operators()).unwrap());
    callers.call("POST", "/lock?client=ann&job=deploy", "").unwrap().expect(200);
    for (method, target, body) in [
        ("GET", "/", ""),
        ("GET", "/assets/index.html", ""),
        ("GET", "/metrics", ""),
        ("GET", "/v1/observe/resources", ""),
        ("GET", "/v1/observe/resources/lock:deploy", ""),
        ("GET", "/v1/observe/series", ""),
        ("POST", "/v1/admin/revoke", "{\"key\":\"lock:deploy\",\"token\":99}"),
    ] {
        operators.call(method, target, body).unwrap().expect(200);
        callers.call(method, target, body).unwrap().expect(404);
    }
    callers.call("GET", "/v1/events", "").unwrap().expect(404);
    EventStream::open(server.operators(), "/v1/events", None).expect("hello");
    for (method, target, elsewhere) in [
        ("GET", "/lock?job=deploy", 405),
        ("GET", "/v1/resources/", 404),
        ("GET", "/v1/fence?kind=lock&resource=deploy&token=1", 404),
    ] {
        callers.call(method, target, "").unwrap().expect(200);
        operators.call(method, target, "").unwrap().expect(elsewhere);
    }
    for target in ["/healthz", "/readyz", "/v1/claims/"] {
        callers.call("GET", target, "").unwrap().expect(200);
        operators.call("GET", target, "").unwrap().expect(200);
    }
    let told = |client: &mut Client| client.call("GET", "/v1/whoami", "").unwrap().expect(200).text("api_url");
    assert_eq!(told(&mut callers), "http://localhost", "where the caller found it");
    assert_eq!(told(&mut operators), format!("http://{}", server.addr), "where callers find it");
    operators.call("POST", "/lock?job=deploy&client=bob", "").unwrap().expect(405);
    operators.call("DELETE", "/lock?job=deploy&client=ann", "").unwrap().expect(200);
    let (status, log) = server.stop(Signal::TERM);
    assert!(status.success(), "{log}");
}

#[test]
fn a_pool_keeps_its_name_across_restarts_and_not_across_data() {
    let directory = tempfile::tempdir().unwrap();
    let pool = random_uuid();
    let key_of = |server: &Server| {
        let mut client = server.client();
        client.call("PUT", &format!("/l/{pool}"), "{\"count\":1}").unwrap().expect(200);
        client.call("POST", "/v1/observe/pool", &format!("{{\"id\":\"{pool}\"}}")).unwrap().expect(200).text("key")
    };
    let server = Launch::on(directory.path()).start();
    let before = key_of(&server);
    server.kill();
    let server = Launch::on(directory.path()).start();
    // Asked for by its key before any caller named the pool: the service looks for it.
    let shown = server.client().call("GET", &format!("/v1/observe/resources/{before}"), "").unwrap().expect(200);
    assert_eq!(shown.json()["capacity"], 1);
    assert_eq!(key_of(&server), before);
    let elsewhere = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    assert_ne!(key_of(&elsewhere), before);
}

#[test]
fn a_long_list_comes_page_by_page_and_everything_in_it_once() {
    const RESOURCES: usize = 20_000;
    let _quiet = machine_to_itself();
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    std::thread::scope(|scope| {
        for part in 0..8 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client();
                for number in (part..RESOURCES).step_by(8) {
                    let claim = format!("{{\"resource\":\"r{number:06}\",\"timeout\":600}}");
                    client.call("POST", "/v1/claims/", &claim).unwrap().expect(201);
                }
            });
        }
    });
    let mut client = server.client();
    let began = Instant::now();
    let first = client.call("GET", "/v1/observe/resources?limit=500", "").unwrap().expect(200).json();
    let took = began.elapsed();
    assert_eq!((&first["total"], &first["matched"]), (&RESOURCES.into(), &RESOURCES.into()));
    // Page by page, everything comes once.
    let (mut seen, mut next) = (500, first["next"].as_str().map(str::to_owned));
    let mut last = "r000499".to_owned();
    while let Some(cursor) = next.filter(|_| seen < 3_000) {
        let page = client
            .call("GET", &format!("/v1/observe/resources?limit=500&after={cursor}"), "")
            .unwrap()
            .expect(200)
            .json();
        for resource in page["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            assert!(name > last.as_str(), "{name} after {last}");
            name.clone_into(&mut last);
            seen += 1;
        }
        next = page["next"].as_str().map(str::to_owned);
    }
    assert_eq!(last, "r002999");
    let found = client.call("GET", "/v1/observe/resources?q=R01234", "").unwrap().expect(200).json();
    assert_eq!(found["matched"], 10);
    // A leap lands where counting would, whatever the order.
    let mut leap = |query: &str| {
        let began = Instant::now();
        let page =
            client.call("GET", &format!("/v1/observe/resources?limit=2&{query}"), "").unwrap().expect(200).json();
        let names = page["resources"].as_array().unwrap().iter().map(|line| line["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), page["next"].is_null(), began.elapsed())
    };
    let (names, is_last, leapt) = leap("offset=12345");
    assert_eq!((names, is_last), (vec!["r012345".to_owned(), "r012346".to_owned()], false));
    assert_eq!(leap("offset=19999&sort=waiting").0, ["r019999"]);
    assert_eq!(leap("offset=9&q=r01234").0, ["r012349"]);
    assert_eq!(leap("offset=3&after=0.claim:r000100").0, ["r000104", "r000105"]);
    assert_eq!((leap("offset=20000").0, leap("offset=20000").1), (vec![], true));
    report(format_args!("observe: {RESOURCES} resources, a page of 500 of them in {took:?}, a leap in {leapt:?}"));
}
