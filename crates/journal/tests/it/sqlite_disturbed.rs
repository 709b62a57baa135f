//! Files that are taken away from under an open store. Every append after that is refused, since no restart would find
//! it, and what was acknowledged before is there once the files are back.

use std::fs::File;
use std::path::Path;

use leasehold_journal::store::sqlite::Upkeep;
use leasehold_journal::store::{SqliteOpener, SqliteReader, StoreError};
use leasehold_journal::{Batch, Position};

use crate::conformance::{self, Appender, Found, PARTITION, records, try_open};
use crate::sqlite::{Sqlite, scratch};

const DATABASE: &str = "leasehold.db";
const LOG: &str = "leasehold.db-wal";

/// A disturbance of the files, and how it is undone.
struct Case {
    name: &'static str,
    disturb: fn(&Path, &Path),
    said: &'static str,
    /// `None`: it cannot be undone, and a start is refused.
    mend: Option<fn(&Path, &Path)>,
}

fn move_file(from: &Path, to: &Path, name: &str) {
    std::fs::rename(from.join(name), to.join(name)).unwrap();
}

fn replace(directory: &Path, aside: &Path, name: &str) {
    move_file(directory, aside, name);
    std::fs::copy(aside.join(name), directory.join(name)).unwrap();
}

fn cut(directory: &Path, name: &str, by: u64) {
    let file = File::options().write(true).open(directory.join(name)).unwrap();
    let len = file.metadata().unwrap().len();
    assert!(len >= by && by > 0);
    file.set_len(len - by).unwrap();
}

fn bytes(directory: &Path, name: &str) -> u64 {
    directory.join(name).metadata().unwrap().len()
}

const CASES: &[Case] = &[
    Case {
        name: "the directory is renamed",
        disturb: |data, aside| std::fs::rename(data, aside.join("data")).unwrap(),
        said: "leasehold.db-wal was removed or renamed while it was in use",
        mend: Some(|data, aside| std::fs::rename(aside.join("data"), data).unwrap()),
    },
    Case {
        name: "the directory is replaced by a copy",
        disturb: |data, aside| {
            std::fs::rename(data, aside.join("data")).unwrap();
            std::fs::create_dir(data).unwrap();
            for name in [DATABASE, LOG] {
                std::fs::copy(aside.join("data").join(name), data.join(name)).unwrap();
            }
        },
        said: "leasehold.db-wal was replaced while it was in use",
        mend: Some(|data, aside| {
            std::fs::remove_dir_all(data).unwrap();
            std::fs::rename(aside.join("data"), data).unwrap();
        }),
    },
    Case {
        name: "the database is removed",
        disturb: |data, aside| move_file(data, aside, DATABASE),
        said: "leasehold.db was removed or renamed while it was in use",
        mend: Some(|data, aside| move_file(aside, data, DATABASE)),
    },
    Case {
        name: "the log is removed",
        disturb: |data, aside| move_file(data, aside, LOG),
        said: "leasehold.db-wal was removed or renamed while it was in use",
        mend: Some(|data, aside| move_file(aside, data, LOG)),
    },
    Case {
        name: "the database is replaced",
        disturb: |data, aside| replace(data, aside, DATABASE),
        said: "leasehold.db was replaced while it was in use",
        mend: Some(|data, aside| move_file(aside, data, DATABASE)),
    },
    Case {
        name: "the log is replaced",
        disturb: |data, aside| replace(data, aside, LOG),
        said: "leasehold.db-wal was replaced while it was in use",
        mend: Some(|data, aside| move_file(aside, data, LOG)),
    },
    Case {
        name: "the last byte of the database is cut off",
        disturb: |data, _| cut(data, DATABASE, 1),
        said: "leasehold.db was truncated while it was in use",
        mend: None,
    },
    Case {
        name: "all of the database is cut off",
        disturb: |data, _| cut(data, DATABASE, bytes(data, DATABASE)),
        said: "leasehold.db was truncated while it was in use",
        mend: None,
    },
    Case {
        name: "the last byte of the log is cut off",
        disturb: |data, _| cut(data, LOG, 1),
        said: "leasehold.db-wal was truncated while it was in use",
        mend: None,
    },
    Case {
        name: "all of the log is cut off",
        disturb: |data, _| cut(data, LOG, bytes(data, LOG)),
        said: "leasehold.db-wal was truncated while it was in use",
        mend: None,
    },
];

