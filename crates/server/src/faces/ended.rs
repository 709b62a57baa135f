//! The end of a lease or a claim, in one word for its former holder, the same in every dialect.

use http::{Response, StatusCode};
use leasehold_engine::Ending;
use serde_json::json;

use super::Reply;
use crate::http::json::write::write_string;
use crate::http::{Body, Code, error_body_with, response};
use crate::openapi::{Answer, Schema, code_schema};

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
    reply: &Reply<'_>,
) -> Response<Body> {
    let body = error_body_with(code, error, |body| {
        if let Some(how) = how {
            body.extend_from_slice(b",\"ended\":");
            write_string(body, word(how));
        }
    });
    reply.positioned(response::json(status, reply.id, body))
}

/// `answer` for the OpenAPI document.
pub(crate) fn key_spent(says: &'static str, example: &str) -> Answer {
    Answer::json(
        says,
        Schema::named("EndedError"),
        &json!({"error": example, "code": "key_spent", "ended": "returned"}),
    )
}

pub(crate) fn schema() -> (&'static str, Schema) {
    let schema = Schema::object()
        .member("error", Schema::string())
        .member("code", code_schema())
        .maybe("ended", Schema::one_of(&WORDS).says("How it ended, where that is remembered."));
    ("EndedError", schema)
}
