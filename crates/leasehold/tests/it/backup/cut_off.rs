//! A restore that is killed at every step that another process could see. It leaves the old data, the new data, or a
//! directory that no server starts on; never one in which a server would begin afresh, as tokens would then begin
//! again.

use std::path::Path;

use super::{Borrower, check};
use crate::support::{Ended, Launch, done, is_killed_at, part_of_the_machine, report, run, utf8};

/// The system calls at which it is killed, at each of the first so many. All calls that change names, and some that
/// write files that have no final name yet.
const CALLS: [(&str, usize); 9] = [
    ("mkdir", usize::MAX),
    ("rename", usize::MAX),
    ("unlink", usize::MAX),
    ("unlinkat", usize::MAX),
    ("fsync", usize::MAX),
    ("copy_file_range", 1),
    ("ftruncate", 2),
    ("fdatasync", 2),
    ("pwrite64", 2),
];

/// The data directory is damaged or unfinished (`Exit::Damaged`).
const DAMAGED: i32 = 4;

/// The result of a killed restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Old,
    New,
    /// No server starts on it.
    Unfinished,
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_the_new_or_what_nobody_starts_on() {
    let _machine = part_of_the_machine();
    let scratch = tempfile::tempdir().unwrap();
    let (old, backup) = (scratch.path().join("old"), scratch.path().join("backup.db"));
    let server = Launch::on(&old).start();
    let mut borrower = Borrower::new(&server);
    borrower.borrow();
    done(&["backup", "--data", utf8(&old), "--to", utf8(&backup)]);
    borrower.borrow();
    // Killed, so that there is a log to be moved, too.
    server.kill();
    let last_token = borrower.last_token;

    let (mut olds, mut news, mut unfinished) = (0, 0, 0);
    for (call, most) in CALLS {
        for nth in 1..=most {
            let data = scratch.path().join(format!("{call}-{nth}"));
            copy_directory(&old, &data);
            if !is_killed_at(&["restore", "--force", "--from", utf8(&backup), "--data", utf8(&data)], call, nth) {
                assert!(nth > 1, "{call} is not called at all");
                break;
            }
            match left_in(&data, last_token) {
                Left::Old => olds += 1,
                Left::New => news += 1,
                Left::Unfinished => unfinished += 1,
            }
            done(&["restore", "--force", "--from", utf8(&backup), "--data", utf8(&data)]);
            let found = check(utf8(&data));
            assert_eq!(found["held"]["pool"], 1, "after {call} {nth}: {found}");
            assert!(found["last_token"].as_u64().unwrap() > last_token, "after {call} {nth}: {found}");
            std::fs::remove_dir_all(&data).unwrap();
        }
    }
    report(format_args!(
        "backup: a restore killed at {} calls left the old data {olds} times, the new {news} times, and {unfinished} times what \
         no server starts on; repeated, each was whole",
        olds + news + unfinished,
    ));
    assert!(olds > 0 && news > 0 && unfinished > 10, "{olds} {news} {unfinished}");
}

/// A server's reading of the directory, and that `check` agrees.
fn left_in(data: &Path, last_token: u64) -> Left {
    let (code, ..) = run(&["check", "--data", utf8(data)]);
    match Launch::on(data).try_start() {
        Err(Ended { status, log }) => {
            assert_eq!((status.code(), code), (Some(DAMAGED), Some(DAMAGED)), "{}: {log}", data.display());
            assert!(log.contains("run leasehold restore or leasehold migrate again"), "{log}");
            Left::Unfinished
        }
        Ok(server) => {
            assert_eq!(code, Some(0), "{}", data.display());
            let mut borrower = Borrower::new(&server);
            borrower.borrow();
            let token = borrower.last_token;
            assert!(token > last_token, "{}: token {token} after {last_token}", data.display());
            server.kill();
            if token == last_token + 1 { Left::Old } else { Left::New }
        }
    }
}

fn copy_directory(from: &Path, to: &Path) {
    // A data directory is its owner's alone.
    let mut builder = std::fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}
