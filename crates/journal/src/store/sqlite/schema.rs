//! The database itself: how connections are set up, which tables there are, and whether this build may touch them.

use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::PAGE_BYTES;
use crate::store::error::StoreError;

/// "LSHD" in the file's header, so that `file` and this store can tell whose it is.
const APPLICATION_ID: i32 = 0x4c53_4844;
/// The version of the tables. The records in them have their own.
pub(super) const SCHEMA_VERSION: i32 = 1;

/// In place of the version, of data that was moved elsewhere. Builds that know nothing of moves take it for the tables
/// of a later one, and refuse it as well.
const MOVED_VERSION: i32 = 1_000_000;

/// How long to wait for another tool that has the database open.
const BUSY_TIMEOUT_MS: u32 = 5_000;

const TABLES: &str = "
    -- Who owns the stream, and which checkpoint counts. Exactly one row.
    CREATE TABLE stream (
        partition INTEGER PRIMARY KEY,
        epoch INTEGER NOT NULL,
        checkpoint INTEGER
    ) STRICT;
    -- One row a batch, under the position of its last change: the head is the greatest.
    CREATE TABLE batch (
        position INTEGER PRIMARY KEY,
        record BLOB NOT NULL
    ) STRICT;
    -- The number of chunks is filled in when a checkpoint is finished.
    CREATE TABLE checkpoint (
        id INTEGER PRIMARY KEY,
        upto INTEGER NOT NULL,
        chunks INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE chunk (
        checkpoint INTEGER NOT NULL,
        number INTEGER NOT NULL,
        record BLOB NOT NULL,
        PRIMARY KEY (checkpoint, number)
    ) STRICT;
";

/// Opens a connection the way every connection here is set up.
pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(std::time::Duration::from_millis(u64::from(BUSY_TIMEOUT_MS)))?;
    let pages: u64 = connection.pragma_query_value(None, "page_count", |row| row.get(0))?;
    if pages == 0 {
        lay_out(&connection)?;
    }
    use_log(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // A plain fsync on macOS only reaches the drive's cache.
    #[cfg(target_os = "macos")]
    {
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "checkpoint_fullfsync", true)?;
    }
    // `backfill` moves the write-ahead log into the database.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    Ok(connection)
}

/// Sets what can only be set before there is anything in the file.
pub(super) fn lay_out(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")
}

/// Opens a connection that changes nothing. `Still` files leave no trace at all, not even of the log's index.
pub(super) fn connect_to_read(path: &Path, motion: Motion) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match motion {
        Motion::Live => Connection::open_with_flags(path, flags)?,
        Motion::Still => {
            let uri = format!("file:{}?immutable=1", uri_path(path));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)?
        }
    };
    connection.busy_timeout(std::time::Duration::from_millis(u64::from(BUSY_TIMEOUT_MS)))?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// Says whether a file may change while it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    Live,
    Still,
}

fn uri_path(path: &Path) -> String {
    use std::fmt::Write as _;
    let mut uri = String::new();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            _ => write!(uri, "%{byte:02X}").expect("a text takes everything"),
        }
    }
    uri
}

/// Switches to a write-ahead log, or sees that it is there.
fn use_log(connection: &Connection) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA journal_mode = WAL")?;
    // It answers before it commits. Only a caller that reads the next row learns that the commit failed and that SQLite
    // goes on without a log, as it does where it cannot have one. Nothing that this store relies on about logs would
    // hold then.
    let modes = statement.query_map((), |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    match &modes[..] {
        [mode] if mode == "wal" => Ok(()),
        _ => {
            let what = format!("SQLite did not switch to a write-ahead log, but is in mode {}", modes.concat());
            Err(rusqlite::Error::ToSqlConversionFailure(what.into()))
        }
    }
}

