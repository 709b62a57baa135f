//! The answer to one call. An answer counts only when it has a journal position and whole JSON: anything else, such as
//! the page of a proxy or of a captive portal, is no answer of the service.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use crate::text::printable;

/// The outcome of one call.
#[derive(Debug)]
pub(crate) enum Heard {
    /// The service answered.
    Reply(Reply),
    /// Nothing was sent: refused, no such host, no connection in time.
    NotSent(Trouble),
    /// The host says that it does not serve this name (421).
    WrongHost(Trouble),
    /// The certificate or the name in it is wrong, or ours was refused.
    Tls(Trouble),
    /// An answer of a service other than the one that answered before.
    OtherService(Trouble),
    /// It may have been carried out: cut off, timed out, garbled, or answered by something in between.
    Unknown { trouble: Trouble, retry_after: Option<Duration> },
}

/// Why there is no answer, in words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// A sentence that names no id and no token.
    pub message: String,
    /// The address that was asked.
    pub url: String,
    /// The `X-Request-Id` of the call.
    pub request_id: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (message, request_id) = (printable(&self.message), printable(&self.request_id));
        write!(f, "{}: {message} (request {request_id})", self.url)
    }
}

/// An answer of the service.
#[derive(Clone)]
pub struct Reply {
    pub(crate) status: u16,
    pub(crate) position: Position,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) link: Option<String>,
    pub(crate) json: Value,
    pub(crate) url: String,
    pub(crate) request_id: String,
}

/// `Leasehold-Position`: the epoch of the journal and the number of a change in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// It rises each time the journal gets an owner.
    pub epoch: u64,
    /// Changes, counted from 1.
    pub position: u64,
}

impl Position {
    pub(crate) fn parse(text: &str) -> Option<Position> {
        let (epoch, position) = text.trim().split_once('.')?;
        Some(Position { epoch: epoch.parse().ok()?, position: position.parse().ok()? })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.position)
    }
}

impl Reply {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Returns whether the call succeeded.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The answer; null when there is none.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// Its place in the order in which things happened.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The `X-Request-Id` of the call.
    pub fn request_id(&self) -> &str {
        &self.request_id
    }

    /// Where the next page is, if there is one.
    pub fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }

    /// The reason that the service gives with a refusal.
    pub fn reason(&self) -> &str {
        self.text("error").or_else(|| self.text("message")).unwrap_or("no reason given")
    }

    /// The `code` of a refusal, where the service gives one.
    pub(crate) fn code(&self) -> Option<&str> {
        self.text("code")
    }

    pub(crate) fn text(&self, member: &str) -> Option<&str> {
        self.json.get(member)?.as_str()
    }

    pub(crate) fn number(&self, member: &str) -> Option<u64> {
        self.json.get(member)?.as_u64()
    }

    pub(crate) fn seconds(&self, member: &str) -> Option<Duration> {
        Duration::try_from_secs_f64(self.json.get(member)?.as_f64()?).ok()
    }

    pub(crate) fn trouble(&self) -> Trouble {
        Trouble {
            message: format!("{}: {}", self.status, self.reason()),
            url: self.url.clone(),
            request_id: self.request_id.clone(),
        }
    }
}

impl fmt::Debug for Reply {
    /// Without its body, which may hold ids that are credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reply { status, position, request_id, .. } = self;
        write!(f, "Reply({status} at {position}, request {request_id})")
    }
}

#[cfg(test)]
pub(crate) mod samples {
    use super::*;

    /// An answer as the service would give it.
    pub(crate) fn reply(status: u16, body: &str) -> Reply {
        Reply {
            status,
            position: Position { epoch: 1, position: 7 },
            retry_after: None,
            link: None,
            json: serde_json::from_str(body).unwrap(),
            url: "http://test".into(),
            request_id: "r1".into(),
        }
    }

    pub(crate) fn trouble() -> Trouble {
        Trouble { message: "broke off".into(), url: "http://test".into(), request_id: "r1".into() }
    }
}
