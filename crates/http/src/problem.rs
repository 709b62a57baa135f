//! A request that could not be served, as an answer: a status, a sentence, and the header that goes with it. Used for
//! requests that are wrong as such; each dialect words the engine's refusals.

use std::borrow::Cow;

use http::header::{ALLOW, CONNECTION, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use super::code::ErrorCode;
use super::json::value::May;
use super::json::{BadBody, to_bytes};
use super::request_id::RequestId;
use super::response::{self, Body};

/// An answer that is an error. The sentence is shown to the caller, so it never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Problem {
    pub status: StatusCode,
    /// Lower case, no full stop; names the field at fault and the allowed range.
    pub reason: Cow<'static, str>,
    pub code: ErrorCode,
    /// The field or parameter at fault, for programs.
    pub field: Option<Cow<'static, str>>,
    /// What the caller probably wants, beside a sentence that is published and stays as it is.
    pub hint: Option<&'static str>,
    /// On the heap, as the results of most functions would have room for it otherwise.
    remedy: Option<Box<Remedy>>,
}

/// The remedy that a header offers the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Remedy {
    /// These methods work here.
    Allow(HeaderValue),
    /// Seconds after which to try again.
    RetryAfter(u64),
    /// Where to go instead.
    Go(HeaderValue),
    /// How to sign on.
    Authenticate(HeaderValue),
    /// The rest of the request was not read, so this connection can serve no more requests.
    Reconnect,
}

impl Problem {
    pub fn new(status: StatusCode, reason: impl Into<Cow<'static, str>>) -> Self {
        Problem { status, reason: reason.into(), code: ErrorCode::of(status), field: None, hint: None, remedy: None }
    }

    /// 400: the caller has to fix the call.
    pub fn bad_request(reason: impl Into<Cow<'static, str>>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, reason)
    }

    /// 400 about one field of the body or parameter of the query, which the sentence names too.
    pub fn about(field: impl Into<Cow<'static, str>>, reason: impl Into<Cow<'static, str>>) -> Self {
        Problem { field: Some(field.into()), ..Problem::bad_request(reason) }
    }

    /// 404 for a path that is not served. The path is not repeated, as it may hold a pool id.
    pub fn no_such_path() -> Self {
        Problem::new(StatusCode::NOT_FOUND, "no such path").hinting("GET /docs shows every path")
    }

