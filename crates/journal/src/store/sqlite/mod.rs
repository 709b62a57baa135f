//! The default store: one SQLite database in a data directory, one row a batch.
//!
//! ```text
//! leasehold.lock      held while open (`lock`)
//! leasehold.db        stream, batch, checkpoint, chunk (`schema`)
//! leasehold.db-wal    where commits go first; inspected before SQLite sees it (`wal`),
//!                     moved into the database off the commit path (`backfill`)
//! leasehold.making    there while a database is made for the first time (`making`)
//! leasehold.cut       there after a file was truncated under an open store (`watch`)
//! restoring, placing  there while a backup is put in place of all this (`staging`)
//! ```
//!
//! This file opens it; `store` works with the open database, and `watch` makes sure that the files stay where they are.
//! `reader` only looks.

mod backfill;
mod directory;
mod founding;
mod keyring;
mod lock;
mod making;
mod reader;
mod schema;
mod staging;
mod store;
mod wal;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::config::DbConfig;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use self::backfill::Backfill;
pub use self::founding::{Founding, NewDirectory, mark_moved};
pub use self::keyring::SqliteKeyring;
use self::lock::DirectoryLock;
use self::making::Stage;
pub use self::reader::{InUse, SqliteReader};
use self::schema::store_error;
pub(crate) use self::staging::Staging;
pub use self::store::Upkeep;
use self::store::{Finished, LogState, SqliteStore};
use self::watch::Watch;
use super::error::StoreError;
use super::verify::Verifier;
use super::{Opened, Opener, Recovered};
use crate::armed::{Bug, is_armed};
use crate::ids::{Epoch, Position};

const DATABASE_FILE: &str = "leasehold.db";
const WAL_FILE: &str = "leasehold.db-wal";
/// SQLite's index of the log, made anew by the first connection.
const INDEX_FILE: &str = "leasehold.db-shm";
const LOCK_FILE: &str = "leasehold.lock";

const PAGE_BYTES: u32 = 4096;

/// Opens the database in a directory, which is made if it is not there.
#[derive(Clone, Debug)]
pub struct SqliteOpener {
    directory: PathBuf,
    max_bytes: Option<u64>,
    upkeep: Upkeep,
    epoch_at_least: Epoch,
}

impl SqliteOpener {
    /// An opener of the database in this directory, with the usual upkeep.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        SqliteOpener { directory, max_bytes: None, upkeep: Upkeep::default(), epoch_at_least: Epoch::default() }
    }

    /// Lets the database file grow to this size and no further, as if the disk were full at that point.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = Some(max_bytes);
        self
    }

    /// With other thresholds of housekeeping, for tests.
    #[must_use]
    pub fn with_upkeep(mut self, upkeep: Upkeep) -> Self {
        self.upkeep = upkeep;
        self
    }

    /// Raises the epoch to at least this: for data that may have had owners it does not know of.
    #[must_use]
    pub fn with_epoch_at_least(mut self, epoch: Epoch) -> Self {
        self.epoch_at_least = epoch;
        self
    }

    fn configure(&self, connection: &mut Connection) -> rusqlite::Result<Arc<LogState>> {
        if let Some(max_bytes) = self.max_bytes {
            let pages = (max_bytes / u64::from(PAGE_BYTES)).max(1);
            connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        }
        let log = Arc::new(LogState::default());
        let seen = Arc::clone(&log);
        connection.wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, now: i32| {
            seen.frames.store(u64::from(now.unsigned_abs()), Ordering::Relaxed);
            seen.commits.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(log)
    }
}

impl Opener for SqliteOpener {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        let mut notes = Vec::new();
        directory::make(&self.directory)?;
        let lock = DirectoryLock::acquire(&self.directory)?;
        staging::refuse_unfinished(&self.directory)?;
        staging::clean_up(&self.directory);
        watch::refuse_cut(&self.directory)?;
        for name in [DATABASE_FILE, WAL_FILE, INDEX_FILE, LOCK_FILE] {
            directory::close_file(&self.directory.join(name))?;
        }
        let path = self.directory.join(DATABASE_FILE);
        let place = path.display().to_string();
        let torn = inspect_wal(&self.directory)?;
        let stage = making::begin(&self.directory)?;

        let failed = |error| store_error("opening", &place, error);
        let mut connection = schema::connect(&path).map_err(failed)?;
        // Making the database left a journal that is deleted, and a log that is made. Before the log has anything in it
        // both must be durable: a journal that came back would undo what the log builds on. SQLite ignores a failure of
        // its own sync of the directory.
        directory::sync(&self.directory)?;
        // Until all is verified, closing must leave the files as they are.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(failed)?;
        let is_new = schema::recognise(&connection, &place, partition)?;
        if is_new && stage == Stage::Made && !is_armed(Bug::EmptyTakenForNew) {
            return Err(making::lost_its_content(&path));
        }
        let found = if is_new {
            Found::default()
        } else {
            schema::check_structure(&connection, &place)?;
            read(&connection, &place, partition, visit)?
        };

