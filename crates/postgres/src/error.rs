//! The ends of a statement. A refusal is final; everything else is tried again until the caller's patience ends.

use thiserror::Error;

/// The end of a statement that got no answer it could use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// No host answered in time. A statement may have been executed all the same.
    #[error("PostgreSQL does not answer: {0}")]
    Away(String),
    /// PostgreSQL, or the look at it, says no.
    #[error(transparent)]
    Refused(#[from] PostgresRefusal),
}

/// A no that trying again does not change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PostgresRefusal {
    /// Its disk is full. The statement was not executed.
    #[error("the disk of PostgreSQL is full: {0}")]
    Full(String),
    /// The user may not do this.
    #[error("PostgreSQL refuses: {0}")]
    Denied(String),
    /// This server must not be used.
    #[error("{0}")]
    Unfit(String),
    /// A file or an option of ours cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The tables are not there.
    #[error("there is no cluster: {0}")]
    Absent(String),
    /// PostgreSQL found pages or indexes that are not what it wrote.
    #[error("PostgreSQL reports damaged data: {0}; restore it from a backup")]
    Corrupt(String),
    /// Something that should not happen.
    #[error("PostgreSQL rejects a statement: {0}")]
    Other(String),
}