    /// 405, with the methods that do work.
    pub fn wrong_method(method: &http::Method, allow: HeaderValue, hint: Option<&str>) -> Self {
        let allowed = allow.to_str().expect("a list of method names is ASCII");
        // Clients can make up methods, so only a short part is repeated.
        let name: String = method.as_str().chars().take(20).collect();
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        let reason = format!("method {name} is not allowed here, use {allowed}{hint}");
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, reason).with(Remedy::Allow(allow))
    }

    /// 503: the service cannot serve this now.
    pub fn unavailable(reason: impl Into<Cow<'static, str>>, retry_after_s: u64) -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, reason).with(Remedy::RetryAfter(retry_after_s))
    }

    /// 503 on a connection that was one too many.
    pub fn too_many_connections() -> Self {
        Problem::unavailable("too many connections", 1).coded(ErrorCode::OVERLOADED).and_close()
    }

    /// 502: a service behind this one did not answer in time.
    pub fn bad_gateway(reason: impl Into<Cow<'static, str>>, retry_after_s: u64) -> Self {
        Problem::new(StatusCode::BAD_GATEWAY, reason).with(Remedy::RetryAfter(retry_after_s))
    }

    /// 303: a browser is to go elsewhere first.
    pub fn see_other(reason: impl Into<Cow<'static, str>>, location: HeaderValue) -> Self {
        Problem::new(StatusCode::SEE_OTHER, reason).with(Remedy::Go(location))
    }

    /// 401: the caller is not identified.
    pub fn unauthorized(reason: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, reason).with(Remedy::Authenticate(challenge))
    }

    /// 403: the caller is identified, but has no right to this.
    pub fn forbidden(reason: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Problem::new(StatusCode::FORBIDDEN, reason).with(Remedy::Authenticate(challenge))
    }

    /// 429: too many requests of one caller.
    pub fn too_many(reason: impl Into<Cow<'static, str>>, retry_after_s: u64) -> Self {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, reason).with(Remedy::RetryAfter(retry_after_s))
    }

    /// The same, where its status has more meanings than one.
    #[must_use]
    pub fn coded(mut self, code: impl Into<ErrorCode>) -> Self {
        self.code = code.into();
        self
    }

    /// The same with a hint.
    #[must_use]
    pub fn hinting(mut self, hint: impl Into<Option<&'static str>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Returns whether the caller is asked to sign on, or has no right to its call.
    pub fn is_about_sign_on(&self) -> bool {
        matches!(self.remedy.as_deref(), Some(Remedy::Authenticate(_) | Remedy::Go(_)))
    }

    fn with(mut self, remedy: Remedy) -> Self {
        self.remedy = Some(Box::new(remedy));
        self
    }

    /// The same, and the connection is closed after it.
    #[must_use]
    pub fn and_close(self) -> Self {
        self.with(Remedy::Reconnect)
    }

    fn body(&self) -> Vec<u8> {
        let field = May(self.field.as_deref());
        to_bytes(&ErrorBody { error: &self.reason, code: self.code, field, hint: May(self.hint) })
    }

    pub fn to_response(&self, id: &RequestId) -> Response<Body> {
        let mut response = response::json(self.status, id, self.body());
        match self.remedy.as_deref() {
            None => {}
            Some(Remedy::Allow(methods)) => {
                response.headers_mut().insert(ALLOW, methods.clone());
            }
            Some(Remedy::RetryAfter(seconds)) => {
                response::set_retry_after(&mut response, *seconds);
            }
            Some(Remedy::Go(location)) => {
                response.headers_mut().insert(LOCATION, location.clone());
            }
            Some(Remedy::Authenticate(challenge)) => {
                response.headers_mut().insert(WWW_AUTHENTICATE, challenge.clone());
            }
            Some(Remedy::Reconnect) => {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
        }
        response
    }
}

impl From<BadBody> for Problem {
    fn from(bad: BadBody) -> Self {
        let BadBody(reason, field, hint) = bad;
        Problem { field, hint, ..Problem::bad_request(reason) }
    }
}

/// Every error has at least this.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody<'a, C = ErrorCode> {
    /// The error, for people. Lower case, no full stop.
    error: &'a str,
    code: C,
    /// The field of the body or parameter of the query at fault, if it is one.
    #[serde(skip_serializing_if = "May::is_missing")]
    field: May<&'a str>,
    /// What the caller probably wants, for people.
    #[serde(skip_serializing_if = "May::is_missing")]
    hint: May<&'static str>,
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn id() -> RequestId {
        RequestId::of(&http::HeaderMap::new())
    }

    #[test]
    fn each_remedy_is_a_header() {
        let allow = HeaderValue::from_static("GET, HEAD");
        for (problem, status, header, value) in [
            (Problem::wrong_method(&Method::POST, allow, None), 405, "allow", "GET, HEAD"),
            (Problem::unavailable("starting", 2), 503, "retry-after", "2"),
            (Problem::too_many("slower", 3), 429, "retry-after", "3"),
            (Problem::unauthorized("who", HeaderValue::from_static("Bearer")), 401, "www-authenticate", "Bearer"),
            (Problem::forbidden("no", HeaderValue::from_static("Bearer")), 403, "www-authenticate", "Bearer"),
            (Problem::bad_request("body ended early").and_close(), 400, "connection", "close"),
            (Problem::no_such_path(), 404, "content-type", "application/json"),
        ] {
            let response = problem.to_response(&id());
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()[header], value);
        }
    }

    #[test]
    fn reasons_are_escaped_and_the_field_follows() {
        let body = Problem::about("ttl", "a \"quoted\" one").body();
        let expected = r#"{"error":"a \"quoted\" one","code":"bad_request","field":"ttl"}"#;
        assert_eq!(String::from_utf8(body).unwrap(), expected);
        assert_eq!(Problem::bad_request("no").body(), br#"{"error":"no","code":"bad_request"}"#);
    }

    #[test]
    fn a_made_up_method_is_cut() {
        let method = Method::from_bytes(&[b'A'; 100]).unwrap();
        let problem = Problem::wrong_method(&method, HeaderValue::from_static("GET"), None);
        assert_eq!(problem.reason, "method AAAAAAAAAAAAAAAAAAAA is not allowed here, use GET");
    }
}
