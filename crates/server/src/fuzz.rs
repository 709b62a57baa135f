//! Input of callers that this crate parses in private: the headers that mean something, and ids in paths. Bodies,
//! queries and durations are public and have their targets in `tests/fuzz`.

use http::{HeaderMap, HeaderValue};
use leasehold_fuzz::outcome;

use crate::faces::{idempotency_key, listening, parse_uuid};
use crate::http::query::Query;

const MAX_WAIT_US: u64 = 300_000_000;

/// The same bytes as `Idempotency-Key`, as `Prefer`, and as an id.
fn header(bytes: &[u8]) -> u64 {
    let uuid = std::str::from_utf8(bytes).ok().and_then(parse_uuid);
    if let Some(id) = uuid {
        let text = uuid::Uuid::from_u128(id).hyphenated().to_string();
        assert!(bytes.eq_ignore_ascii_case(text.as_bytes()), "{text} was read");
    }
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return 0 };
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", value.clone());
    headers.insert("prefer", value);
    let is_fit = (1..=255).contains(&bytes.len()) && bytes.iter().all(u8::is_ascii_graphic);
    let key = idempotency_key(&headers, &[b"asked"]);
    match &key {
        Ok(key) => assert_eq!((key.as_ref().map(|key| key.name.as_bytes()), is_fit), (Some(bytes), true)),
        // A key is as good as a secret: it is not repeated.
        Err(problem) => assert_eq!((problem.status.as_u16(), problem.reason.len() < 100, is_fit), (400, true, false)),
    }
    let query = Query::parse(None).expect("nothing is wrong with nothing");
    let listening = listening(&headers, &query, MAX_WAIT_US);
    match &listening {
        Ok(wait) => assert!(wait.us <= MAX_WAIT_US && (!wait.is_cut || wait.us == MAX_WAIT_US), "{wait:?}"),
        Err(problem) => assert!(problem.status == 400 && !problem.reason.chars().any(char::is_control), "{problem}"),
    }
    outcome(&(
        uuid.is_some(),
        key.is_ok(),
        listening.as_ref().map(|wait| wait.us > 0).map_err(|problem| problem.status),
    ))
}

#[test]
fn headers_and_ids() {
    leasehold_fuzz::run(
        "header",
        &["wait=", "wait", ",", ";", "\"", "=", "respond-async", "1e9", "nan", "inf"],
        header,
    );
}
