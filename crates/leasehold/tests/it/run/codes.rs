//! The results: exit codes, output, the environment, and nothing left behind.

use serde_json::Value;

use super::{Duration, Instant, PATIENCE, Running, ended, is_free, leasehold, memory, read, run, until};
use crate::support::random_uuid;

#[test]
fn the_exit_code_is_the_commands() {
    let server = memory();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let (status, _, said) = ended(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", script]));
        assert_eq!((status, &*said), (Some(code), ""), "{script}");
        assert!(is_free(&server, "a"), "released after {script}");
    }
}

#[test]
fn what_fails_before_the_start_has_codes_of_its_own() {
    let server = memory();
    let addr = server.addr;
    let refused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nowhere = "00000000-0000-4000-8000-000000000000";
    for (command, code, part) in [
        (&mut run(addr, &["--lock", "a", "--", "no-such-command"]), 127, "no-such-command: command not found"),
        (&mut run(addr, &["--lock", "a", "--", "/etc/passwd"]), 126, "cannot be executed"),
        (&mut run(addr, &["--lock", "a", "--ttl", "2999ms", "--", "true"]), 125, "--ttl must be 3s or more"),
        (&mut run(addr, &["--lock", "a", "--ttl", "x", "--", "true"]), 125, "is not a duration"),
        (&mut run(addr, &["--", "true"]), 125, "--lock"),
        (&mut run(addr, &["--lock", "a"]), 125, "COMMAND"),
        (&mut run(addr, &["--pool", "9f1c2e7a", "--", "true"]), 125, "UUID"),
        (&mut run(addr, &["--pool", nowhere, "--", "true"]), 125, "not found"),
        (&mut run(refused, &["--lock", "a", "--", "true"]), 125, "(from --url): connection refused"),
        (&mut run(refused, &["--lock", "a", "--", "true"]), 125, "leasehold serve"),
    ] {
        let (status, printed, said) = ended(command);
        assert_eq!((status, &*printed), (Some(code), ""), "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
    let by_variable = leasehold()
        .args(["run", "--lock", "a", "--", "true"])
        .env("LEASEHOLD_URL", format!("http://{refused}"))
        .output();
    let said = String::from_utf8(by_variable.unwrap().stderr).unwrap();
    assert!(said.contains("from LEASEHOLD_URL"), "{said}");
    let (status, ..) = ended(&mut run(addr, &["--lock", "a", "--ttl", "3s", "--", "true"]));
    assert_eq!(status, Some(0), "3s is enough");
}

#[test]
fn a_lock_that_is_held_is_told_skipped_or_waited_for() {
    let server = memory();
    let mut first = Running::start(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", "echo up; sleep 60"]));
    assert_eq!(first.line(), "up");
    let begun = Instant::now();
    let (status, printed, said) = ended(&mut run(server.addr, &["--lock", "a", "--no-wait", "--", "echo", "x"]));
    assert_eq!((status, &*printed), (Some(75), ""));
    assert!(said.contains("lock a is held by"), "{said}");
    let (status, ..) =
        ended(&mut run(server.addr, &["--lock", "a", "--wait", "500ms", "--on-conflict-exit", "9", "--", "true"]));
    assert_eq!(status, Some(9));
    let (status, printed, said) =
        ended(&mut run(server.addr, &["--lock", "a", "--no-wait", "--skip", "--", "echo", "x"]));
    assert_eq!((status, &*printed, &*said), (Some(0), "", ""), "skipped quietly");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let mut second = Running::start(&mut run(server.addr, &["--lock", "a", "--", "echo", "mine"]));
    first.signal(rustix::process::Signal::TERM);
    assert_eq!(first.end().0.code(), Some(143));
    assert_eq!(second.line(), "mine");
    assert_eq!(second.end().0.code(), Some(0));
}

#[test]
fn the_command_is_told_what_it_holds_and_no_pool_id() {
    let server = memory();
    let pool = random_uuid();
    server.client().call("PUT", &format!("/l/{pool}"), "{\"count\": 1}").unwrap().expect(200);
    let directory = tempfile::tempdir().unwrap();
    let result = directory.path().join("result.json");
    let file = result.to_str().unwrap();
    let (status, printed, said) =
        ended(&mut run(server.addr, &["--pool", &pool, "--label", "gpus", "--result-file", file, "--", "env"]));
    assert_eq!((status, &*said), (Some(0), ""));
    let value = |name: &str| printed.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
    assert_eq!((value("LEASEHOLD_KIND"), value("LEASEHOLD_SLOT"), value("LEASEHOLD_RESOURCE")), ("pool", "0", "gpus"));
    assert_eq!(value("LEASEHOLD_LEASE").len(), 36);
    assert!(!printed.contains(&pool), "{printed}");
    let told: Value = serde_json::from_str(&read(&result)).unwrap();
    assert_eq!((told["outcome"].as_str(), told["exit"].as_u64()), (Some("ran"), Some(0)));
    assert_eq!(told["token"].to_string(), value("LEASEHOLD_FENCING_TOKEN"));
    assert!(told["held_s"].as_f64().unwrap() > 0.0 && told["waited_s"].as_f64().unwrap() >= 0.0, "{told}");
    let (_, printed, _) = ended(&mut run(
        server.addr,
        &["--claim", "gpu 7", "--", "sh", "-c", "echo $LEASEHOLD_KIND $LEASEHOLD_RESOURCE"],
    ));
    assert_eq!(printed, "claim gpu 7\n");
}

#[test]
fn the_command_is_told_the_name_and_the_data_of_its_slot() {
    let server = memory();
    let pool = random_uuid();
    let slots = r#"{"slots": [{"name": "bench-3", "data": {"port": 9}}]}"#;
    let echo = ["sh", "-c", "echo $LEASEHOLD_SLOT $LEASEHOLD_SLOT_NAME $LEASEHOLD_SLOT_DATA"];
    for (path, what) in
        [(format!("/l/{pool}"), ["--pool", &*pool]), ("/v1/resources/benches".to_owned(), ["--claim", "benches"])]
    {
        server.client().call("PUT", &path, slots).unwrap().expect(200);
        let args: Vec<&str> = what.iter().copied().chain(["--"]).chain(echo).collect();
        let (status, printed, said) = ended(&mut run(server.addr, &args));
        assert_eq!((status, &*printed, &*said), (Some(0), "0 bench-3 {\"port\":9}\n", ""), "{path}");
    }
}

#[test]
fn input_output_and_other_descriptors_are_the_commands() {
    let server = memory();
    let script = "echo in | \"$0\" run --url \"$1\" --lock a -- cat <(echo other) -; echo $?";
    let mut command = std::process::Command::new("bash");
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_leasehold")).arg(format!("http://{}", server.addr));
    assert_eq!(ended(&mut command), (Some(0), "other\nin\n0\n".into(), String::new()));
}

#[test]
fn what_the_command_leaves_in_its_group_is_ended_before_the_release() {
    let server = memory();
    let script = "trap '' TERM; (trap '' TERM; exec sleep 1000) & echo $!; exit 3";
    let mut running = Running::start(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", script]));
    let left = running.pid();
    let (status, said) = running.end();
    assert_eq!(status.code(), Some(3));
    assert!(said.contains("left processes behind"), "{said}");
    assert!(!super::is_alive(left) && is_free(&server, "a"));
}

#[test]
fn what_left_the_group_is_left_alone_and_reaped_when_it_ends() {
    let server = memory();
    let script = "setsid sh -c 'sleep 0.2' & setsid sleep 1000 >/dev/null 2>&1 & echo $!; sleep 1";
    let mut running = Running::start(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", script]));
    let gone = running.pid();
    let (status, _) = running.end();
    assert_eq!(status.code(), Some(0));
    assert!(super::is_alive(gone), "a daemon goes on");
    rustix::process::kill_process(gone, rustix::process::Signal::KILL).unwrap();
    until("it is gone", PATIENCE, || (!super::is_alive(gone)).then_some(()));
}

#[test]
fn waiting_is_told_in_lines_where_there_is_no_terminal() {
    let server = memory();
    let mut first =
        Running::start(&mut run(server.addr, &["--lock", "a", "--name", "ann", "--", "sh", "-c", "echo up; sleep 60"]));
    assert_eq!(first.line(), "up");
    let (status, _, said) = ended(&mut run(server.addr, &["--lock", "a", "--wait", "3s", "--", "true"]));
    assert_eq!(status, Some(75));
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("leasehold: waiting for lock a for 1 s"), "{said}");
    assert!(said.contains("ann/"), "who holds it is told: {said}");
    let (_, _, said) = ended(&mut run(server.addr, &["--lock", "a", "--wait", "3s", "--quiet", "--", "true"]));
    assert_eq!(said, "");
    let (_, _, said) = ended(&mut run(server.addr, &["--lock", "a", "--wait", "3s", "--output", "json", "--", "true"]));
    let events: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        (events[0]["event"].as_str(), events.last().unwrap()["event"].as_str()),
        (Some("waiting"), Some("not_acquired"))
    );
}
