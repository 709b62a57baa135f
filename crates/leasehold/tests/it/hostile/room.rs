//! One connection more than there is room for: by our own limit, where it is told so, and by the operating system's, where
//! it has to wait. Those who are inside go on, and there is room again as soon as somebody leaves.

use std::time::Duration;

use super::{PROBE_MAX, probe};
use crate::support::{Client, Launch, PATIENCE, Server, random_uuid, report, until};

const CONNECTIONS_MAX: usize = 8;

#[test]
fn one_connection_past_the_limit_is_told_when_to_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).arg("--max-connections").arg(CONNECTIONS_MAX.to_string()).start();
    let mut inside: Vec<Client> = (0..CONNECTIONS_MAX).map(|_| server.client()).collect();
    // An answer shows that a connection is in, and not only in the backlog.
    inside.iter_mut().for_each(is_served);

    let mut turned_away = 0;
    for _ in 0..40 {
        let mut outside = server.client();
        let answer = outside.receive().unwrap().expect(503);
        assert_eq!((answer.header("retry-after"), answer.header("connection")), (Some("1"), Some("close")));
        assert_eq!(answer.text("error"), "too many connections");
        assert_eq!(outside.rest(PATIENCE).unwrap(), b"", "one answer, and the end");
        turned_away += 1;
        if turned_away % 10 == 0 {
            inside.iter_mut().for_each(is_served);
        }
    }
    // Whoever sends first and reads later is told as well.
    let mut outside = server.client();
    outside.send("POST", "/lock?client=outside", &[], b"").unwrap();
    outside.receive().unwrap().expect(503);

    for _ in 0..5 {
        // Each that leaves makes room for exactly one.
        inside.pop();
        let mut next = until("there is room again", PATIENCE, || {
            let mut client = server.client();
            client.call("GET", "/healthz", "").is_ok_and(|answer| answer.status == 200).then_some(client)
        });
        is_served(&mut next);
        inside.push(next);
        server.client().receive().unwrap().expect(503);
    }
    let holder = inside[0].call("GET", "/lock", "").unwrap().expect(200).text("holder");
    assert_eq!(holder, "", "what was turned away was not done");
    report(format_args!(
        "hostile: {turned_away} connections past {CONNECTIONS_MAX} got their 503, and room was found 5 of 5 times after"
    ));
}

fn is_served(client: &mut Client) {
    client.call("GET", "/healthz", "").unwrap().expect(200);
}

const FILES_MAX: u32 = 256;
const COMERS: usize = 400;

#[test]
fn running_out_of_files_stops_nobody_who_is_inside() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::with_open_files(directory.path(), FILES_MAX).start();
    let mut inside = server.client();
    is_served(&mut inside);
    for round in 0..3 {
        let (comers, let_in) = exhaust(&server);
        // Whoever is inside gets all of it: reads, and changes that have to become durable.
        use_a_pool(&mut inside);
        let left_at = std::time::Instant::now();
        drop(comers);
        let slowest = until("a newcomer is served again", PATIENCE, || {
            let took = probe(&server);
            (took < PROBE_MAX).then_some(took)
        });
        report(format_args!(
            "hostile: round {round} of {COMERS} connections with {FILES_MAX} files: {let_in} served, the rest waited; {} ms \
             after they left a newcomer was served within {} ms",
            left_at.elapsed().as_millis(),
            slowest.as_millis(),
        ));
    }
    // It says so, and not with every attempt.
    let log = server.log();
    let complaints = log.lines().filter(|line| line.contains("could not accept a connection")).count();
    assert!((1..=3 * 100).contains(&complaints), "{complaints} lines: {log}");
    let (status, _) = server.stop(rustix::process::Signal::TERM);
    assert!(status.success(), "{status}");
}

/// Connects until nobody is let in any more. The connections, and how many of them were served.
fn exhaust(server: &Server) -> (Vec<Client>, usize) {
    let mut comers: Vec<Client> = (0..COMERS).map(|_| server.client()).collect();
    let mut let_in = 0;
    for comer in &mut comers {
        comer.send("GET", "/healthz", &[], b"").unwrap();
    }
    server.wait_for_line("could not accept a connection");
    for comer in &mut comers {
        match comer.receive_within(Duration::from_millis(300)) {
            Ok(answer) => {
                answer.expect(200);
                let_in += 1;
            }
            // They are let in in the order they came.
            Err(_) => break,
        }
    }
    assert!(let_in > 150 && let_in < FILES_MAX as usize, "{let_in} served");
    (comers, let_in)
}

fn use_a_pool(client: &mut Client) {
    let path = format!("/l/{}", random_uuid());
    client.call("PUT", &path, "{\"count\":1}").unwrap().expect(200);
    let lease = client.call("POST", &format!("{path}/borrow"), "{\"ttl\":60}").unwrap().expect(200).text("lease");
    let returned = client.call("POST", &format!("{path}/return"), &format!("{{\"lease\":\"{lease}\"}}")).unwrap();
    assert_eq!(returned.expect(200).json()["returned"], true);
    client.call("DELETE", &path, "").unwrap().expect(200);
}