#[test]
fn nothing_is_acknowledged_once_a_file_was_removed_replaced_or_truncated() {
    for Case { name, disturb, said, mend } in CASES {
        let (root, aside) = (scratch(), scratch());
        let data = root.path().join("data");
        let Found { mut opened, .. } = try_open(&SqliteOpener::new(&data)).unwrap();
        let mut appender = Appender::new(&opened);
        let store = &mut *opened.store;
        let acknowledged: Vec<Batch> = [10, 700, 10].map(|changes| appender.append(store, changes)).into();

        disturb(&data, aside.path());
        let batch = appender.batch(10);
        let refused = store.append(&batch).unwrap_err();
        assert!(matches!(refused, StoreError::Disturbed { .. }), "{name}: {refused:?}");
        assert!(refused.to_string().contains(said), "{name}: {refused}");
        let again = store.append(&batch).unwrap_err();
        assert!(matches!(again, StoreError::Poisoned { .. }), "{name}: {again:?}");
        drop(opened);

        if let Some(mend) = mend {
            mend(&data, aside.path());
            let found = try_open(&SqliteOpener::new(&data)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(found.batches, records(&acknowledged), "{name}");
        } else {
            let refused = try_open(&SqliteOpener::new(&data)).map(|found| found.opened).unwrap_err().to_string();
            assert!(refused.contains("a file was truncated while it was in use"), "{name}: {refused}");
            let checked = SqliteReader::of_directory(&data, PARTITION).map(drop).unwrap_err().to_string();
            assert!(checked.contains("is damaged"), "{name}: {checked}");
        }
    }
}

/// The log is copied and started over, the database grows and gives room back: none of this counts as a disturbance.
#[test]
fn housekeeping_disturbs_nothing() {
    let subject = Sqlite::fresh();
    let upkeep = Upkeep { wal_soft_frames: 16, slack_pages: 4, vacuum_pages: 3, ..Upkeep::default() };
    let Found { mut opened, .. } = try_open(&SqliteOpener::new(subject.path()).with_upkeep(upkeep)).unwrap();
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    let (mut longest, mut shortest_after) = (0, u64::MAX);
    for round in 0..6 {
        let upto = appender.append(store, 200).last;
        store.begin_checkpoint(upto).unwrap();
        for _ in 0..if round % 2 == 0 { 40 } else { 1 } {
            store.put_chunk(&vec![7; 64 << 10]).unwrap();
            appender.append(store, 1);
        }
        store.finish_checkpoint().unwrap();
        while store.maintain().unwrap() {
            appender.append(store, 1);
        }
        for _ in 0..60 {
            appender.append(store, 1);
            store.maintain().unwrap();
        }
        let now = bytes(subject.path(), DATABASE);
        if now > longest {
            (longest, shortest_after) = (now, now);
        }
        shortest_after = shortest_after.min(now);
    }
    assert!(shortest_after < longest, "the file was never cut: {shortest_after} of {longest} bytes");
}

#[test]
fn a_database_that_lost_its_content_is_refused_with_and_without_its_log() {
    for with_log in [true, false] {
        let directory = scratch();
        {
            let Found { mut opened, .. } = try_open(&SqliteOpener::new(directory.path())).unwrap();
            Appender::new(&opened).append(&mut *opened.store, 700);
            let log = std::fs::read(directory.path().join(LOG)).unwrap();
            drop(opened);
            if with_log {
                std::fs::write(directory.path().join(LOG), log).unwrap();
            }
        }
        File::create(directory.path().join(DATABASE)).unwrap();
        let before = std::fs::read(directory.path().join(LOG)).ok();
        assert_eq!(before.as_ref().is_some_and(|log| log.len() > 4096), with_log);
        let expected = "leasehold.db is damaged: it is empty, but it has held data; nothing was changed; restore";
        for _ in 0..2 {
            let checked = SqliteReader::of_directory(directory.path(), PARTITION).map(drop).unwrap_err().to_string();
            assert!(checked.contains(expected), "{checked}");
            let opened = try_open(&SqliteOpener::new(directory.path()));
            let refused = opened.map(|found| found.opened).unwrap_err().to_string();
            assert!(refused.contains(expected), "{refused}");
        }
        assert_eq!(std::fs::read(directory.path().join(LOG)).ok(), before, "nothing was changed");
    }
}

/// The mark of a database that is being made says that nothing was ever in it.
#[test]
fn a_database_that_was_never_made_is_made() {
    let directory = scratch();
    for name in [DATABASE, "leasehold.making"] {
        File::create(directory.path().join(name)).unwrap();
    }
    let Found { opened, batches, .. } = try_open(&SqliteOpener::new(directory.path())).unwrap();
    assert_eq!((opened.head, batches.len()), (Position::START, 0));
    assert!(!directory.path().join("leasehold.making").exists());
    drop(opened);
    conformance::open(&Sqlite(directory));
}
