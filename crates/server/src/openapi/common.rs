//! The shared parts of operations: the errors that any call may meet, parameters, and how callers sign on.

use serde_json::{Map, Value, json};

use super::answer::AnswerDoc;
use super::schema::Schema;
use crate::code::Code;
use crate::limits::{BODY_MAX, HEADERS_MAX, URI_MAX};

/// Errors that any call may meet: the name of the answer, its status, and whether only calls to the engine meet it.
const ANSWERS: [(u16, &str, bool); 13] = [
    (400, "BadRequest", false),
    (401, "Unauthorized", false),
    (403, "Forbidden", false),
    (405, "MethodNotAllowed", false),
    (408, "RequestTimeout", false),
    (413, "PayloadTooLarge", false),
    (414, "UriTooLong", false),
    (415, "UnsupportedMediaType", false),
    (421, "MisdirectedRequest", false),
    (429, "TooManyRequests", false),
    (431, "RequestHeaderFieldsTooLarge", false),
    (502, "StoreLate", true),
    (503, "Unavailable", true),
];

/// References to the answers that an operation may get beside its own.
pub(crate) fn answers(is_durable: bool) -> impl Iterator<Item = (u16, Value)> {
    ANSWERS
        .into_iter()
        // The method of an operation is allowed.
        .filter(move |&(status, _, only_durable)| status != 405 && (is_durable || !only_durable))
        .map(|(status, name, _)| (status, json!({"$ref": format!("#/components/responses/{name}")})))
}

/// The answers themselves.
pub(crate) fn responses() -> Map<String, Value> {
    ANSWERS.into_iter().map(|(status, name, _)| (name.to_owned(), coded(status).into_value())).collect()
}

fn coded(status: u16) -> AnswerDoc {
    let mut answer = answer(status);
    answer.code_example(status);
    answer
}

fn answer(status: u16) -> AnswerDoc {
    match status {
        400 => AnswerDoc::error(
            "The call makes no sense. The sentence names the field at fault, its problem and what is allowed.",
            "ttl must be a number of seconds above 0, got \"soon\"",
        ),
        401 => AnswerDoc::error(
            "Where callers sign on: this one has not, or with something that is wrong.",
            "the API token is unknown or was revoked",
        )
        .header("WWW-Authenticate"),
        403 => AnswerDoc::error(
            "Where callers sign on: this one may not do that, and the sentence names the action that is missing. Or a web page of \
             another site asks for a change.",
            "ci needs the action 'acquire' on claim 'db/migrations'",
        )
        .header("WWW-Authenticate"),
        421 => AnswerDoc::error(
            "The host name is none of the service's: on loopback it answers to `localhost`, its addresses and `allowed_hosts`.",
            "host \"evil.example\" is no name of this service, allowed_hosts says which are",
        ),
        429 => AnswerDoc::error(
            "Where callers sign on: too many requests of one caller, or failed attempts from one address.",
            "ci sends more requests a second than it may",
        )
        .header("Retry-After"),
        405 => {
            AnswerDoc::error("Another method works here, see `Allow`.", "method POST is not allowed here, use GET, HEAD")
                .header("Allow")
        }
        408 => AnswerDoc::error("The body did not arrive in time.", "the body did not arrive within 10 s"),
        413 => AnswerDoc::error("The body is too large.", "the body is too large, at most 65536 bytes are allowed"),
        414 => AnswerDoc::error("The URI is too long.", "the URI has 5000 bytes, at most 4096 are allowed"),
        415 => AnswerDoc::error(
            "The body is encoded. JSON is read whatever type is declared, but as it is.",
            "content-encoding is not supported, send the body as it is",
        ),
        431 => {
            AnswerDoc::error("The headers are too long.", "the headers have 20000 bytes in all, at most 16384 are allowed")
        }
        502 => AnswerDoc::error(
            "The store did not confirm the write in time. Nothing was promised and it is safe to retry; what was asked for is \
             given back by itself if it lands later.",
            "the store did not confirm the write in time; nothing was promised, it is safe to retry",
        )
        .header("Retry-After"),
        503 => AnswerDoc::error("Starting, shutting down, or a limit is reached.", "shutting down")
            .coded(Code::ShuttingDown)
            .header("Retry-After"),
        other => unreachable!("{other} is not in the table"),
    }
}

/// Parameters that are explained once.
pub(crate) fn parameters() -> Value {
    json!({
        "RequestId": {
            "name": "X-Request-Id", "in": "header", "required": false,
            "description": "Names this request in logs and in the answer. Anything else than 1 to 128 visible ASCII \
                            characters is replaced.",
            "schema": Value::from(Schema::string()),
        },
    })
}

/// How callers sign on, where they do.
pub(crate) fn security_schemes() -> Value {
    json!({
        "bearer": {
            "type": "http", "scheme": "bearer",
            "description": "An API token, or a token of the sign-on provider. Behind a proxy that signs callers on, none.",
        },
        "basic": {
            "type": "http", "scheme": "basic",
            "description": "For clients that know only a user and a password: the password is an API token, the user its name or `-`.",
        },
    })
}

/// The limits that hold everywhere, for the introduction.
pub(crate) fn limits_in_words() -> String {
    format!(
        "Bodies have at most {} KiB, URIs {} KiB, headers {} KiB in all.",
        BODY_MAX / 1024,
        URI_MAX / 1024,
        HEADERS_MAX / 1024
    )
}
