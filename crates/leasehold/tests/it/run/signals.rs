//! Signals in both directions, before the command runs and while it does.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use rustix::process::Signal;

use super::{PATIENCE, Running, ended, is_free, leasehold, memory, run, until};

#[test]
fn signals_are_passed_on_to_the_command() {
    let server = memory();
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::INT, "INT"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
        (Signal::ALARM, "ALRM"),
    ] {
        let script = format!("trap 'echo got {name}; exit 9' {name}; echo up; while :; do sleep 0.05; done");
        let mut running = Running::start(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", &script]));
        assert_eq!(running.line(), "up");
        running.signal(signal);
        assert_eq!(running.line(), format!("got {name}"));
        assert_eq!(running.end().0.code(), Some(9));
        assert!(is_free(&server, "a"));
    }
}

#[test]
fn a_command_that_dies_of_an_interrupt_takes_front_along() {
    let server = memory();
    let mut running =
        Running::start(&mut run(server.addr, &["--lock", "a", "--", "sh", "-c", "echo up; exec sleep 60"]));
    assert_eq!(running.line(), "up");
    running.signal(Signal::INT);
    assert_eq!(running.end().0.signal(), Some(Signal::INT.as_raw()));
    assert!(is_free(&server, "a"));
}

#[test]
fn a_signal_while_waiting_ends_the_wait_and_leaves_nothing() {
    let server = memory();
    let mut first = Running::start(&mut run(server.addr, &["--claim", "a", "--", "sh", "-c", "echo up; sleep 60"]));
    assert_eq!(first.line(), "up");
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let mut second = Running::start(&mut run(server.addr, &["--claim", "a", "--", "echo", "never"]));
        let waiting =
            || server.client().call("GET", "/v1/claims/?status=waiting", "").unwrap().json().as_array().unwrap().len();
        until("it waits", PATIENCE, || (waiting() == 1).then_some(()));
        second.signal(signal);
        assert_eq!(second.end().0.code(), Some(code));
        assert_eq!(waiting(), 0, "withdrawn");
    }
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    let server = memory();
    let script = "trap '' HUP; exec \"$0\" run --url \"$1\" --lock a -- sh -c 'echo $$; sleep 1; echo alive'";
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_leasehold")).arg(format!("http://{}", server.addr));
    let mut running = Running::start(&mut command);
    let child = running.pid();
    running.signal(Signal::HUP);
    rustix::process::kill_process(child, Signal::HUP).unwrap();
    assert_eq!(running.line(), "alive");
    assert_eq!(running.end().0.code(), Some(0));
}

#[test]
fn the_command_begins_with_an_empty_mask_and_default_dispositions() {
    let server = memory();
    let (_, printed, _) =
        ended(&mut run(server.addr, &["--lock", "a", "--", "grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"]));
    for line in printed.lines() {
        let mask = u64::from_str_radix(line.rsplit('\t').next().unwrap(), 16).unwrap();
        // Not those above 31, which are the C library's.
        assert_eq!(mask & 0x7fff_ffff, 0, "{printed}");
    }
    assert_eq!(printed.lines().count(), 2, "{printed}");
}

#[cfg(target_os = "linux")]
#[test]
fn as_the_first_process_of_a_container_it_reaps_and_hears_signals() {
    let server = memory();
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc", ours, "run", "--url"]);
    command.arg(format!("http://{}", server.addr)).args(["--lock", "a", "--", "sh", "-c"]);
    command.arg("(sleep 0.1 &) ; sleep 0.5; ps -e -o stat= | grep -c Z; cat /proc/1/cmdline | tr '\\0' ' '; kill -TERM 1; sleep 60");
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let (status, printed, said) = ended(&mut command);
    if said.contains("unshare: ") {
        // The machine does not let users make namespaces; the subreaper is tested beside this.
        assert_eq!(status, Some(1), "{said}");
        return;
    }
    let mut lines = printed.lines();
    assert_eq!(lines.next(), Some("0"), "no zombies: {printed} {said}");
    assert!(lines.next().unwrap().contains("leasehold run"), "{printed}");
    assert_eq!(status, Some(143), "{said}");
    drop(leasehold());
}

/// The processes of `run` itself have small pages, and start sooner for it.
#[test]
#[cfg(target_os = "linux")]
fn the_command_has_the_pages_that_run_has() {
    let server = memory();
    let line = |text: &str| text.lines().find(|line| line.starts_with("THP_enabled:")).map(str::to_owned);
    let ours = line(&std::fs::read_to_string("/proc/self/status").unwrap());
    let (code, status, said) = ended(&mut run(server.addr, &["--lock", "a", "--", "cat", "/proc/self/status"]));
    assert_eq!((code, line(&status)), (Some(0), ours), "{said}");
}
