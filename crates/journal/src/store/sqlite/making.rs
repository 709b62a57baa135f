//! A database that is being made for the first time has a mark beside it, which is removed before anything is
//! acknowledged. A database without a mark has held data, so an empty one is damage: starting on it would give out
//! tokens from 1 again.
//!
//! ```text
//! mark made, synced ─▶ database made, synced ─▶ tables, epoch ─▶ mark removed, synced ─▶ first batch
//! ```
//!
//! SQLite must not see an empty file beside a write-ahead log: it deletes the log, even on a connection that only
//! reads.

use std::fs::OpenOptions;
use std::path::Path;

use super::{DATABASE_FILE, directory};
use crate::armed::{Bug, is_armed};
use crate::store::error::StoreError;

const MARK_FILE: &str = "leasehold.making";

/// Says whether a database has held data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is being made: data that is missing in it never existed.
    Making,
    Made,
}

/// Makes an empty database where there is none, under the protection of a mark. Refuses one that lost its content.
pub(super) fn begin(directory: &Path) -> Result<Stage, StoreError> {
    let database = directory.join(DATABASE_FILE);
    let failed = |error| StoreError::failed(format!("making {}", database.display()), error);
    if !database.try_exists().map_err(failed)? {
        make_file(&directory.join(MARK_FILE)).map_err(failed)?;
        // If the database's name became durable before the mark's, it would look like a database that lost its content.
        directory::sync(directory)?;
        make_file(&database).map_err(failed)?;
    }
    look(directory)
}

/// The same without making anything.
pub(super) fn look(directory: &Path) -> Result<Stage, StoreError> {
    let database = directory.join(DATABASE_FILE);
    let failed = |error| StoreError::failed(format!("looking at {}", database.display()), error);
    if directory.join(MARK_FILE).try_exists().map_err(failed)? {
        return Ok(Stage::Making);
    }
    match std::fs::metadata(&database) {
        Ok(file) if file.len() == 0 && !is_armed(Bug::EmptyTakenForNew) => Err(lost_its_content(&database)),
        // A reader finds out for itself that there is no data.
        Ok(_) => Ok(Stage::Made),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Stage::Made),
        Err(error) => Err(failed(error)),
    }
}

/// Removes the mark, durably. From here on there is data.
pub(super) fn finish(directory: &Path) -> Result<(), StoreError> {
    let mark = directory.join(MARK_FILE);
    std::fs::remove_file(&mark)
        .map_err(|error| StoreError::failed(format!("removing {}", mark.display()), error))
        .and_then(|()| directory::sync(directory))
}

pub(super) fn lost_its_content(database: &Path) -> StoreError {
    StoreError::damaged(database.display().to_string(), "it is empty, but it has held data")
}

fn make_file(path: &Path) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    directory::private(options.write(true).create(true).truncate(false)).open(path).map(drop)
}
