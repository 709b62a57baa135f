//! The outcome table: what each answer, and each way of getting none, means to a caller that acquires, holds or
//! releases. Pure, so that every row is a line of a test. `worker` carries it out.

use std::time::Duration;

use crate::dialect::{Kind, Target};
use crate::error::{Error, Holder};
use crate::loss::Cause;
use crate::reply::{Heard, Reply, Trouble};

/// The meaning of an answer while acquiring or waiting.
#[derive(Debug)]
pub(crate) enum Asked {
    /// It has an active lease in it.
    Granted,
    /// A claim that waits.
    Waiting,
    /// Not free in this round; the place in line ended with it unless another call joined it.
    NextRound(Holder),
    /// It was granted and ended before the caller heard of it: start afresh under a new name.
    Ended,
    /// Asking again does not help.
    Fail(Error),
    /// The same bytes again.
    Again(Again),
}

/// How to ask again.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) pause: Pause,
    /// It may have been carried out, and has to be settled if the caller gives up.
    pub(crate) is_unknown: bool,
    /// The error for a caller that gives up.
    pub(crate) error: Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Doubling, drawn at random.
    Backoff,
    /// As the service said, and up to a second more.
    After(Duration),
}

/// The meaning of an answer to a renewal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// If its ids and token are ours.
    Held,
    /// It ended.
    Lost(Cause),
    /// The attempt failed; the service may have said how long to wait.
    Failed { error: String, retry_after: Option<Duration> },
}

/// How a release ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// It was held until now, and is free.
    Released,
    /// It had ended before.
    EndedBefore,
    /// Not known. It is free when its ttl is over.
    Unknown,
}

impl Released {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Released::Released => "released",
            Released::EndedBefore => "ended_before",
            Released::Unknown => "unknown",
        }
    }
}

/// The meaning of an answer to a release.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    Done(Released),
    /// A claim that waits is withdrawn, not released.
    Withdraw,
    Again {
        retry_after: Option<Duration>,
    },
}

pub(crate) fn asked(target: &Target, heard: &Heard) -> Asked {
    let again = |pause, is_unknown, error| Asked::Again(Again { pause, is_unknown, error });
    let reply = match heard {
        Heard::Reply(reply) => reply,
        Heard::NotSent(trouble) => return again(Pause::Backoff, false, Error::Unavailable(trouble.clone())),
        Heard::WrongHost(trouble) => return Asked::Fail(Error::WrongHost(trouble.clone())),
        Heard::Tls(trouble) => return Asked::Fail(Error::Tls(trouble.clone())),
        Heard::OtherService(trouble) => return Asked::Fail(Error::DifferentServices(trouble.clone())),
        Heard::Unknown { trouble, retry_after } => {
            let pause = retry_after.map_or(Pause::Backoff, Pause::After);
            return again(pause, true, Error::Unavailable(trouble.clone()));
        }
    };
    let trouble = reply.trouble();
    match reply.status {
        202 => Asked::Waiting,
        200..=299 => match (target.kind(), reply.text("status")) {
            (Kind::Claim, Some("waiting")) => Asked::Waiting,
            _ => Asked::Granted,
        },
        401 => Asked::Fail(Error::Unauthenticated(trouble)),
        403 => Asked::Fail(Error::Forbidden(trouble)),
        404 if target.kind() == Kind::Claim => Asked::Ended,
        404 => Asked::Fail(Error::NotFound(trouble)),
        409 => match (target.kind(), reply.text("status")) {
            (Kind::Claim, Some(status)) if status != "waiting" => Asked::Ended,
            _ => Asked::NextRound(holder(target, reply)),
        },
        410 => Asked::Ended,
        429 | 503 => {
            let pause = reply.retry_after.map_or(Pause::Backoff, Pause::After);
            again(pause, false, Error::Unavailable(trouble))
        }
        502 => again(Pause::Backoff, false, Error::Unavailable(trouble)),
        500.. => again(Pause::Backoff, true, Error::Unavailable(trouble)),
        _ => Asked::Fail(Error::Protocol(trouble)),
    }
}

pub(crate) fn renewed(kind: Kind, heard: &Heard) -> Renewed {
    let failed = |trouble: &Trouble, retry_after| Renewed::Failed { error: trouble.to_string(), retry_after };
    let reply = match heard {
        Heard::Reply(reply) => reply,
        Heard::NotSent(trouble) | Heard::WrongHost(trouble) | Heard::Tls(trouble) | Heard::OtherService(trouble) => {
            return failed(trouble, None);
        }
        Heard::Unknown { trouble, retry_after } => return failed(trouble, *retry_after),
    };
    match reply.status {
        200..=299 => Renewed::Held,
        404 | 409 | 410 => Renewed::Lost(end_of(kind, reply)),
        429 | 503 => failed(&reply.trouble(), reply.retry_after),
        _ => failed(&reply.trouble(), None),
    }
}

