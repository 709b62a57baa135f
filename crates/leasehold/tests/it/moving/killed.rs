//! A move that is killed at one instant after another: what is left can be served from one side at most, and the same
//! command goes on until it comes to its end, with everything there.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use leasehold_testbed::Etcd;
use serde_json::Value;

use super::{Lent, is_same, lend, picture, stop};
use crate::support::{Launch, done, is_killed_at, leasehold, part_of_the_machine, report, run, utf8};

/// The first instant. Each of the next ones is later by a third, as it is not known how long a move takes here.
const FIRST: Duration = Duration::from_millis(10);

/// No move takes as long.
const LAST: Duration = Duration::from_secs(30);

/// Runs it and kills it after this long. Returns whether it came to its end before, be it with a refusal: one that was
/// killed at its very end has done its work.
fn is_done_within(args: &[&str], after: Duration) -> bool {
    let mut child =
        leasehold().args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let ended = child.try_wait().unwrap();
    if ended.is_none() {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    ended.is_some()
}

/// Says whether a server would start on the directory, and a node on the store.
fn served(data: &str, store: &str) -> (bool, bool) {
    let data = run(&["check", "--data", data]).0 == Some(0);
    let (code, printed, _) = run(&["check", "--json", "--store", store]);
    (data, code == Some(0) && printed.contains("\"moved_to\": null"))
}

/// A data directory that is not served, with something of everything in it.
fn lent_in(data: &Path) -> (Lent, Value) {
    let server = Launch::on(data).start();
    let lent = lend(&server);
    let before = picture(&server, &lent);
    stop(server);
    (lent, before)
}

#[test]
fn a_move_that_is_killed_leaves_one_side_and_goes_on() {
    let _machine = part_of_the_machine();
    let (etcd, scratch) = (Etcd::one(), tempfile::tempdir().unwrap());
    let store = format!("etcd://{}/killed", etcd.hosts());
    let (data, back) = (scratch.path().join("data"), scratch.path().join("back"));
    let (lent, before) = lent_in(&data);

    let moves = [
        (["migrate", "--from", utf8(&data), "--to", &store], utf8(&data)),
        (["migrate", "--from", &store, "--to", utf8(&back)], utf8(&back)),
    ];
    let mut found = [[0; 3]; 2];
    for ((args, directory), found) in moves.iter().zip(&mut found) {
        let mut after = FIRST;
        loop {
            let is_done = is_done_within(args, after);
            let (in_directory, in_store) = served(directory, &store);
            assert!(!(in_directory && in_store), "both sides could be served, killed after {after:?}");
            assert!(after < LAST, "a move does not end: {found:?}");
            after = after * 6 / 5;
            found[usize::from(in_directory) + 2 * usize::from(in_store)] += 1;
            if is_done {
                break;
            }
        }
        // Whatever was left, once more comes to the end, or says that it was there before.
        done(args);
    }
    let server = Launch::on(&back).start();
    is_same(&before, &picture(&server, &lent));
    report(format_args!("moving: killed in {} instants; neither side, the directory, the store: {found:?}", {
        found.iter().flatten().sum::<usize>()
    }));
    // A fast machine leaves few instants in which to kill it.
    assert!(found.iter().all(|of| of[0] + of[1] + of[2] > 1), "{found:?}");
    stop(server);
}

/// The calls that change names in a data directory, and those that make them durable.
const CALLS: [&str; 4] = ["mkdir", "rename", "unlinkat", "fsync"];

#[test]
fn a_move_out_that_is_killed_at_any_change_of_names_goes_on() {
    let _machine = part_of_the_machine();
    let (etcd, scratch) = (Etcd::one(), tempfile::tempdir().unwrap());
    let store = format!("etcd://{}/names", etcd.hosts());
    let (data, back) = (scratch.path().join("data"), scratch.path().join("back"));
    let (lent, before) = lent_in(&data);
    done(&["migrate", "--from", utf8(&data), "--to", &store]);

    let args = ["migrate", "--from", &store, "--to", utf8(&back)];
    let (mut killed, mut whole) = (0, 0);
    for call in CALLS {
        for nth in 1.. {
            if !is_killed_at(&args, call, nth) {
                assert!(nth > 1, "{call} is not called at all");
                break;
            }
            let (in_directory, in_store) = served(utf8(&back), &store);
            assert!(!(in_directory && in_store), "both sides could be served, killed at {call} {nth}");
            // It removes nothing before the database is in its place.
            assert!(in_directory || call != "unlinkat", "killed at {call} {nth}: all was done, and no server starts");
            killed += 1;
            whole += usize::from(in_directory);
            done(&args);
            assert_eq!(run(&["check", "--data", utf8(&back)]).0, Some(0), "killed at {call} {nth}");
            std::fs::remove_dir_all(&back).unwrap();
        }
        std::fs::remove_dir_all(&back).unwrap();
    }
    done(&args);
    let server = Launch::on(&back).start();
    is_same(&before, &picture(&server, &lent));
    stop(server);
    report(format_args!("moving: killed at {killed} changes of names, {whole} times with all in the directory"));
    assert!(whole > 0 && whole < killed, "{whole} of {killed}");
}
