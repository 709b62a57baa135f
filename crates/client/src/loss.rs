//! Why a lease is no longer held.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The cause of a loss.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// It could not be renewed in time.
    Deadline,
    /// The time that the holder allowed itself was over.
    MaxHold,
    /// The service said that its time ran out.
    Expired,
    /// An operator took it away.
    Revoked,
    /// Its resource was deleted.
    Deleted,
    /// It was given back.
    Released,
    /// This process is a fork of the one that holds it.
    Forked,
    /// In the service's word.
    Other(String),
}

impl Cause {
    /// From the word that the service uses for the end of a claim or lease.
    pub(crate) fn from_word(word: &str) -> Cause {
        match word {
            "expired" => Cause::Expired,
            "revoked" => Cause::Revoked,
            "deleted" => Cause::Deleted,
            "released" | "returned" => Cause::Released,
            other => Cause::Other(other.chars().take(40).collect()),
        }
    }

    /// The service said so: it is over for good.
    pub(crate) fn is_told_by_service(&self) -> bool {
        match self {
            Cause::Deadline | Cause::MaxHold => false,
            Cause::Expired | Cause::Revoked | Cause::Deleted | Cause::Released | Cause::Forked | Cause::Other(_) => {
                true
            }
        }
    }

    /// One word.
    pub fn word(&self) -> &str {
        match self {
            Cause::Deadline => "deadline",
            Cause::MaxHold => "max_hold",
            Cause::Expired => "expired",
            Cause::Revoked => "revoked",
            Cause::Deleted => "deleted",
            Cause::Released => "released",
            Cause::Forked => "forked",
            Cause::Other(word) => word,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Deadline => "it could not be renewed in time",
            Cause::MaxHold => "it was held for as long as allowed",
            Cause::Expired => "it expired",
            Cause::Revoked => "it was revoked",
            Cause::Deleted => "its resource was deleted",
            Cause::Released => "it was given back",
            Cause::Forked => "this process is a fork of its holder",
            Cause::Other(word) => return write!(f, "the service says that it is {word}"),
        })
    }
}

/// A lease that was lost: which, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The resource, in words: `lock backup`. Never a pool's id.
    pub resource: String,
    /// The fencing token that is no longer good.
    pub token: u64,
    /// The cause of the loss.
    pub cause: Cause,
    /// Why the last renewal failed, if one did.
    pub last_error: Option<String>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lease of {} (token {}) is lost: {}", self.resource, self.token, self.cause)?;
        match &self.last_error {
            Some(error) => write!(f, "; the last renewal failed: {error}"),
            None => Ok(()),
        }
    }
}
