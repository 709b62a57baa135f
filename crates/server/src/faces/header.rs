//! Headers that mean the same in more than one dialect.

use std::sync::Arc;

use http::{HeaderMap, HeaderName};
use leasehold_engine::IdempotencyKey;

use crate::duration::{Cut, parse_setting};
use crate::http::Problem;
use crate::http::json::{DURATION_HINT, shown};
use crate::http::query::Query;
use crate::limits::IDEMPOTENCY_KEY_MAX;
use crate::openapi::{Operation, Schema};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `Idempotency-Key` in the OpenAPI document.
pub(crate) fn document_key(operation: Operation) -> Operation {
    let says = "The same key on the same resource is the same request, also while it waits, after a lost answer and after a \
                restart: it gets the same answer and takes nothing twice.";
    operation.header("Idempotency-Key", says, key_schema())
}

/// The same for a call that is useless without it.
pub(crate) fn document_required_key(operation: Operation) -> Operation {
    operation.required_header("Idempotency-Key", "The key of the call that is given up.", key_schema())
}

fn key_schema() -> Schema {
    Schema::string().length(1, IDEMPOTENCY_KEY_MAX).pattern("^[!-~]+$")
}

/// `Idempotency-Key`, with a digest of the request. The `wait` of a call is no part of that: a retry has less time left
/// than the first call had.
pub(crate) fn idempotency_key(headers: &HeaderMap, asked: &[&[u8]]) -> Result<Option<IdempotencyKey>, Problem> {
    Ok(key_name(headers)?.map(|name| IdempotencyKey { name, fingerprint: fingerprint(asked) }))
}

/// `Idempotency-Key` alone.
pub(crate) fn key_name(headers: &HeaderMap) -> Result<Option<Arc<str>>, Problem> {
    // A look at each takes less than a search: there are few.
    let mut values = headers.iter().filter(|(name, _)| **name == IDEMPOTENCY_KEY).map(|(_, value)| value);
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.as_bytes();
    let is_fit = (1..=IDEMPOTENCY_KEY_MAX).contains(&text.len()) && text.iter().all(u8::is_ascii_graphic);
    if !is_fit || values.next().is_some() {
        let reason =
            format!("Idempotency-Key must be given once, with 1 to {IDEMPOTENCY_KEY_MAX} visible ASCII characters");
        return Err(Problem::bad_request(reason));
    }
    Ok(Some(Arc::from(value.to_str().expect("visible ASCII is a string"))))
}

/// FNV-1a over the parts and their lengths. It is stored, so it must never change; it guards against mistakes, not
/// against attackers, who could as well use another key.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    for part in parts {
        part.len().to_le_bytes().into_iter().for_each(&mut add);
        part.iter().copied().for_each(&mut add);
    }
    hash
}

/// How long to hold the answer back: `wait` in the query, in seconds, or `Prefer: wait=N`. At most the maximum.
pub(crate) fn listening(headers: &HeaderMap, query: &Query<'_>, wait_max_us: u64) -> Result<Cut, Problem> {
    let preferred = headers.get("prefer").and_then(|value| value.to_str().ok()).and_then(preferred_wait);
    match query.get("wait").or(preferred) {
        None => Ok(Cut::default()),
        Some(text) => {
            if let Some(wait_us) = seconds_us(text) {
                Ok(Cut::to(wait_max_us, wait_us))
            } else {
                let reason = format!("wait must be a number of seconds from 0, got {}", shown(text));
                Err(Problem::about("wait", reason).hinting(DURATION_HINT))
            }
        }
    }
}

/// `wait=10` among the preferences of RFC 7240.
fn preferred_wait(prefer: &str) -> Option<&str> {
    let preferences = prefer.split([',', ';']).map(str::trim);
    preferences
        .filter_map(|preference| preference.split_once('='))
        .find_map(|(name, value)| name.trim().eq_ignore_ascii_case("wait").then(|| value.trim().trim_matches('"')))
}

/// A duration, in microseconds, cut to what the engine takes: a plain number of seconds, finite and from 0, or a text
/// with units such as `1m30s`.
pub(crate) fn seconds_us(text: &str) -> Option<u64> {
    plain_seconds_us(text)
        .or_else(|| parse_setting(text).ok())
        .map(|duration_us| duration_us.min(leasehold_engine::limits::DURATION_MAX_US))
}

/// The same uncut, for points in time: those are counted from 1970.
pub(crate) fn plain_seconds_us(text: &str) -> Option<u64> {
    let is_plain =
        !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let seconds: f64 = text.parse().ok().filter(|_| is_plain)?;
    if !seconds.is_finite() || seconds < 0.0 {
        return None;
    }
    // Saturates: a duration above 580 000 years is cut to that.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be positive; saturates")]
    let microseconds = (seconds * 1e6).round() as u64;
    Some(microseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_found_among_others() {
        for (prefer, expected) in [
            ("wait=10", Some("10")),
            ("respond-async, wait=10", Some("10")),
            ("Wait = \"5\"; x=1", Some("5")),
            ("respond-async", None),
        ] {
            assert_eq!(preferred_wait(prefer), expected, "{prefer}");
        }
    }

    #[test]
    fn seconds_are_plain_numbers_or_have_units() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1.5", Some(1_500_000)),
            ("1e2", Some(100_000_000)),
            ("1e300", Some(leasehold_engine::limits::DURATION_MAX_US)),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("1e999", None),
            ("", None),
            ("10s", Some(10_000_000)),
            ("1m30s", Some(90_000_000)),
            ("1d", Some(86_400_000_000)),
            ("-1s", None),
            ("10x", None),
        ] {
            assert_eq!(seconds_us(text), expected, "{text}");
        }
    }

    #[test]
    fn fingerprints_tell_parts_apart() {
        assert_ne!(fingerprint(&[b"ab", b"c"]), fingerprint(&[b"a", b"bc"]));
        assert_eq!(fingerprint(&[b"a"]), fingerprint(&[b"a"]));
    }
}