/// Returns whether this is a new database, which still needs its tables. Any other database must be ours, of a version
/// we know, and of this partition.
pub(super) fn recognise(connection: &Connection, place: &str, partition: u32) -> Result<bool, StoreError> {
    let failed = |error| store_error("reading the header of the database", place, error);
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).map_err(failed);
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: u64 =
        connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0)).map_err(failed)?;
    let unsupported = |what: String| Err(StoreError::Unsupported { place: place.to_owned(), what });
    match (application, version) {
        (0, 0) if tables == 0 => Ok(true),
        (APPLICATION_ID, SCHEMA_VERSION) => {
            let found = connection.query_row("SELECT partition FROM stream", (), |row| row.get::<_, u32>(0));
            match found.map_err(failed)? {
                found if found == partition => Ok(false),
                found => unsupported(format!("it holds partition {found}, not {partition}")),
            }
        }
        (APPLICATION_ID, MOVED_VERSION) => {
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, [u8; 16]>(0)?, row.get(1)?));
            let (id, other) = connection.query_row("SELECT id, other FROM moved", (), row).map_err(failed)?;
            Err(StoreError::Moved { place: place.to_owned(), id: u128::from_le_bytes(id), other })
        }
        (APPLICATION_ID, newer) if newer > SCHEMA_VERSION => unsupported(format!(
            "it was written by a newer version of Leasehold (tables of version {newer}, this one knows {SCHEMA_VERSION}); \
             run that version, or a later one"
        )),
        (APPLICATION_ID, unknown) => {
            Err(StoreError::damaged(place, format!("there never was a version {unknown} of it")))
        }
        _ => unsupported("it is not a Leasehold database; choose another directory".to_owned()),
    }
}

/// The random bytes that this stream has had from its first day, or, for a stream from before there were any, from
/// today on. Nothing else depends on the table, so its version stays: an older build passes it over.
pub(super) fn secret(connection: &mut Connection) -> rusqlite::Result<[u8; 32]> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    if !has_secret(&transaction)? {
        transaction.execute_batch(SECRET_TABLE)?;
        transaction.execute_batch("INSERT INTO secret VALUES (randomblob(32))")?;
    }
    let bytes = transaction.query_row("SELECT bytes FROM secret", (), |row| row.get(0))?;
    transaction.commit()?;
    Ok(bytes)
}

const SECRET_TABLE: &str = "CREATE TABLE secret (bytes BLOB NOT NULL) STRICT;";

fn has_secret(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'secret'";
    connection.query_row(count, (), |row| row.get::<_, u64>(0)).map(|tables| tables > 0)
}

/// The same without making any.
pub(super) fn look_at_secret(connection: &Connection) -> rusqlite::Result<Option<[u8; 32]>> {
    if has_secret(connection)? {
        connection.query_row("SELECT bytes FROM secret", (), |row| row.get(0)).map(Some)
    } else {
        Ok(None)
    }
}

/// Gives a new stream the secret of the service that it goes on with.
pub(super) fn set_secret(connection: &Connection, secret: [u8; 32]) -> rusqlite::Result<()> {
    connection.execute_batch(SECRET_TABLE)?;
    connection.execute("INSERT INTO secret VALUES (?1)", (secret,)).map(|_| ())
}

/// Says that the data was moved elsewhere. From here on the database is not recognised any more.
pub(super) fn set_moved(connection: &Connection, id: u128, other: &str) -> rusqlite::Result<()> {
    connection.execute_batch("CREATE TABLE moved (id BLOB NOT NULL, other TEXT NOT NULL) STRICT")?;
    connection.execute("INSERT INTO moved VALUES (?1, ?2)", (id.to_le_bytes(), other))?;
    connection.pragma_update(None, "user_version", MOVED_VERSION)
}

pub(super) fn create(connection: &mut Connection, partition: u32) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(TABLES)?;
    transaction.execute("INSERT INTO stream (partition, epoch) VALUES (?1, 0)", (partition,))?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Lets SQLite check the structure of its file: a flipped bit there can make rows vanish that no record's checksum
/// would miss.
pub(super) fn check_structure(connection: &Connection, place: &str) -> Result<(), StoreError> {
    let found = connection.query_row("PRAGMA quick_check(1)", (), |row| row.get::<_, String>(0));
    match found.map_err(|error| store_error("checking the database", place, error))?.as_str() {
        "ok" => Ok(()),
        what => Err(StoreError::damaged(place, what.replace('\n', ", "))),
    }
}

/// The meaning of an SQLite error for the owner of the store.
pub(super) fn store_error(doing: &str, place: &str, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { place: place.to_owned() },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::damaged(place, error.to_string()),
        _ => StoreError::failed(format!("{doing} in {place}"), error),
    }
}
