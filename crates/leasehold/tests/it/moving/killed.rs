//! A move that is killed at one instant after another: what is left can be served from one side at most, and the same
//! command goes on until it comes to its end, with everything there.

use std::process::Stdio;
use std::time::Duration;

use leasehold_testbed::Etcd;

use super::{is_same, lend, picture, run, stop, utf8};
use crate::support::{Launch, leasehold, part_of_the_machine, report};

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

#[test]
fn a_move_that_is_killed_leaves_one_side_and_goes_on() {
    let _machine = part_of_the_machine();
    let etcd = Etcd::one();
    let store = format!("etcd://{}/killed", etcd.hosts());
    let scratch = tempfile::tempdir().unwrap();
    let (data, back) = (scratch.path().join("data"), scratch.path().join("back"));
    let server = Launch::on(&data).start();
    let lent = lend(&server);
    let before = picture(&server, &lent);
    stop(server);

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
        // Whatever was left, once more comes to the end; of a directory that has its data by now it says so.
        let (code, _, said) = run(args);
        assert!(code == Some(0) || said.contains("there is data in"), "{said}");
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
