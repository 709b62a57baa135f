//! The SQLite store: tests beyond the conformance suite. Damage has a file of its own.

use std::path::Path;
use std::process::Command;

use leasehold_journal::store::sqlite::Upkeep;
use leasehold_journal::store::{Opener, Room, SqliteOpener, StoreError};
use leasehold_journal::{Position, SqliteReader};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::conformance::{self, Appender, Found, PARTITION, Subject, chunks, records, try_open};

/// A directory in memory where there is one: opening a store a thousand times would otherwise mostly be syncing, and
/// the worth of a sync cannot be tested from here anyway.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    // A data directory is private to its owner.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    if memory.is_dir() { builder.tempdir_in(memory).unwrap() } else { builder.tempdir().unwrap() }
}

pub(crate) struct Sqlite(pub(crate) TempDir);

impl Sqlite {
    pub(crate) fn fresh() -> Self {
        Sqlite(scratch())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn database(&self) -> Connection {
        Connection::open(self.path().join("leasehold.db")).unwrap()
    }

    fn refusal(&self) -> String {
        try_open(&SqliteOpener::new(self.path())).map(|found| found.opened).unwrap_err().to_string()
    }
}

impl Subject for Sqlite {
    const IS_EXCLUSIVE: bool = true;

    fn opener(&self) -> Box<dyn Opener> {
        Box::new(SqliteOpener::new(self.path()))
    }

    fn damage(&self, position: Position) {
        let sql = "SELECT position, record FROM batch WHERE position >= ?1 ORDER BY position LIMIT 1";
        let database = self.database();
        let (row, mut record): (u64, Vec<u8>) =
            database.query_row(sql, (position.0,), |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let middle = record.len() / 2;
        record[middle] ^= 1;
        database.execute("UPDATE batch SET record = ?2 WHERE position = ?1", (row, record)).unwrap();
    }
}

conformance::conformance!(Sqlite::fresh());

fn file_bytes(directory: &Path, name: &str) -> u64 {
    directory.join(name).metadata().map_or(0, |file| file.len())
}

/// The same test in two roles: the second process is this one started again with `SECOND` set.
#[test]
fn a_second_process_is_told_who_is_there() {
    const SECOND: &str = "LEASEHOLD_TEST_SECOND_PROCESS";
    if let Some(directory) = std::env::var_os(SECOND) {
        let error = try_open(&SqliteOpener::new(directory)).map(|found| found.opened).unwrap_err();
        println!("refused: {error}");
        return;
    }
    let subject = Sqlite::fresh();
    let held = conformance::open(&subject);
    let second = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::a_second_process_is_told_who_is_there", "--nocapture"])
        .env(SECOND, subject.path())
        .output()
        .unwrap();
    let said = String::from_utf8(second.stdout).unwrap();
    let expected = format!(
        "refused: the data directory {} is in use by process {}; one server at a time can have it open\n",
        subject.path().display(),
        std::process::id()
    );
    assert!(second.status.success() && said.contains(&expected), "{said}");
    drop(held);
    conformance::open(&subject);
}

#[cfg(unix)]
#[test]
fn the_directory_is_made_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("a/b");
    let Found { mut opened, .. } = try_open(&SqliteOpener::new(&directory)).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&directory), 0o700);
    Appender::new(&opened).append(&mut *opened.store, 10);
    let modes: Vec<(String, u32)> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry.path())))
        .collect();
    assert!(modes.len() >= 4 && modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
}

/// Every single bit that lets others in, and none that does not.
#[cfg(unix)]
#[test]
fn a_directory_that_others_can_look_into_is_refused_and_files_are_closed() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    try_open(&SqliteOpener::new(&directory)).unwrap();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    for bit in 0..6 {
        set(&directory, 0o700 | 1 << bit);
        let refused = try_open(&SqliteOpener::new(&directory)).map(|found| found.opened).unwrap_err();
        assert!(matches!(refused, StoreError::Exposed { .. }), "{refused:?}");
        let (shown, mode) = (directory.display(), 0o700 | 1 << bit);
        let said = refused.to_string();
        assert!(said.contains(&format!("{shown} is open to others (mode {mode:04o})")), "{said}");
        assert!(said.ends_with(&format!("close it with: chmod 700 {shown}")), "{said}");
    }
    set(&directory, 0o700);
    for name in ["leasehold.db", "leasehold.lock"] {
        set(&directory.join(name), 0o644);
    }
    try_open(&SqliteOpener::new(&directory)).unwrap();
    for name in ["leasehold.db", "leasehold.lock"] {
        assert_eq!(directory.join(name).metadata().unwrap().permissions().mode() & 0o7777, 0o600, "{name}");
    }
}

#[test]
fn a_newer_version_is_left_alone() {
    let subject = Sqlite::fresh();
    conformance::open(&subject);
    subject.database().pragma_update(None, "user_version", 2).unwrap();
    let message = subject.refusal();
    assert!(message.contains("leasehold.db cannot be opened: it was written by a newer version"), "{message}");
    subject.database().pragma_update(None, "user_version", 1).unwrap();
    conformance::open(&subject);
}

#[test]
fn a_database_of_somebody_else_is_left_alone() {
    let subject = Sqlite::fresh();
    subject.database().execute_batch("CREATE TABLE customers (name TEXT)").unwrap();
    let message = subject.refusal();
    assert!(message.contains("not a Leasehold database"), "{message}");
}

#[test]
fn another_partition_is_refused() {
    let subject = Sqlite::fresh();
    conformance::open(&subject);
    let result = subject.opener().open(PARTITION + 1, &mut |_| Ok(()));
    assert!(result.unwrap_err().to_string().contains("it holds partition 4, not 5"));
}