/// `is_repeated`: an earlier attempt may have been carried out, so that "no longer held" means that it was.
pub(crate) fn released(heard: &Heard, is_repeated: bool) -> GivenBack {
    let done_before = || GivenBack::Done(if is_repeated { Released::Released } else { Released::EndedBefore });
    let reply = match heard {
        Heard::Reply(reply) => reply,
        Heard::NotSent(_) | Heard::WrongHost(_) => return GivenBack::Again { retry_after: None },
        Heard::Tls(_) | Heard::OtherService(_) => return GivenBack::Done(Released::Unknown),
        Heard::Unknown { retry_after, .. } => return GivenBack::Again { retry_after: *retry_after },
    };
    match reply.status {
        200..=299 if reply.json.get("returned").and_then(serde_json::Value::as_bool) == Some(false) => done_before(),
        200..=299 => GivenBack::Done(Released::Released),
        409 if reply.text("status") == Some("waiting") => GivenBack::Withdraw,
        404 | 409 | 410 => done_before(),
        403 if is_not_the_holder(reply) => done_before(),
        429 | 503 => GivenBack::Again { retry_after: reply.retry_after },
        500.. => GivenBack::Again { retry_after: None },
        _ => GivenBack::Done(Released::Unknown),
    }
}

/// The 403 of a lock that is held by another, and not one of a policy.
fn is_not_the_holder(reply: &Reply) -> bool {
    matches!(reply.code(), Some("not_holder" | "not_the_holder"))
        || reply.text("error").is_some_and(|reason| reason.contains("does not hold the lock"))
}

fn holder(target: &Target, reply: &Reply) -> Holder {
    Holder {
        resource: target.to_string(),
        name: reply.text("holder").filter(|name| !name.is_empty()).map(str::to_owned),
        reason: reply.reason().to_owned(),
        request_id: reply.request_id.clone(),
    }
}

