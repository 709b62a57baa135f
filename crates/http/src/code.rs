//! The kind of an error, in one word for programs. Those of HTTP itself are here. A service has more, and the list in
//! which each has its meaning.

use http::StatusCode;
use serde::Serialize;

/// A word that a program may decide by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(&'static str);

macro_rules! codes {
    ($($code:ident $name:literal),+ $(,)?) => {
        impl ErrorCode {
            $(pub const $code: ErrorCode = ErrorCode($name);)+

            /// Those of HTTP itself.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$code),+];
        }
    };
}

codes! {
    BAD_REQUEST "bad_request",
    UNAUTHENTICATED "unauthenticated",
    FORBIDDEN "forbidden",
    NO_SUCH_PATH "no_such_path",
    WRONG_METHOD "wrong_method",
    BODY_LATE "body_late",
    BODY_TOO_LARGE "body_too_large",
    URI_TOO_LONG "uri_too_long",
    BODY_ENCODED "body_encoded",
    WRONG_HOST "wrong_host",
    TOO_MANY_REQUESTS "too_many_requests",
    HEADERS_TOO_LARGE "headers_too_large",
    OVERLOADED "overloaded",
    UNAVAILABLE "unavailable",
}

impl ErrorCode {
    /// One of the service's own.
    pub const fn new(name: &'static str) -> Self {
        ErrorCode(name)
    }

    /// The usual meaning of a status. Where a status has several, the error says which.
    pub fn of(status: StatusCode) -> ErrorCode {
        match status.as_u16() {
            401 => ErrorCode::UNAUTHENTICATED,
            403 => ErrorCode::FORBIDDEN,
            404 => ErrorCode::NO_SUCH_PATH,
            405 => ErrorCode::WRONG_METHOD,
            408 => ErrorCode::BODY_LATE,
            413 => ErrorCode::BODY_TOO_LARGE,
            414 => ErrorCode::URI_TOO_LONG,
            415 => ErrorCode::BODY_ENCODED,
            421 => ErrorCode::WRONG_HOST,
            429 => ErrorCode::TOO_MANY_REQUESTS,
            431 => ErrorCode::HEADERS_TOO_LARGE,
            500.. => ErrorCode::UNAVAILABLE,
            _ => ErrorCode::BAD_REQUEST,
        }
    }
}
