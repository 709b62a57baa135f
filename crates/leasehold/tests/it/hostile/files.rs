//! As many connections as the operating system allows files: the limit is raised where the process may do that and
//! heeded where not, and running into it stops no client that is inside.

use std::time::{Duration, Instant};

use super::{PROBE_MAX, is_served, probe};
use crate::support::{Client, Launch, PATIENCE, Server, random_uuid, report, until};

const FILES_MAX: u32 = 256;
const COMERS: usize = 400;

#[test]
fn a_soft_limit_of_files_is_raised_and_a_hard_one_is_heeded() {
    let directory = tempfile::tempdir().unwrap();
    let files_of = |server: &Server| {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap().to_owned();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let raised =
        Launch::with_open_files_for_now(directory.path(), FILES_MAX).arg("--connections-max").arg("500").start();
    assert!(files_of(&raised) > 500, "{}", files_of(&raised));
    let mut inside: Vec<Client> = (0..COMERS).map(|_| raised.client()).collect();
    inside.iter_mut().for_each(is_served);
    assert!(!raised.log().contains("files may be open"), "{}", raised.log());
    drop((inside, raised));

    let server = Launch::with_open_files(directory.path(), FILES_MAX).start();
    assert_eq!(files_of(&server), u64::from(FILES_MAX));
    server.wait_for_line("no more than 256 files may be open, which is enough for 128 connections");
    let mut inside: Vec<Client> = (0..128).map(|_| server.client()).collect();
    inside.iter_mut().for_each(is_served);
    // A client that does not fit is told so, and does not wait in vain.
    server.client().receive().unwrap().expect(503);
    assert!(!server.log().contains("could not accept"), "{}", server.log());
}

#[test]
fn running_out_of_files_stops_nobody_who_is_inside() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    // Later than the start, which would have seen to it that there is room.
    server.allow_open_files(FILES_MAX);
    let began = Instant::now();
    let mut inside = server.client();
    is_served(&mut inside);
    for round in 0..3 {
        let (comers, let_in) = exhaust(&server);
        // A client inside gets full service: reads, and changes that have to become durable.
        use_a_pool(&mut inside);
        let left_at = Instant::now();
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
    let enough = 1 + usize::try_from(began.elapsed().as_secs() / 5).unwrap();
    assert!((1..=enough).contains(&complaints), "{complaints} lines: {log}");
    let (status, _) = server.stop(rustix::process::Signal::TERM);
    assert!(status.success(), "{status}");
}

/// Connects until no further connection is let in. The connections, and how many of them were served.
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
