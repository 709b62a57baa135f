//! The status of a call, sorted by what has to be done about it.

use std::error::Error as _;

use tonic::{Code, Status};

use super::connection::plain;
use crate::error::EtcdRefusal;

/// The reaction to a status other than success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it again, to the next endpoint. It may have been executed.
    Again(String),
    /// Authenticate, then send it again. It was not executed.
    Authenticate(String),
    /// Final.
    Refused(EtcdRefusal),
}

/// Refusals are known by their words, as clients of etcd know them; codes alone are shared by too many. Everything
/// unknown is tried again: a refusal by mistake would stop a node, and a repetition by mistake only lasts until
/// the caller's patience ends.
pub(super) fn of(status: &Status) -> Verdict {
    if status.source().is_some() {
        let reason = status.source().map_or_else(String::new, plain);
        return Verdict::Again(reason);
    }
    let text = status.message();
    let says = |words: &str| text.contains(words);
    let refused = Verdict::Refused;
    match status.code() {
        Code::ResourceExhausted if says("database space exceeded") => refused(EtcdRefusal::Full),
        Code::Unauthenticated => Verdict::Authenticate(text.to_owned()),
        Code::InvalidArgument if says("revision of auth store is old") => Verdict::Authenticate(text.to_owned()),
        Code::InvalidArgument if says("user name is empty") => {
            refused(EtcdRefusal::Denied("it wants to know the user; add ?user=NAME&password-file=FILE".to_owned()))
        }
        Code::InvalidArgument if says("authentication failed") => {
            refused(EtcdRefusal::Denied("the user or the password is wrong".to_owned()))
        }
        Code::PermissionDenied => refused(EtcdRefusal::Denied("permission denied".to_owned())),
        Code::OutOfRange if says("mvcc:") => refused(EtcdRefusal::NoRevision(text.to_owned())),
        Code::OutOfRange if says("too large") => refused(EtcdRefusal::TooLarge(text.to_owned())),
        Code::DataLoss => refused(EtcdRefusal::Corrupt(text.to_owned())),
        Code::InvalidArgument | Code::Unimplemented => refused(EtcdRefusal::Other(text.to_owned())),
        _ => Verdict::Again(text.to_owned()),
    }
}

/// etcd does not know users because authentication is off.
pub(super) fn is_without_users(status: &Status) -> bool {
    status.source().is_none() && status.message().contains("authentication is not enabled")
}
