//! The state is bounded in bytes: an anonymous caller that fills it gets 503, the process lives within the memory it
//! was given, each start afterwards succeeds within the same, and `prune` makes a directory small again.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Client, Launch, Server, gauge, leasehold, output_of, report};

/// Claims until one is refused; how many were taken.
fn fill(client: &mut Client, prefix: &str, metadata_len: usize) -> usize {
    let metadata = "x".repeat(metadata_len - 2);
    for nth in 0.. {
        let body = format!(r#"{{"resource": "{prefix}{nth}", "timeout": 1e9, "metadata": "{metadata}"}}"#);
        let answer = client.call("POST", "/v1/claims/", &body).unwrap();
        match answer.status {
            201 => {}
            503 => {
                let said = answer.text("error");
                assert!(said.contains("state_max") && said.contains("releases and renewals go on"), "{said}");
                assert_eq!(answer.header("retry-after"), Some("1"));
                return nth;
            }
            status => panic!("{status}: {}", answer.json()),
        }
    }
    unreachable!("it is full before")
}

fn first_claim(client: &mut Client, resource: &str) -> Value {
    let listed = client.call("GET", &format!("/v1/claims/?resource={resource}"), "").unwrap().expect(200);
    listed.json()[0].clone()
}

#[cfg(target_os = "linux")]
#[test]
fn a_caller_that_fills_it_is_refused_and_every_start_afterwards_succeeds() {
    // Enough for the program, its threads and a state of a few dozen MiB; without a bound on the state this aborts.
    const ADDRESS_SPACE_KIB: u32 = 700_000;
    let directory = tempfile::tempdir().unwrap();
    let start = || Launch::with_address_space(directory.path(), ADDRESS_SPACE_KIB).start();
    let (mut taken, mut max_of_all) = (0, 0);
    for round in 0..3 {
        let mut server = start();
        let mut client = server.client();
        let max = gauge(&mut client, "leasehold_state_bytes_max");
        assert!(max < u64::from(ADDRESS_SPACE_KIB) * 1024 / 2, "half of what is left: {max}");
        taken += fill(&mut client, &format!("r{round}-"), 16 * 1024);
        let used = gauge(&mut client, "leasehold_state_bytes");
        // Each start calculates with the remaining address space, which differs by a few pages.
        max_of_all = max.max(max_of_all);
        assert!(used <= max_of_all && used > max - 32 * 1024, "{used} of {max}");
        // Existing claims go on.
        let claim = first_claim(&mut client, "r0-0");
        let url = format!("/v1/claims/{}/", claim["id"].as_str().unwrap());
        client.call("PATCH", &url, r#"{"ttl": 60}"#).unwrap().expect(200);
        assert!(server.is_alive());
        if round == 0 {
            let resident = server.resident_kib().unwrap() * 1024;
            report(format_args!("state: {taken} claims of 16 KiB, {used} bytes accounted, {resident} resident"));
        }
        server.kill();
    }
    // Claims that end make room.
    let server = start();
    let mut client = server.client();
    let claim = first_claim(&mut client, "r0-1");
    let url = format!("/v1/claims/{}/", claim["id"].as_str().unwrap());
    client.call("PATCH", &url, r#"{"status": "released"}"#).unwrap().expect(204);
    let body = r#"{"resource": "one-more", "timeout": 30}"#;
    client.call("POST", "/v1/claims/", body).unwrap().expect(201);
    drop(client);
    server.stop(Signal::TERM);
}

#[test]
fn a_timeout_is_cut_to_thirty_days_by_default() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let body = r#"{"resource": "db", "timeout": 1e9}"#;
    let claim = server.client().call("POST", "/v1/claims/", body).unwrap().expect(201).json();
    assert_eq!(claim["timeout"].as_f64(), Some(30.0 * 86_400.0));
}

fn small(directory: &Path, state_max: &str) -> Server {
    Launch::on(directory).arg("--state-max").arg(state_max).start()
}

fn prune(directory: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = output_of(leasehold().args(["prune", "--data"]).arg(directory).args(args));
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[test]
fn a_directory_that_grew_too_large_is_pruned_and_tokens_still_rise() {
    let directory = tempfile::tempdir().unwrap();
    let server = small(directory.path(), "8MiB");
    let mut client = server.client();
    let taken = fill(&mut client, "big-", 16 * 1024);
    let keep = first_claim(&mut client, "big-0");
    let pool = "/l/9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01";
    // Running, it may be looked at and not be changed.
    let (code, said) = prune(directory.path(), &["--resource", "big-"]);
    assert!(code == Some(0) && said.contains("nothing was changed"), "{said}");
    let (code, said) = prune(directory.path(), &["--resource", "big-", "--yes"]);
    assert!(code == Some(3) && said.contains("stop the server first"), "{said}");
    server.stop(Signal::TERM);

    // With a lower bound it starts, says so, and takes nothing on.
    let server = small(directory.path(), "2MiB");
    server.wait_for_line("leasehold prune");
    let mut client = server.client();
    client.call("PUT", pool, r#"{"count": 1}"#).unwrap().expect(503);
    client.call("GET", &format!("/v1/claims/{}/", keep["id"].as_str().unwrap()), "").unwrap().expect(200);
    server.stop(Signal::TERM);

    for (args, expected) in [
        (&[][..], "prune needs a filter"),
        (&["--kind", "door"], "--kind must be one of pool, claim, lock"),
        (&["--status", "gone"], "--status must be one of waiting, active, ended, unused"),
        (&["--older-than", "5"], "--older-than must be a duration"),
        (&["--metadata-over", "much"], "--metadata-over must be a size"),
    ] {
        let (code, said) = prune(directory.path(), args);
        assert!(code == Some(2) && said.contains(expected), "{args:?}: {said}");
    }
    for args in [&["--kind", "lock"][..], &["--metadata-over", "16KiB"], &["--owner", "ann"], &["--older-than", "1h"]] {
        let (code, said) = prune(directory.path(), args);
        assert!(code == Some(0) && said.contains("0 claims and 0 unused resources match"), "{args:?}: {said}");
    }
    let (_, said) = prune(directory.path(), &["--metadata-over", "16383", "--status", "active"]);
    assert!(said.contains(&format!("{taken} claims and 0 unused resources match")), "{said}");
    assert!(said.contains("… and") && said.lines().count() == 22, "{said}");

    let (code, said) = prune(directory.path(), &["--resource", "big-1", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    let expected = (0..taken).filter(|nth| nth.to_string().starts_with('1')).count();
    assert!(said.contains(&format!("{expected} claims and 0 unused resources removed")), "{said}");
    let output = output_of(leasehold().args(["check", "--json", "--data"]).arg(directory.path()));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(checked["held"]["claim"].as_u64(), Some((taken - expected) as u64));
    assert_eq!(checked["last_token"].as_u64(), Some(taken as u64), "removing gives no token out");
    let bytes = checked["state_bytes"].as_u64().unwrap();

    let server = small(directory.path(), "8MiB");
    let mut client = server.client();
    assert_eq!(gauge(&mut client, "leasehold_state_bytes"), bytes, "check shows the served state");
    let kept = first_claim(&mut client, "big-0");
    assert_eq!((&kept["id"], &kept["token"]), (&keep["id"], &keep["token"]));
    assert_eq!(kept["metadata"], keep["metadata"], "the rest is whole");
    let answer = client.call("POST", "/v1/claims/", r#"{"resource": "new", "timeout": 30}"#).unwrap().expect(201);
    assert_eq!(answer.number("token"), taken as u64 + 1);
    client.call("PUT", pool, r#"{"count": 1}"#).unwrap().expect(200);
    server.stop(Signal::TERM);

    // An unused registration goes, too, and a queue moves up.
    let (_, said) = prune(directory.path(), &["--status", "unused", "--yes"]);
    assert!(said.contains("0 claims and 1 unused resource removed"), "{said}");
    assert!(!said.contains("9f1c2e7a"), "a pool's id is a secret: {said}");
    let server = small(directory.path(), "8MiB");
    let mut client = server.client();
    client.call("GET", pool, "").unwrap().expect(404);
    let waits = client.call("POST", "/v1/claims/", r#"{"resource": "big-0", "timeout": 30}"#).unwrap().expect(202);
    server.stop(Signal::TERM);
    let (_, said) = prune(directory.path(), &["--resource", "big-", "--metadata-over", "1kB", "--yes"]);
    assert!(said.contains("removed"), "{said}");
    let server = small(directory.path(), "8MiB");
    let mut client = server.client();
    let next = client.call("GET", &format!("/v1/claims/{}/", waits.text("id")), "").unwrap().expect(200);
    assert_eq!(next.text("status"), "active", "the next in line has it");
    assert_eq!(next.number("token"), taken as u64 + 2);
}

/// V4: under load, a list by waiters or by expiry that is paged through shows every resource once.
#[test]
fn pages_in_an_order_that_moves_miss_nothing_and_repeat_nothing() {
    const RESOURCES: usize = 120;
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let mut client = server.client();
    for nth in 0..RESOURCES {
        let body = format!(r#"{{"resource": "r{nth:03}", "timeout": 3600}}"#);
        client.call("POST", "/v1/claims/", &body).unwrap().expect(201);
    }
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let pages_of = |client: &mut Client, sort: &str| {
        let (mut seen, mut pages, mut after) = (Vec::new(), 0, String::new());
        loop {
            let target = format!("/v1/observe/resources?limit=7&sort={sort}{after}");
            let page = client.call("GET", &target, "").unwrap().expect(200).json();
            let keys = page["resources"].as_array().unwrap().iter();
            seen.extend(keys.map(|line| line["key"].as_str().unwrap().to_owned()));
            pages += 1;
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return (seen, pages),
            }
        }
    };
    let (mut lists, mut pages) = (0, 0);
    std::thread::scope(|scope| {
        let (is_over, server) = (&is_over, &server);
        for worker in 0..3_usize {
            scope.spawn(move || {
                let mut client = server.client();
                for nth in (worker..).step_by(7) {
                    if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("r{:03}", nth % RESOURCES);
                    // A waiter comes, the holder's deadline moves, and some waiters go.
                    let body = format!(r#"{{"resource": "{name}", "timeout": {}}}"#, 100 + nth % 900);
                    let claim = client.call("POST", "/v1/claims/", &body).unwrap().expect(202).text("id");
                    let holder = first_claim(&mut client, &name)["id"].as_str().unwrap().to_owned();
                    let ttl = format!(r#"{{"ttl": {}}}"#, 1_000 + nth * 37 % 5_000);
                    client.call("PATCH", &format!("/v1/claims/{holder}/"), &ttl).unwrap().expect(200);
                    if nth % 3 != 0 {
                        let gone = r#"{"status": "withdrawn"}"#;
                        client.call("PATCH", &format!("/v1/claims/{claim}/"), gone).unwrap().expect(204);
                    }
                }
            });
        }
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for sort in ["waiting", "expiry", "name"].into_iter().cycle().take(30) {
                let (seen, of_it) = pages_of(&mut client, sort);
                let different: BTreeSet<&String> = seen.iter().collect();
                assert_eq!(different.len(), RESOURCES, "by {sort}, some are missing");
                assert_eq!(seen.len(), RESOURCES, "by {sort}, some came twice");
                (lists, pages) = (lists + 1, pages + of_it);
            }
        }));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Err(panic) = judged {
            std::panic::resume_unwind(panic);
        }
    });
    report(format_args!("paging: {lists} lists of {RESOURCES} in {pages} pages under load, none missed, none twice"));
}
