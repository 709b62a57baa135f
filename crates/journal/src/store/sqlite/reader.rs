//! A look at a database that changes nothing in it: for checks and for copies, also while a server has it open. All
//! that one reader sees is of one moment. Servers never wait for a reader: in a write-ahead log readers and the writer
//! do not meet, and only the log grows during a read.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::lock::{self, Look};
use super::making::{self, Stage};
use super::schema::{self, Motion, SCHEMA_VERSION, store_error};
use super::{DATABASE_FILE, PAGE_BYTES, WAL_FILE, directory, inspect_wal, wal};
use crate::ids::{Epoch, Position};
use crate::store::error::StoreError;
use crate::store::{Recovered, Sizes};

/// A copy is synced each time it has grown by this much, so that the server's next sync never waits for a large backlog
/// on the disk.
const COPY_SLICE_BYTES: u32 = 2 << 20;

/// How long to stay out of the way before trying again to read on, and how often before giving up.
const COPY_RETRY: Duration = Duration::from_millis(10);
const COPY_RETRIES_MAX: u32 = 1000;

/// Says whether a server had the directory open when the reader came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InUse {
    /// No server had it open.
    No,
    /// A server had it open.
    By {
        /// Its process id, where the lock file names one.
        process: Option<u32>,
    },
}

/// One consistent view of a database, in one transaction.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    partition: u32,
    /// The database's path.
    path: PathBuf,
    place: String,
    in_use: InUse,
    notes: Vec<String>,
    /// While no server runs: keeps it so.
    _lock: Option<File>,
}

/// The findings of `read` beside the records, all of them verified.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(crate) epoch: Epoch,
    pub(crate) head: Position,
    pub(crate) checkpoint: Option<Position>,
    pub(crate) sizes: Sizes,
}

impl SqliteReader {
    /// A reader of a data directory. If no server runs, it inspects the log as a start does.
    pub fn of_directory(directory: &Path, partition: u32) -> Result<Self, StoreError> {
        let path = directory.join(DATABASE_FILE);
        let stage = making::look(directory)?;
        let mut notes = Vec::new();
        let (in_use, lock, motion) = match lock::look(directory)? {
            Look::Held { holder } => (InUse::By { process: holder }, None, Motion::Live),
            Look::Free(lock) => {
                super::staging::refuse_unfinished(directory)?;
                super::watch::refuse_cut(directory)?;
                if let Some(wal::FramePlace { frame, offset }) = inspect_wal(directory)? {
                    notes.push(format!(
                        "{}-wal ends in a write that was cut off (frame {frame}, byte {offset}); it was never \
                         acknowledged, and the next start drops it",
                        path.display()
                    ));
                }
                // A log that a crash left has to be read, and for that SQLite wants to keep an index of it.
                let has_log = bytes_of(&directory.join(WAL_FILE)) > 0;
                (InUse::No, lock, if has_log { Motion::Live } else { Motion::Still })
            }
        };
        Self::open(path, directory, motion, partition, in_use, lock, notes).map_err(|error| match error {
            // There is a database, but nothing is in it.
            StoreError::Missing { .. } if stage == Stage::Made && directory.join(DATABASE_FILE).exists() => {
                making::lost_its_content(&directory.join(DATABASE_FILE))
            }
            error => error,
        })
    }

