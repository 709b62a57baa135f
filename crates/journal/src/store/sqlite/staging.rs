//! Putting one database in the place of another, so that a crash at any point leaves the old one, the new one, or a
//! directory that no server starts on: never an empty one, where tokens would begin at 1 again.
//!
//! ```text
//! DIR/restoring/data/leasehold.db   the new one is made ready in here; nothing else was touched
//! DIR/placing/data/leasehold.db     the same directory, renamed once the new one is whole
//! DIR/NAME/leasehold.db …           the old one is moved here, never deleted
//! DIR/leasehold.db                  the new one moves here, and `placing`, which has no database any more, goes
//! ```
//!
//! No server starts while the new database is in one of the first two places: it would serve the old data, or begin
//! afresh. Once it is in its own place all is done, also if the process is killed before it cleans up.
//!
//! Inside the directory, as it may be a mount point, which cannot be renamed.

use std::path::{Path, PathBuf};

use super::lock::DirectoryLock;
use super::watch::CUT_FILE;
use super::{DATABASE_FILE, INDEX_FILE, LOCK_FILE, WAL_FILE, directory};
use crate::store::error::StoreError;

const STAGE: &str = "restoring";
const PLACING: &str = "placing";

/// What a process that makes a new database left in a directory, if it was killed.
#[derive(Debug, PartialEq, Eq)]
enum Leftover {
    /// The new database is not in its place yet. The path is the one that says so.
    Unfinished(PathBuf),
    /// The new database is in its place; only the empty stage is left.
    Done,
}

fn leftover(directory: &Path) -> Option<Leftover> {
    let (stage, placing) = (directory.join(STAGE), directory.join(PLACING));
    if stage.exists() {
        return Some(Leftover::Unfinished(stage));
    }
    if !placing.exists() {
        return None;
    }
    let is_done = directory.join(DATABASE_FILE).exists() && !database_in(&placing).exists();
    Some(if is_done { Leftover::Done } else { Leftover::Unfinished(placing) })
}

/// Refuses a directory in which a restore or a move did not finish.
pub(super) fn refuse_unfinished(directory: &Path) -> Result<(), StoreError> {
    match leftover(directory) {
        None | Some(Leftover::Done) => Ok(()),
        Some(Leftover::Unfinished(stage)) => Err(StoreError::Damaged {
            place: directory.display().to_string(),
            what: format!("a restore or a move was begun and did not come to its end ({} is there)", stage.display()),
            advice: "run leasehold restore or leasehold migrate again".to_owned(),
        }),
    }
}

/// Removes the stage of a database that is in its place. The caller has the lock of the directory. A stage that an
/// operator made as another user may have to stay; it does no harm.
pub(super) fn clean_up(directory: &Path) {
    if leftover(directory) == Some(Leftover::Done) {
        let _ = std::fs::remove_dir_all(directory.join(PLACING));
    }
}

fn database_in(stage: &Path) -> PathBuf {
    stage.join("data").join(DATABASE_FILE)
}

/// A place to prepare the new database in. It is removed when this is dropped before the database was put in place.
#[derive(Debug)]
pub(crate) struct Staging {
    directory: PathBuf,
    stage: PathBuf,
    /// The old database was touched: from here on only a finished restore helps.
    is_past_return: bool,
    _lock: DirectoryLock,
}

impl Staging {
    pub(crate) fn begin(directory: &Path) -> Result<Self, StoreError> {
        directory::make(directory)?;
        let lock = DirectoryLock::acquire(directory)?;
        clean_up(directory);
        let stage = directory.join(STAGE);
        let failed = |error| StoreError::failed(format!("making {}", stage.display()), error);
        let left = leftover(directory);
        if let Some(Leftover::Unfinished(found)) = &left {
            if *found != stage {
                std::fs::rename(found, &stage).map_err(failed)?;
                directory::sync(directory)?;
            }
            std::fs::remove_dir_all(stage.join("data")).or_else(not_there).map_err(failed)?;
        }
        // The old database is the first file to be moved aside, so where there is one nothing was touched.
        let is_past_return = left.is_some() && !directory.join(DATABASE_FILE).exists();
        directory::make(&stage.join("data"))?;
        Ok(Staging { directory: directory.to_owned(), stage, is_past_return, _lock: lock })
    }

    /// Returns whether there is a database, or a part of one, to be moved out of the way.
    pub(crate) fn is_taken(&self) -> bool {
        [DATABASE_FILE, WAL_FILE].iter().any(|name| self.directory.join(name).exists())
    }

    /// A data directory of its own.
    pub(crate) fn data(&self) -> PathBuf {
        self.stage.join("data")
    }

    pub(crate) fn database(&self) -> PathBuf {
        database_in(&self.stage)
    }

    /// Copies a backup in and makes it private to its owner, whatever its mode was before.
    pub(crate) fn copy_in(&self, from: &Path) -> Result<(), StoreError> {
        let to = self.database();
        let copied = (|| {
            let mut options = std::fs::OpenOptions::new();
            let mut file = directory::private(options.write(true).create_new(true)).open(&to)?;
            std::io::copy(&mut std::fs::File::open(from)?, &mut file)?;
            file.sync_all()
        })();
        copied.map_err(|error| StoreError::failed(format!("copying {} to {}", from.display(), to.display()), error))
    }

    /// Moves the old database aside, into a directory of this name, and the new one into its place.
    pub(crate) fn put_in_place(mut self, aside: &str) -> Result<(), StoreError> {
        if self.data().join(WAL_FILE).metadata().is_ok_and(|log| log.len() > 0) {
            return Err(StoreError::Misused("the new database is put in place when it has been closed"));
        }
        for path in [self.database(), self.directory.join(LOCK_FILE)] {
            directory::give_to_owner(&path, &self.directory)?;
        }
        self.begin_placing()?;
        if self.is_taken() {
            let aside = self.directory.join(aside);
            directory::make(&aside)?;
            self.is_past_return = true;
            // The database goes first: a start refuses a log without a database, but not a database without its log.
            for name in [DATABASE_FILE, WAL_FILE, INDEX_FILE, CUT_FILE] {
                let from = self.directory.join(name);
                std::fs::rename(&from, aside.join(name))
                    .or_else(not_there)
                    .map_err(|error| StoreError::failed(format!("moving {} aside", from.display()), error))?;
            }
            directory::sync(&aside)?;
            directory::sync(&self.directory)?;
        }
        self.is_past_return = true;
        let target = self.directory.join(DATABASE_FILE);
        std::fs::rename(self.database(), &target)
            .map_err(|error| StoreError::failed(format!("moving {} into its place", target.display()), error))?;
        directory::sync(&self.directory)?;
        self.is_past_return = false;
        self.clear()?;
        directory::sync(&self.directory)
    }

    /// Says durably that the new database is whole, and that the old one may be touched from here on.
    fn begin_placing(&mut self) -> Result<(), StoreError> {
        let to = self.directory.join(PLACING);
        std::fs::rename(&self.stage, &to)
            .map_err(|error| StoreError::failed(format!("renaming {}", self.stage.display()), error))?;
        self.stage = to;
        directory::sync(&self.directory)
    }

    fn clear(&self) -> Result<(), StoreError> {
        std::fs::remove_dir_all(&self.stage)
            .or_else(not_there)
            .map_err(|error| StoreError::failed(format!("removing {}", self.stage.display()), error))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.is_past_return {
            // Nothing was changed; the rest of the stage keeps a server from starting, and the server says so.
            let _ = self.clear();
        }
    }
}

fn not_there(error: std::io::Error) -> std::io::Result<()> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
