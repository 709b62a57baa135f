//! Errors of a store. They are told apart by what the owner has to do about them.

use std::error::Error as StdError;
use std::path::PathBuf;

use thiserror::Error;

use crate::ids::Position;

/// The advice about damage, wherever it is found.
pub(super) const RESTORE: &str = "nothing was changed; restore the data from a backup, or move it away to start empty";

/// An error of a store. The message is a sentence for the operator, with advice where there is any.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Not the owner (any more). Nothing was written; stop acting as the owner.
    #[error("fenced: {0}")]
    Fenced(String),

    /// Another process has it open.
    #[error(
        "the data directory {} is in use by {}; one server at a time can have it open",
        directory.display(),
        match holder { Some(pid) => format!("process {pid}"), None => "another process".to_owned() }
    )]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The process that has it open, where the lock file names one.
        holder: Option<u32>,
    },

    /// The data is not what was written.
    #[error("{place} is damaged: {what}; {advice}")]
    Damaged {
        /// The file, and the position where it is known.
        place: String,
        /// The damage.
        what: String,
        /// The operator's way out.
        advice: String,
    },

    /// A file was taken away from under an open store. Fatal, and a restart does not mend it: acknowledged changes are
    /// in the file that is gone.
    #[error(
        "{place} was {what} while it was in use; put it back, or restore the data from a backup, before the next start"
    )]
    Disturbed {
        /// The file.
        place: String,
        /// The disturbance: `removed`, `replaced` or `truncated`.
        what: &'static str,
    },

    /// Sound, but this build cannot open it.
    #[error("{place} cannot be opened: {what}")]
    Unsupported {
        /// The file.
        place: String,
        /// The reason.
        what: String,
    },

    /// There is no data of Leasehold to read.
    #[error("there is no Leasehold data in {}", place.display())]
    Missing {
        /// The directory or file.
        place: PathBuf,
    },

    /// There is data of Leasehold already.
    #[error("there is data in {} already", directory.display())]
    Taken {
        /// The data directory.
        directory: PathBuf,
    },

    /// The data was moved elsewhere, and goes on there.
    #[error("{place} cannot be opened: its data was moved to {other}; serve it from there")]
    Moved {
        /// The file.
        place: String,
        /// The move.
        id: u128,
        /// Where to.
        other: String,
    },

    /// Users other than its owner may look into the directory.
    #[error(
        "the data directory {0} is open to others (mode {mode:04o}), and its files hold the ids of pools, which are \
         credentials; close it with: chmod 700 {0}",
        directory.display()
    )]
    Exposed {
        /// The data directory.
        directory: PathBuf,
        /// Its permissions.
        mode: u32,
    },

    /// There is no room left.
    #[error("no room left in {place}")]
    Full {
        /// The file.
        place: String,
    },

    /// The store failed at something that it should be able to do. Fatal: exit and recover.
    // The message contains the cause already; a field named `source` would make a reporter print it twice.
    #[error("{doing} failed: {why}")]
    Failed {
        /// The failed action.
        doing: String,
        /// Its cause.
        why: Box<dyn StdError + Send + Sync>,
    },

    /// The outcome of the append is unknown. Send the identical batch again.
    #[error("outcome unknown: {0}")]
    Unknown(String),

    /// An earlier error was fatal, so nothing is acknowledged any more.
    #[error("the store stopped after an error: {why}")]
    Poisoned {
        /// The message of that error.
        why: String,
    },

    /// The checkpoint is ahead of the durable changes. Append and try again.
    #[error("the checkpoint is of position {upto}, but the journal has got to {head} only")]
    NotYet {
        /// The position of the checkpoint.
        upto: Position,
        /// The last durable position.
        head: Position,
    },

    /// The caller broke the contract.
    #[error("{0}")]
    Misused(&'static str),
}

impl StoreError {
    pub(crate) fn damaged(place: impl Into<String>, what: impl Into<String>) -> Self {
        StoreError::Damaged { place: place.into(), what: what.into(), advice: RESTORE.to_owned() }
    }

    pub(crate) fn failed(doing: impl Into<String>, why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        StoreError::Failed { doing: doing.into(), why: why.into() }
    }
}
