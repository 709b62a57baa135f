//! Loss: the command is dead before another holds the lease. And what is no loss: a server that comes back, a front
//! that stands still.

use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use super::cut::Relay;
use super::{PATIENCE, Running, is_alive, is_free, memory, run, until, witness};
use crate::support::Launch;

/// A command and a grandchild that do not want to end. Both say their numbers.
const STUBBORN: &str =
    "trap '' TERM; (trap '' TERM; while :; do sleep 0.02; done) & echo $$; echo $!; while :; do sleep 0.02; done";

#[test]
fn a_cut_network_ends_the_command_and_its_children_before_the_next_holder() {
    let server = memory();
    let relay = Relay::to(server.addr);
    let mut running = Running::start(&mut run(relay.addr, &["--lock", "a", "--ttl", "3s", "--", "sh", "-c", STUBBORN]));
    let [child, grandchild] = [running.pid(), running.pid()];
    relay.cut();
    // The witness waits at the server; what it sees at its grant is what counts.
    witness(&server, "a");
    assert!(!is_alive(child) && !is_alive(grandchild), "dead before another holds it");
    let (status, said) = running.end();
    assert_eq!(status.code(), Some(122), "{said}");
    assert!(said.contains("at risk") && said.contains("the command is ended"), "{said}");
}

#[test]
fn an_orderly_command_gets_time_to_end() {
    let server = memory();
    let relay = Relay::to(server.addr);
    let script = "trap 'echo ending; sleep 0.3; echo ended; exit 0' TERM; echo up; while :; do sleep 0.02; done";
    let args = ["--lock", "a", "--ttl", "3s", "--on-loss-exit", "99", "--", "sh", "-c", script];
    let mut running = Running::start(&mut run(relay.addr, &args));
    assert_eq!(running.line(), "up");
    relay.cut();
    assert_eq!([running.line(), running.line()], ["ending", "ended"]);
    assert_eq!(running.end().0.code(), Some(99));
}

#[test]
fn a_command_that_may_outlive_the_lease_does() {
    let server = memory();
    let relay = Relay::to(server.addr);
    let args = ["--lock", "a", "--ttl", "3s", "--on-loss", "warn", "--", "sh", "-c", "echo up; sleep 5; exit 4"];
    let mut running = Running::start(&mut run(relay.addr, &args));
    assert_eq!(running.line(), "up");
    relay.cut();
    let (status, said) = running.end();
    assert_eq!(status.code(), Some(4), "{said}");
    assert!(said.contains("at risk") && said.contains("is lost"), "{said}");
}

#[test]
fn a_server_that_is_killed_and_comes_back_costs_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let addr = server.addr.to_string();
    let args = ["--lock", "a", "--ttl", "10s", "--", "sh", "-c", "echo $LEASEHOLD_FENCING_TOKEN; sleep 12; echo done"];
    let mut running = Running::start(&mut run(server.addr, &args));
    let token = running.line();
    server.kill();
    let server = Launch::with(&["--listen", &addr, "--data"]).arg(directory.path()).start();
    assert_eq!(running.line(), "done");
    let (status, said) = running.end();
    assert_eq!((status.code(), &*said), (Some(0), ""));
    assert!(is_free(&server, "a"));
    let next = server.client().call("POST", "/lock?job=a&client=next", "").unwrap().expect(200);
    assert!(next.number("token") > token.parse().unwrap());
}

#[test]
fn a_killed_front_leaves_no_command_and_no_lease() {
    let server = memory();
    let mut running = Running::start(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", STUBBORN]));
    let [child, grandchild] = [running.pid(), running.pid()];
    let begun = Instant::now();
    running.signal(Signal::KILL);
    witness(&server, "a");
    assert!(!is_alive(child) && !is_alive(grandchild), "dead before another holds it");
    // Far less than the ttl of a minute: it was given back.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn a_keeper_that_is_killed_or_stopped_is_stood_in_for_by_front() {
    let server = memory();
    for signal in [Signal::KILL, Signal::STOP] {
        let mut running =
            Running::start(&mut run(server.addr, &["--lock", "a", "--ttl", "3s", "--", "sh", "-c", STUBBORN]));
        let [child, grandchild] = [running.pid(), running.pid()];
        kill_process(running.keeper(), signal).unwrap();
        witness(&server, "a");
        assert!(!is_alive(child) && !is_alive(grandchild), "dead before another holds it");
        assert_eq!(running.end().0.code(), Some(122));
        server.client().call("DELETE", "/lock?job=a&client=witness", "").unwrap();
    }
}

#[test]
fn a_front_that_stands_still_keeps_its_lease() {
    let server = memory();
    let args = ["--lock", "a", "--ttl", "3s", "--", "sh", "-c", "echo up; sleep 11; echo done; exit 6"];
    let mut running = Running::start(&mut run(server.addr, &args));
    assert_eq!(running.line(), "up");
    running.signal(Signal::STOP);
    // Three times its ttl.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(9) {
        assert!(!is_free(&server, "a"), "after {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    running.signal(Signal::CONT);
    assert_eq!(running.line(), "done");
    let (status, said) = running.end();
    assert_eq!((status.code(), &*said), (Some(6), ""));
}

#[test]
fn a_revoked_lease_ends_the_command() {
    let server = memory();
    let args = ["--claim", "a", "--ttl", "3s", "--", "sh", "-c", "echo $LEASEHOLD_FENCING_TOKEN; exec sleep 60"];
    let mut running = Running::start(&mut run(server.addr, &args));
    let token = running.line();
    let body = format!("{{\"key\": \"claim:a\", \"token\": {token}}}");
    server.client().call("POST", "/v1/admin/revoke", &body).unwrap().expect(200);
    let (status, said) = running.end();
    assert_eq!(status.code(), Some(122), "{said}");
    assert!(said.contains("revoked"), "{said}");
    until("nothing of it is left", PATIENCE, || is_free(&server, "a").then_some(()));
}

#[test]
fn a_command_that_holds_for_too_long_is_ended() {
    let server = memory();
    let args = ["--lock", "a", "--ttl", "3s", "--max-hold", "2s", "--", "sleep", "60"];
    let begun = Instant::now();
    let mut running = Running::start(&mut run(server.addr, &args));
    assert_eq!(running.end().0.code(), Some(122));
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}
