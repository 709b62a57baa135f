//! The end of a lease or a claim, in one word for its former holder, the same in every dialect.

use http::{Response, StatusCode};
use leasehold_engine::Ending;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::Envelope;
use crate::code::Code;
use crate::http::Body;
use crate::http::json::to_bytes;
use crate::http::json::value::May;
use crate::openapi::AnswerDoc;
use crate::response;

pub(crate) const WORDS: [&str; 5] = ["returned", "expired", "revoked", "withdrawn", "deleted"];

pub(crate) fn word(how: Ending) -> &'static str {
    match how {
        Ending::Released => "returned",
        Ending::Expired | Ending::Superseded => "expired",
        Ending::Revoked | Ending::Aborted => "revoked",
        Ending::Withdrawn | Ending::TimedOut | Ending::HandedBack => "withdrawn",
        Ending::Deleted => "deleted",
    }
}

/// An error about a lease or claim that has ended, and how it ended, where that is remembered.
pub(crate) fn answer(
    status: StatusCode,
    code: Code,
    error: &str,
    how: Option<Ending>,
    envelope: &Envelope<'_>,
) -> Response<Body> {
    let body = to_bytes(&EndedError { error, code, ended: May(how.map(word)) });
    envelope.positioned(response::json(status, envelope.id, body))
}

/// An error about a lease or claim that has ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EndedError<'a> {
    error: &'a str,
    code: Code,
    /// How it ended, where that is remembered.
    #[serde(skip_serializing_if = "May::is_missing")]
    #[schemars(extend("enum" = WORDS))]
    ended: May<&'static str>,
}

/// `answer` for the OpenAPI document.
pub(crate) fn key_spent(says: &'static str, example: &str) -> AnswerDoc {
    AnswerDoc::shape::<EndedError<'_>>(says, &json!({"error": example, "code": "key_spent", "ended": "returned"}))
}
