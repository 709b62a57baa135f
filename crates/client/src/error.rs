//! Why an acquisition, a check or a call failed, by kind, so that a caller can tell them apart.

use std::fmt;

use crate::loss::Loss;
use crate::reply::Trouble;
use crate::text::printable;

/// Errors of this crate. Nothing in it is an id or a token of sign-on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Held by others, and the caller did not want to wait.
    #[error("{0}")]
    Conflict(Holder),
    /// Not acquired in the time given.
    #[error("{resource} was not acquired in time{}", cause.as_ref().map(|cause| format!("; {cause}")).unwrap_or_default())]
    Timeout {
        /// The resource, in words.
        resource: String,
        /// The last obstacle, where it is known.
        cause: Option<String>,
    },
    /// There is no such pool.
    #[error("not found: {0}")]
    NotFound(Trouble),
    /// The caller may not do this.
    #[error("forbidden: {0}")]
    Forbidden(Trouble),
    /// The service does not know the caller.
    #[error("not signed on: {0}")]
    Unauthenticated(Trouble),
    /// The lease is no longer held.
    #[error("{0}")]
    Lost(Loss),
    /// No answer could be had.
    #[error("unavailable: {0}")]
    Unavailable(Trouble),
    /// The certificate or the name in it is wrong.
    #[error("tls: {0}")]
    Tls(Trouble),
    /// Every address says that it does not serve the name it was called by.
    #[error("wrong host: {0}")]
    WrongHost(Trouble),
    /// The addresses given belong to different services, which would make two holders.
    #[error("different services: {0}")]
    DifferentServices(Trouble),
    /// The service does not understand the call, or the call was made wrongly.
    #[error("{0}")]
    Protocol(Trouble),
    /// A setting is wrong.
    #[error("{0}")]
    Setting(String),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl Error {
    /// One word for the kind of error.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Conflict(_) => "Conflict",
            Error::Timeout { .. } => "Timeout",
            Error::NotFound(_) => "NotFound",
            Error::Forbidden(_) => "Forbidden",
            Error::Unauthenticated(_) => "Unauthenticated",
            Error::Lost(_) => "Lost",
            Error::Unavailable(_) => "Unavailable",
            Error::Tls(_) => "Tls",
            Error::WrongHost(_) => "WrongHost",
            Error::DifferentServices(_) => "DifferentServices",
            Error::Protocol(_) => "Protocol",
            Error::Setting(_) => "Setting",
            Error::Closed => "Closed",
        }
    }

    /// The `X-Request-Id` of the call that failed, where there was one.
    pub fn request_id(&self) -> Option<&str> {
        match self {
            Error::NotFound(trouble)
            | Error::Forbidden(trouble)
            | Error::Unauthenticated(trouble)
            | Error::Unavailable(trouble)
            | Error::Tls(trouble)
            | Error::WrongHost(trouble)
            | Error::DifferentServices(trouble)
            | Error::Protocol(trouble) => Some(&trouble.request_id),
            Error::Conflict(holder) => Some(&holder.request_id),
            Error::Timeout { .. } | Error::Lost(_) | Error::Setting(_) | Error::Closed => None,
        }
    }
}

/// The holder of the wanted resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// The resource, in words.
    pub resource: String,
    /// The name of the holder, where the service tells it.
    pub name: Option<String>,
    /// The reason that the service gave.
    pub reason: String,
    /// The `X-Request-Id` of the call.
    pub request_id: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} is held by {}", self.resource, printable(name)),
            None => write!(f, "{} is held by others: {}", self.resource, printable(&self.reason)),
        }
    }
}