/// Why a renewal was refused for good.
fn end_of(kind: Kind, reply: &Reply) -> Cause {
    if let Some(word) = reply.text("ended").or_else(|| reply.text("status")) {
        return Cause::from_word(word);
    }
    match (kind, reply.status) {
        (Kind::Pool, 404) => Cause::Deleted,
        _ => Cause::Expired,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::samples::{reply, trouble};

    fn lock() -> Target {
        Target::lock("backup")
    }

    fn claim() -> Target {
        Target::claim("gpu", None)
    }

    fn pool() -> Target {
        Target::pool("9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01").unwrap()
    }

    fn short(asked: &Asked) -> String {
        match asked {
            Asked::Granted => "granted".into(),
            Asked::Waiting => "waiting".into(),
            Asked::NextRound(_) => "next round".into(),
            Asked::Ended => "ended".into(),
            Asked::Fail(error) => error.kind().into(),
            Asked::Again(again) => {
                let word = if again.is_unknown { "unknown" } else { "not executed" };
                match again.pause {
                    Pause::Backoff => word.into(),
                    Pause::After(pause) => format!("{word} {pause:?}"),
                }
            }
        }
    }

    #[test]
    fn every_answer_while_acquiring() {
        for (target, status, body, expected) in [
            (lock(), 200, "{}", "granted"),
            (pool(), 200, "{}", "granted"),
            (claim(), 201, r#"{"status":"active"}"#, "granted"),
            (claim(), 202, r#"{"status":"waiting"}"#, "waiting"),
            (claim(), 200, r#"{"status":"waiting"}"#, "waiting"),
            (claim(), 409, r#"{"status":"waiting"}"#, "next round"),
            (claim(), 409, r#"{"status":"revoked"}"#, "ended"),
            (claim(), 409, "{}", "next round"),
            (claim(), 404, "{}", "ended"),
            (pool(), 404, "{}", "NotFound"),
            (lock(), 404, "{}", "NotFound"),
            (pool(), 409, "{}", "next round"),
            (lock(), 409, "{}", "next round"),
            (pool(), 410, "{}", "ended"),
            (pool(), 400, "{}", "Protocol"),
            (pool(), 405, "{}", "Protocol"),
            (pool(), 413, "{}", "Protocol"),
            (pool(), 422, "{}", "Protocol"),
            (pool(), 431, "{}", "Protocol"),
            (pool(), 401, "{}", "Unauthenticated"),
            (pool(), 403, "{}", "Forbidden"),
            (pool(), 429, "{}", "not executed"),
            (pool(), 502, "{}", "not executed"),
            (pool(), 503, "{}", "not executed"),
            (pool(), 500, "{}", "unknown"),
            (pool(), 504, "{}", "unknown"),
        ] {
            let heard = Heard::Reply(reply(status, body));
            assert_eq!(short(&asked(&target, &heard)), expected, "{target} {status} {body}");
        }
        let mut busy = reply(503, "{}");
        busy.retry_after = Some(Duration::from_secs(2));
        assert_eq!(short(&asked(&pool(), &Heard::Reply(busy))), "not executed 2s");
        for (heard, expected) in [
            (Heard::NotSent(trouble()), "not executed"),
            (Heard::WrongHost(trouble()), "WrongHost"),
            (Heard::Tls(trouble()), "Tls"),
            (Heard::OtherService(trouble()), "DifferentServices"),
            (Heard::Unknown { trouble: trouble(), retry_after: None }, "unknown"),
        ] {
            assert_eq!(short(&asked(&lock(), &heard)), expected);
        }
    }

    #[test]
    fn every_answer_to_a_renewal() {
        use Renewed::{Held, Lost};
        for (kind, status, body, expected) in [
            (Kind::Pool, 200, "{}", Some(Held)),
            (Kind::Claim, 200, "{}", Some(Held)),
            (Kind::Pool, 404, "{}", Some(Lost(Cause::Deleted))),
            (Kind::Pool, 409, "{}", Some(Lost(Cause::Expired))),
            (Kind::Pool, 409, r#"{"ended":"revoked"}"#, Some(Lost(Cause::Revoked))),
            (Kind::Claim, 409, r#"{"status":"revoked"}"#, Some(Lost(Cause::Revoked))),
            (Kind::Claim, 404, "{}", Some(Lost(Cause::Expired))),
            (Kind::Lock, 409, "{}", Some(Lost(Cause::Expired))),
            (Kind::Lock, 400, "{}", None),
            (Kind::Lock, 401, "{}", None),
            (Kind::Lock, 403, "{}", None),
            (Kind::Lock, 422, "{}", None),
            (Kind::Lock, 429, "{}", None),
            (Kind::Lock, 500, "{}", None),
            (Kind::Lock, 502, "{}", None),
            (Kind::Lock, 503, "{}", None),
        ] {
            let meaning = renewed(kind, &Heard::Reply(reply(status, body)));
            match expected {
                Some(expected) => assert_eq!(meaning, expected, "{kind:?} {status} {body}"),
                None => assert!(matches!(meaning, Renewed::Failed { .. }), "{kind:?} {status}: {meaning:?}"),
            }
        }
        for heard in [
            Heard::NotSent(trouble()),
            Heard::WrongHost(trouble()),
            Heard::Tls(trouble()),
            Heard::OtherService(trouble()),
            Heard::Unknown { trouble: trouble(), retry_after: None },
        ] {
            assert!(matches!(renewed(Kind::Pool, &heard), Renewed::Failed { .. }), "{heard:?}");
        }
    }

    #[test]
    fn every_answer_to_a_release() {
        use GivenBack::{Again, Done, Withdraw};
        use Released::{EndedBefore, Unknown};
        for (status, body, once, repeated) in [
            (200, r#"{"returned":true}"#, Done(Released::Released), Done(Released::Released)),
            (200, r#"{"returned":false}"#, Done(EndedBefore), Done(Released::Released)),
            (200, "{}", Done(Released::Released), Done(Released::Released)),
            (204, "null", Done(Released::Released), Done(Released::Released)),
            (403, r#"{"error":"client does not hold the lock"}"#, Done(EndedBefore), Done(Released::Released)),
            (403, r#"{"error":"may not"}"#, Done(Unknown), Done(Unknown)),
            (404, "{}", Done(EndedBefore), Done(Released::Released)),
            (409, "{}", Done(EndedBefore), Done(Released::Released)),
            (409, r#"{"status":"waiting"}"#, Withdraw, Withdraw),
            (410, "{}", Done(EndedBefore), Done(Released::Released)),
            (400, "{}", Done(Unknown), Done(Unknown)),
            (401, "{}", Done(Unknown), Done(Unknown)),
            (502, "{}", Again { retry_after: None }, Again { retry_after: None }),
            (503, "{}", Again { retry_after: None }, Again { retry_after: None }),
        ] {
            let heard = Heard::Reply(reply(status, body));
            assert_eq!(released(&heard, false), once, "{status} {body}");
            assert_eq!(released(&heard, true), repeated, "{status} {body}, again");
        }
        assert_eq!(released(&Heard::Tls(trouble()), false), Done(Unknown));
        assert_eq!(released(&Heard::NotSent(trouble()), false), Again { retry_after: None });
    }
}