        // Everything is verified; from here on the store writes.
        if let Some(wal::FramePlace { frame, offset }) = torn {
            wal::cut(&self.directory.join(WAL_FILE), offset)
                .map_err(|error| StoreError::failed(format!("cutting {place}-wal off at byte {offset}"), error))?;
            notes.push(format!(
                "{place}-wal ended in a write that was cut off (frame {frame}, byte {offset}); it was never acknowledged \
                 and is dropped"
            ));
        }
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(failed)?;
        if is_new {
            schema::create(&mut connection, partition)
                .map_err(|error| store_error("making the tables", &place, error))?;
        }
        let secret = schema::secret(&mut connection).map_err(failed)?;
        let log = self.configure(&mut connection).map_err(failed)?;
        let epoch = found.epoch.next().max(self.epoch_at_least);
        connection.execute("UPDATE stream SET epoch = ?1", (epoch.0,)).map_err(failed)?;
        if start_log_over(&connection).map_err(failed)? {
            log.frames.store(0, Ordering::Relaxed);
        }
        let head = found.head;
        if stage == Stage::Making {
            making::finish(&self.directory)?;
        }
        let backfill = Backfill::start(&path, &place)?;
        let watch = Watch::start(&self.directory)?;
        let directory = self.directory.clone();
        let store =
            SqliteStore::new(backfill, connection, lock, watch, directory, self.upkeep, log, epoch, secret, found);
        Ok(Opened { store: Box::new(store), epoch, head, notes })
    }
}

/// The content of the database.
#[derive(Default)]
struct Found {
    epoch: Epoch,
    head: Position,
    checkpoint: Option<Finished>,
    tail_bytes: u64,
}

/// Reads and verifies the whole stream.
fn read(
    connection: &Connection,
    place: &str,
    partition: u32,
    visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
) -> Result<Found, StoreError> {
    let failed = |error| store_error("reading the journal", place, error);
    let mut verifier = Verifier::new(place, partition);

    let (epoch, checkpoint): (u64, Option<u64>) = connection
        .query_row("SELECT epoch, checkpoint FROM stream", (), |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(failed)?;
    let mut finished = None;
    if let Some(id) = checkpoint {
        let row = connection
            .query_row("SELECT upto, chunks FROM checkpoint WHERE id = ?1", (id,), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional();
        let Some((upto, chunks)) = row.map_err(failed)? else {
            return Err(StoreError::damaged(place, format!("checkpoint {id} is missing")));
        };
        let upto = Position(upto);
        verifier.expect_checkpoint(upto, chunks);
        let mut bytes = 0;
        each_record(
            connection,
            "SELECT number, record FROM chunk WHERE checkpoint = ?1 ORDER BY number",
            id,
            failed,
            |_, record| {
                verifier.chunk(record)?;
                bytes += record.len() as u64;
                visit(Recovered::Chunk(record))
            },
        )?;
        finished = Some(Finished { id, upto, bytes });
    }

    let upto = finished.as_ref().map_or(Position::START, |finished| finished.upto);
    let mut tail_bytes = 0;
    each_record(
        connection,
        "SELECT position, record FROM batch WHERE position > ?1 ORDER BY position",
        upto.0,
        failed,
        |position, record| {
            let header = verifier.batch(record)?;
            if header.last().0 != position {
                let what = format!("the batch up to {} is there", header.last());
                return Err(StoreError::damaged(format!("{place}, journal position {position}"), what));
            }
            tail_bytes += record.len() as u64;
            visit(Recovered::Batch(record))
        },
    )?;
    let epoch = Epoch(epoch);
    Ok(Found { epoch, head: verifier.finish(epoch)?, checkpoint: finished, tail_bytes })
}

/// Hands out the rows of a query for a number and a record, one by one.
fn each_record(
    connection: &Connection,
    sql: &str,
    parameter: u64,
    failed: impl Fn(rusqlite::Error) -> StoreError,
    mut act: impl FnMut(u64, &[u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(sql).map_err(&failed)?;
    let mut rows = statement.query((parameter,)).map_err(&failed)?;
    while let Some(row) = rows.next().map_err(&failed)? {
        let number = row.get(0).map_err(&failed)?;
        let record = row.get_ref(1).and_then(|value| value.as_blob().map_err(Into::into)).map_err(&failed)?;
        act(number, record)?;
    }
    Ok(())
}

/// Refuses damage that SQLite would not notice. Returns the place where the log is torn, if it is.
fn inspect_wal(directory: &Path) -> Result<Option<wal::FramePlace>, StoreError> {
    let path = directory.join(WAL_FILE);
    let place = path.display().to_string();
    let failed = |error| StoreError::failed(format!("reading {place}"), error);
    let verdict = wal::inspect(&path).map_err(failed)?;
    let database_exists = directory.join(DATABASE_FILE).try_exists().map_err(failed)?;
    match verdict {
        _ if !database_exists && path.try_exists().map_err(failed)? => {
            Err(StoreError::damaged(place, format!("{DATABASE_FILE}, to which it belongs, is missing")))
        }
        wal::Verdict::Whole => Ok(None),
        wal::Verdict::Torn(torn) => Ok(Some(torn)),
        wal::Verdict::Damaged(wal::FramePlace { frame, offset }) => {
            let what = format!("frame {frame} at byte {offset} is not what was written, but what follows it is");
            Err(StoreError::damaged(place, what))
        }
    }
}

/// Begins every session with an empty log, as far as possible. Returns whether it is empty.
fn start_log_over(connection: &Connection) -> rusqlite::Result<bool> {
    match connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::TRUNCATE) {
        Ok(_) => Ok(true),
        Err(error) => match error.sqlite_error_code() {
            // Another tool has the database open, or the disk is full. The log goes on where it is.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull) => Ok(false),
            _ => Err(error),
        },
    }
}