    /// A reader of a backup, which no process writes to.
    pub fn of_file(path: &Path, partition: u32) -> Result<Self, StoreError> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        if bytes_of(Path::new(&log)) > 0 {
            return Err(StoreError::Unsupported {
                place: path.display().to_string(),
                what:
                    "a write-ahead log lies beside it, so it is part of a data directory and no backup; make one with \
                       leasehold backup"
                        .to_owned(),
            });
        }
        Self::open(path.to_owned(), path, Motion::Still, partition, InUse::No, None, Vec::new())
    }

    fn open(
        path: PathBuf,
        named: &Path,
        motion: Motion,
        partition: u32,
        in_use: InUse,
        lock: Option<File>,
        notes: Vec<String>,
    ) -> Result<Self, StoreError> {
        let place = path.display().to_string();
        let missing = || StoreError::Missing { place: named.to_owned() };
        match path.try_exists() {
            Ok(true) => {}
            Ok(false) => return Err(missing()),
            Err(error) => return Err(StoreError::failed(format!("reading {place}"), error)),
        }
        let failed = |error| store_error("opening", &place, error);
        let connection = schema::connect_to_read(&path, motion).map_err(failed)?;
        // One transaction from here to the end: one moment.
        connection.execute_batch("BEGIN").map_err(failed)?;
        if schema::recognise(&connection, &place, partition)? {
            return Err(missing());
        }
        Ok(SqliteReader { connection, partition, path, place, in_use, notes, _lock: lock })
    }

    /// Says whether a server had the directory open when the reader came.
    pub fn in_use(&self) -> InUse {
        self.in_use
    }

    /// Messages for the operator, such as a torn tail.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The path of the database.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The secret of the stream; `None` where it has none yet.
    pub fn secret(&self) -> Result<Option<[u8; 32]>, StoreError> {
        schema::look_at_secret(&self.connection).map_err(|error| store_error("reading", &self.place, error))
    }

    /// The version of the tables. That of the records in them is `record::FORMAT_VERSION`.
    pub fn schema_version(&self) -> i32 {
        // Other versions are not recognised.
        SCHEMA_VERSION
    }

    /// Verifies the whole stream and shows it to `visit`, in the order of `Opener::open`.
    pub(crate) fn read(
        &self,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Outline, StoreError> {
        schema::check_structure(&self.connection, &self.place)?;
        let found = super::read(&self.connection, &self.place, self.partition, visit)?;
        let mut log = self.path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Outline {
            epoch: found.epoch,
            head: found.head,
            sizes: Sizes {
                tail_bytes: found.tail_bytes,
                checkpoint_bytes: found.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes),
                file_bytes: bytes_of(&self.path) + bytes_of(Path::new(&log)),
            },
            checkpoint: found.checkpoint.map(|checkpoint| checkpoint.upto),
        })
    }

    /// Copies the database, as it was when this reader came, to a file that is not there yet; durable when it returns,
    /// but for its name. A reader of the copy knows the id of every pool, so the file is private to its owner.
    pub fn copy_to(&self, copy: &Path) -> Result<(), StoreError> {
        let place = copy.display().to_string();
        let failed = |error| store_error("copying", &place, error);
        let failed_io = |error| StoreError::failed(format!("writing {place}"), error);
        let mut options = OpenOptions::new();
        // Open until SQLite is done with it: closing it would take SQLite's locks away.
        let file = directory::private(options.read(true).write(true).create_new(true)).open(copy).map_err(failed_io)?;

        let mut target = Connection::open(copy).map_err(failed)?;
        // A copy that was cut off is thrown away, so nothing has to undo it.
        target.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(())).map_err(failed)?;
        target.pragma_update(None, "synchronous", "OFF").map_err(failed)?;
        let slice_pages = i32::try_from(COPY_SLICE_BYTES / PAGE_BYTES).expect("a slice is a few hundred pages");
        let backup = Backup::new(&self.connection, &mut target).map_err(failed)?;
        let mut retries = 0;
        loop {
            match backup.step(slice_pages).map_err(failed)? {
                StepResult::Done => break,
                StepResult::More => file.sync_data().map_err(failed_io)?,
                _ if retries == COPY_RETRIES_MAX => {
                    return Err(StoreError::failed(
                        format!("copying {}", self.place),
                        "another process keeps it locked",
                    ));
                }
                // Another process is starting the log over just now.
                _ => {
                    retries += 1;
                    std::thread::sleep(COPY_RETRY);
                }
            }
        }
        drop(backup);
        target.close().map_err(|(_, error)| failed(error))?;
        file.sync_all().map_err(failed_io)
    }
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}
