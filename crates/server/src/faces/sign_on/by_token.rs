//! `POST /login`: a person signs on to the dashboard with an API token. The token comes in the body, never in an
//! address; the answer is the sealed cookie of a session. Only a page of ours may ask, so that no other site signs a
//! browser on under a name of its choice.

use std::fmt;

use http::header::{HeaderValue, SET_COOKIE};
use http::{Response, StatusCode};
use leasehold_auth::sign_on::SESSION_COOKIE;
use schemars::JsonSchema;
use serde::Serialize;

use super::jar::Jar;
use crate::auth::{Guard, audit, cross_site, is_same_origin};
use crate::code::Code;
use crate::faces::{Received, Service};
use crate::http::json::Object;
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::links;
use crate::response;

/// A person who has logged in.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LoggedIn<'a> {
    /// The name of the token's owner.
    name: &'a str,
}

/// A session that has begun.
pub(crate) struct SessionCookie {
    name: String,
    cookie: HeaderValue,
}

/// Without the cookie, which is a credential.
impl fmt::Debug for SessionCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCookie").field("name", &self.name).finish_non_exhaustive()
    }
}

pub(super) fn begin(received: &Received<'_>, service: &Service) -> Result<SessionCookie, Problem> {
    let Received { settings, parts, body, from, .. } = *received;
    let sign_on = service.guard.current().filter(|sign_on| sign_on.has_token_login()).ok_or_else(|| {
        Problem::new(StatusCode::NOT_FOUND, "there is no login with a token here: no [[auth.token]] is configured")
            .coded(Code::NoLogin)
    })?;
    if !is_same_origin(&parts.headers, &links::base_url(settings, parts)) {
        return Err(cross_site());
    }
    let object = Object::parse(body)?;
    object.refuse_unknown(&["token"])?;
    let token = object.required_secret("token", "an API token")?;
    let counted = &service.observer.metrics.sign_ins;
    let begun = Guard::begin_session(&sign_on, &token, &parts.headers, from, settings, service.driver.now(), counted)?;
    let cookie = Jar { is_encrypted: settings.is_encrypted() }.set(SESSION_COOKIE, &begun.session, begun.lasts_s);
    Ok(SessionCookie { name: begun.principal.name.to_string(), cookie })
}

pub(super) fn answer(begun: &SessionCookie, id: &RequestId) -> Response<Body> {
    audit::logged_in(&begun.name, "token", id);
    let mut response = response::json(StatusCode::OK, id, to_bytes(&LoggedIn { name: &begun.name }));
    response.headers_mut().append(SET_COOKIE, begun.cookie.clone());
    response
}
