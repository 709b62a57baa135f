//! The ends of a call to etcd. An answer with a refusal in it is final; everything else is tried again until the
//! caller's patience ends.

use thiserror::Error;

/// The end of a call that got no answer it could use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// No endpoint answered in time. A transaction may have been executed all the same.
    #[error("etcd does not answer: {0}")]
    Away(String),
    /// etcd, or the look at it, says no.
    #[error(transparent)]
    Refused(#[from] EtcdRefusal),
}

/// A no that trying again does not change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EtcdRefusal {
    /// Over its quota. A transaction may have been executed all the same: etcd looks at its quota before it applies a
    /// request and says so after.
    #[error("etcd is full: its file has reached the quota; compact and defragment it, then run: etcdctl alarm disarm")]
    Full,
    /// The user may not do this.
    #[error("etcd refuses: {0}")]
    Denied(String),
    /// This etcd must not be used.
    #[error("{0}")]
    Unfit(String),
    /// A file or an option of ours cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The revision asked for is in the compacted part of the history, or in the future.
    #[error("etcd has no such revision: {0}")]
    NoRevision(String),
    /// The answer is larger than the bound on answers.
    #[error("the answer is too large: {0}")]
    TooLarge(String),
    /// Members of etcd differ from each other.
    #[error("etcd reports that its data is corrupt: {0}; restore it from a backup")]
    Corrupt(String),
    /// Something that should not happen.
    #[error("etcd rejects a request: {0}")]
    Other(String),
}