#[test]
fn a_full_disk_ends_the_store_and_loses_nothing_acknowledged() {
    let subject = Sqlite::fresh();
    let small = SqliteOpener::new(subject.path()).with_max_bytes(256 << 10);
    let Found { mut opened, .. } = try_open(&small).unwrap();
    let mut appender = Appender::new(&opened);
    let mut acknowledged = Vec::new();
    let error = loop {
        let batch = appender.batch(500);
        match opened.store.append(&batch) {
            Ok(()) => acknowledged.push(batch),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("leasehold.db"), "{error}");
    assert!(acknowledged.len() > 50);

    // From now on nothing is acknowledged, and it says why.
    let again = opened.store.append(acknowledged.last().unwrap()).unwrap_err().to_string();
    assert!(again.starts_with("the store stopped after an error: no room left in"), "{again}");
    for refused in [opened.store.maintain().map(drop), opened.store.begin_checkpoint(Position(1))] {
        assert!(matches!(refused, Err(StoreError::Poisoned { .. })), "{refused:?}");
    }
    drop(opened);

    let Found { mut opened, batches, .. } = conformance::open(&subject);
    assert_eq!(batches, records(&acknowledged));
    Appender::new(&opened).append(&mut *opened.store, 500);
}

#[test]
fn a_checkpoint_that_does_not_fit_is_given_up_and_appends_go_on() {
    let subject = Sqlite::fresh();
    let Found { mut opened, .. } = try_open(&SqliteOpener::new(subject.path()).with_max_bytes(1 << 20)).unwrap();
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    let mut appended = vec![appender.append(store, 1)];
    store.begin_checkpoint(Position(1)).unwrap();
    let full = (0..100).find_map(|_| store.put_chunk(&vec![7; 100 << 10]).err()).unwrap();
    assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
    assert!(matches!(store.finish_checkpoint(), Err(StoreError::Misused(_))));
    appended.push(appender.append(store, 1));
    // The room that its chunks took is free again.
    while store.maintain().unwrap() {}
    store.begin_checkpoint(Position(2)).unwrap();
    store.put_chunk(&chunks(Position(2), 1, 1)[0]).unwrap();
    store.finish_checkpoint().unwrap();
    appended.push(appender.append(store, 1));
    drop(opened);
    assert_eq!(conformance::open(&subject).batches, records(&appended[2..]));
}

/// Fifty MiB through the log, in appends of about 64 KiB. Returns the longest the log has been.
fn write_much(subject: &Sqlite, mut between: impl FnMut(&mut dyn leasehold_journal::Store)) -> u64 {
    let Found { mut opened, .. } = conformance::open(subject);
    let mut appender = Appender::new(&opened);
    let mut longest = 0;
    for _ in 0..800 {
        appender.append(&mut *opened.store, 32 << 10);
        between(&mut *opened.store);
        longest = longest.max(file_bytes(subject.path(), "leasehold.db-wal"));
    }
    longest
}

#[test]
fn the_write_ahead_log_stays_short_even_if_nobody_maintains() {
    let subject = Sqlite::fresh();
    let longest = write_much(&subject, |_| ());
    assert!((32 << 20..40 << 20).contains(&longest), "{longest}");
}

#[test]
fn the_write_ahead_log_stays_short() {
    let subject = Sqlite::fresh();
    let longest = write_much(&subject, |store| {
        store.maintain().unwrap();
    });
    assert!(longest < 32 << 20, "{longest}");
    let Found { opened, .. } = conformance::open(&subject);
    assert_eq!(opened.notes, Vec::<String>::new());
    drop(opened);
    assert_eq!(file_bytes(subject.path(), "leasehold.db-wal"), 0, "closing leaves nothing behind");
}

/// The log grows while a reader is there, and is started over by and by once none is.
#[test]
fn the_write_ahead_log_is_started_over_when_a_reader_has_gone() {
    let subject = Sqlite::fresh();
    let upkeep = Upkeep { wal_soft_frames: 64, ..Upkeep::default() };
    let found = try_open(&SqliteOpener::new(subject.path()).with_upkeep(upkeep)).unwrap();
    let mut opened = found.opened;
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    let mut write = |appends: usize| {
        for _ in 0..appends {
            appender.append(store, 1);
            store.maintain().unwrap();
        }
        file_bytes(subject.path(), "leasehold.db-wal")
    };
    write(1);
    let reader = SqliteReader::of_directory(subject.path(), PARTITION).unwrap();
    let grown = write(600);
    assert!(grown > 600 * 4096, "{grown}");
    drop(reader);
    // The thread copies in its own time; from then on the file is long enough.
    let settled = (0..100).any(|_| write(200) == write(200));
    assert!(settled, "the log grows on");
}

#[test]
fn room_is_given_back_when_the_past_is_gone() {
    let subject = Sqlite::fresh();
    let Found { mut opened, .. } = conformance::open(&subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    appender.append(store, 1);
    store.begin_checkpoint(Position(1)).unwrap();
    for _ in 0..160 {
        store.put_chunk(&vec![7; 256 << 10]).unwrap();
    }
    store.finish_checkpoint().unwrap();
    assert_eq!(store.sizes().checkpoint_bytes, 40 << 20);
    let parts = chunks(Position(1), 1, 1);
    store.begin_checkpoint(Position(1)).unwrap();
    store.put_chunk(&parts[0]).unwrap();
    store.finish_checkpoint().unwrap();
    while store.maintain().unwrap() {}
    assert_eq!(store.room(), Room::Enough);
    drop(opened);
    let database = file_bytes(subject.path(), "leasehold.db");
    assert!(database < 20 << 20, "{database}");
    assert_eq!(conformance::open(&subject).chunks, parts);
}
