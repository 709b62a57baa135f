//! The answers to a caller that is not let in, or has no right to its call (RFC 6750).

use http::{HeaderValue, StatusCode};
use leasehold_auth::{Action, Identity, Refused, Target};

use super::shown;
use crate::code::Code;
use crate::http::Problem;

const REALM: &str = r#"Bearer realm="leasehold""#;

/// Seconds after which to try again when the provider could not be asked.
const RETRY_PROVIDER_S: u64 = 5;

pub(super) fn refused(refused: &Refused) -> Problem {
    match refused {
        Refused::Invalid { reason, .. } => {
            let challenge = format!(r#"{REALM}, error="invalid_token", error_description="{}""#, quotable(reason));
            Problem::unauthorized(reason.clone(), challenge_value(&challenge))
        }
        Refused::TooMany { retry_after_s } => {
            Problem::too_many("too many failed attempts to sign on from this address", (*retry_after_s).into())
        }
        Refused::Unavailable { reason, .. } => Problem::unavailable(reason.clone(), RETRY_PROVIDER_S),
    }
}

/// Not allowed: 401 for a caller that has not signed on, else 403.
pub(super) fn missing(identity: &Identity, action: Action, target: Target<'_>) -> Problem {
    denied(identity, format!("{} needs the action '{action}' on {target}", shown(identity)))
}

/// The same for a list: the caller has the action on no resource at all.
pub(super) fn missing_everywhere(identity: &Identity, action: Action) -> Problem {
    denied(identity, format!("{} needs the action '{action}' on some claims", shown(identity)))
}

pub(super) fn not_the_owner(identity: &Identity) -> Problem {
    denied(
        identity,
        format!("{} does not own this claim, and only its owner can prove that it is held", shown(identity)),
    )
}

pub(super) fn needs_a_name() -> Problem {
    denied(&Identity::ANONYMOUS, "a lock's client must be the name of its caller, who has not signed on".to_owned())
}

pub(super) fn foreign_client(name: &str) -> Problem {
    let reason = format!("client must be {name:?}, or begin with it and a slash: locks are held under one's own name");
    Problem::new(StatusCode::FORBIDDEN, reason).coded(Code::ForeignClient)
}

pub(super) fn too_fast(identity: &Identity, retry_after_s: u32) -> Problem {
    Problem::too_many(format!("{} sends more requests a second than it may", shown(identity)), retry_after_s.into())
}

fn denied(identity: &Identity, reason: String) -> Problem {
    if identity.is_anonymous() {
        Problem::unauthorized(reason, HeaderValue::from_static(REALM))
    } else {
        let challenge = format!(r#"{REALM}, error="insufficient_scope""#);
        Problem::forbidden(reason, challenge_value(&challenge))
    }
}

/// The text in a form that may stand between quotes in a header: our sentences are ASCII, but they may quote a caller.
fn quotable(text: &str) -> String {
    text.chars().map(|c| if c == '"' || c == '\\' || !(' '..='~').contains(&c) { '\'' } else { c }).collect()
}

fn challenge_value(text: &str) -> HeaderValue {
    HeaderValue::try_from(text).expect("visible ASCII")
}

/// A claim that does not exist, or that this caller must not know of: both read the same.
pub(crate) fn no_such_claim() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no such claim").coded(Code::NoSuchClaim)
}
