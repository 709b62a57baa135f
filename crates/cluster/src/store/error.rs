//! Errors of a shared store, told apart by what a node has to do about them.

use thiserror::Error;

/// An error of a shared store. The message is a sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SharedError {
    /// The record to change is no longer as it was seen, or this life is buried. Nothing was changed.
    #[error("fenced: {0}")]
    Fenced(String),
    /// The store cannot be reached, or did not answer in time. The outcome is unknown: ask again.
    #[error("the store is away: {0}")]
    Away(String),
    /// Nothing was changed, and asking again does not help: the operator has to change something, or the caller broke
    /// the contract.
    #[error("{0}")]
    Refused(String),
    /// The place to read on from was swept: begin again.
    #[error("that part of the stream was swept")]
    Gone,
    /// The store has no room left. Nothing was changed.
    #[error("the store is full: {0}")]
    Full(String),
    /// The records in the store are not what was written.
    #[error("{place} is damaged: {what}")]
    Damaged {
        /// Where.
        place: String,
        /// In which way.
        what: String,
    },
}
