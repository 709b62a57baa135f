//! Putting one database in the place of another, so that a crash at any point leaves the old one, the new one, or a
//! directory that no server starts on: never an empty one, where tokens would begin at 1 again.
//!
//! ```text
//! DIR/restoring/                 made first; while it is there no server starts
//! DIR/restoring/leasehold.db     the new one is made ready in here
//! DIR/NAME/leasehold.db …        the old one is moved here, never deleted
//! DIR/leasehold.db               the new one moves here, and `restoring` goes
//! ```
//!
//! Inside the directory, as it may be a mount point, which cannot be renamed.

use std::path::{Path, PathBuf};

use super::lock::DirectoryLock;
use super::watch::CUT_FILE;
use super::{DATABASE_FILE, INDEX_FILE, LOCK_FILE, WAL_FILE, directory};
use crate::store::error::StoreError;

const STAGE: &str = "restoring";

/// Refuses a directory in which a restore did not finish.
pub(super) fn refuse_unfinished(directory: &Path) -> Result<(), StoreError> {
    let stage = directory.join(STAGE);
    if stage.exists() {
        return Err(StoreError::Damaged {
            place: directory.display().to_string(),
            what: format!("a restore or a move was begun and did not come to its end ({} is there)", stage.display()),
            advice: "run leasehold restore or leasehold migrate again".to_owned(),
        });
    }
    Ok(())
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
        let stage = directory.join(STAGE);
        let failed = |error| StoreError::failed(format!("making {}", stage.display()), error);
        // Left by a restore that did not finish, or by one that was about to clean up.
        let is_past_return = stage.exists();
        if is_past_return {
            std::fs::remove_dir_all(stage.join("data")).or_else(not_there).map_err(failed)?;
        }
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
        self.data().join(DATABASE_FILE)
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
