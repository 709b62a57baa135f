//! The dashboard's own login: `/login` sends a browser to the provider, `/callback` takes it back, `/logout` forgets
//! it. `leasehold_auth::login` has the checks on the way; this file makes redirects and cookies of them.

use std::sync::Arc;

use http::header::{HeaderValue, LOCATION, SET_COOKIE};
use http::{Response, StatusCode};
use leasehold_auth::Now;
use leasehold_auth::SignOn;
use leasehold_auth::limits::FLOW_S;
use leasehold_auth::login::{Callback, Login, LoginError};
use leasehold_auth::sign_on::{Cookie, SESSION_COOKIE};
use schemars::JsonSchema;
use serde::Serialize;

use super::jar::Jar;
use super::person;
use crate::auth::{Guard, audit, cross_site, is_same_origin};
use crate::code::Code;
use crate::faces::Received;
use crate::http::json::to_bytes;
use crate::http::json::value::Fixed;
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId};
use crate::links;
use crate::response;

/// Holds a login under way.
const FLOW_COOKIE: Cookie = Cookie::new("__Host-leasehold-login", "leasehold-login");

/// Seconds after which to try again when the provider is away.
const RETRY_PROVIDER_S: u64 = 5;

/// The cookie of a login is forgotten.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SignedOut {
    signed_out: Fixed<true>,
}

/// A step of a login.
#[derive(Debug)]
pub(crate) struct Step {
    /// Our URL, as the browser sees it.
    base_url: String,
    is_encrypted: bool,
    /// A person looks at the answer, so an error is a page.
    is_for_a_person: bool,
    what: What,
}

#[derive(Debug)]
enum What {
    Begin { login: Arc<Login>, return_to: String },
    Finish { login: Arc<Login>, callback: Callback, flow: Option<String> },
    Forget { sign_on: Arc<SignOn>, session: Option<String> },
}

pub(super) fn begin(received: &Received<'_>, guard: &Guard) -> Result<Step, Problem> {
    let query = Query::parse(received.parts.uri.query())?;
    let return_to = query.get("return").unwrap_or("/").to_owned();
    Ok(step(received, What::Begin { login: login_of(guard)?, return_to }))
}

pub(super) fn finish(received: &Received<'_>, guard: &Guard) -> Result<Step, Problem> {
    let query = Query::parse(received.parts.uri.query())?;
    let text = |name: &str| query.get(name).map(str::to_owned);
    let callback = Callback { state: text("state"), code: text("code"), error: text("error") };
    let flow = FLOW_COOKIE.sent(&received.parts.headers, received.settings.is_encrypted()).map(str::to_owned);
    Ok(step(received, What::Finish { login: login_of(guard)?, callback, flow }))
}

pub(super) fn forget(received: &Received<'_>, guard: &Guard) -> Result<Step, Problem> {
    let session = SESSION_COOKIE.sent(&received.parts.headers, received.settings.is_encrypted()).map(str::to_owned);
    let sign_on = guard.current().filter(|sign_on| sign_on.login().is_some() || sign_on.has_token_login());
    let step = step(received, What::Forget { sign_on: sign_on.ok_or_else(no_login)?, session });
    if is_same_origin(&received.parts.headers, &step.base_url) { Ok(step) } else { Err(cross_site()) }
}

fn login_of(guard: &Guard) -> Result<Arc<Login>, Problem> {
    guard.current().and_then(|sign_on| sign_on.login().cloned()).ok_or_else(no_login)
}

fn no_login() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is no login here: auth.oidc.client_id is not configured")
        .coded(Code::NoLogin)
}

fn step(received: &Received<'_>, what: What) -> Step {
    Step {
        base_url: links::base_url(received.settings, received.parts),
        is_encrypted: received.settings.is_encrypted(),
        is_for_a_person: person::looks(received.parts),
        what,
    }
}

pub(super) async fn answer(step: Step, guard: &Guard, id: &RequestId, now: Now) -> Result<Response<Body>, Problem> {
    let is_for_a_person = step.is_for_a_person;
    match take(step, guard, id, now).await {
        Err(problem) if is_for_a_person => Ok(person::page(&problem, id)),
        answer => answer,
    }
}

async fn take(step: Step, guard: &Guard, id: &RequestId, now: Now) -> Result<Response<Body>, Problem> {
    let Step { base_url, is_encrypted, what, .. } = step;
    let jar = Jar { is_encrypted };
    match what {
        What::Begin { login, return_to } => {
            let begun =
                login.begin(format!("{base_url}/callback"), &return_to, now).await.map_err(|error| word(&error))?;
            Ok(redirect(id, &begun.location, &[jar.set(FLOW_COOKIE, &begun.flow, FLOW_S)]))
        }
        What::Finish { login, callback, flow } => {
            let name = callback.state.clone();
            let finished = login.finish(callback, flow.as_deref(), now).await.map_err(|error| word(&error))?;
            if !name.is_some_and(|name| guard.is_first_finish(&name, now)) {
                return Err(word(&LoginError::NoFlow));
            }
            audit::logged_in(&finished.principal.name, "oidc", id);
            let cookies = [jar.set(SESSION_COOKIE, &finished.session, finished.lasts_s), jar.set(FLOW_COOKIE, "", 0)];
            Ok(redirect(id, &finished.return_to, &cookies))
        }
        What::Forget { sign_on, session } => {
            if let Some(who) = session.and_then(|session| sign_on.end_session(&session, now)) {
                audit::logged_out(&who, id);
            }
            let mut response = response::json(StatusCode::OK, id, to_bytes(&SignedOut { signed_out: Fixed }));
            response.headers_mut().append(SET_COOKIE, jar.set(SESSION_COOKIE, "", 0));
            Ok(response)
        }
    }
}

fn word(error: &LoginError) -> Problem {
    let reason = error.to_string();
    match error {
        LoginError::Unavailable => Problem::unavailable(reason, RETRY_PROVIDER_S),
        LoginError::NoFlow | LoginError::WrongState => Problem::bad_request(reason),
        LoginError::Refused(_) | LoginError::Token(_) | LoginError::TooManyGroups => {
            Problem::new(StatusCode::FORBIDDEN, reason)
        }
    }
}

fn redirect(id: &RequestId, location: &str, cookies: &[HeaderValue]) -> Response<Body> {
    let mut response = response::empty(StatusCode::SEE_OTHER, id);
    let location = HeaderValue::try_from(location).expect("an address in visible ASCII");
    response.headers_mut().insert(LOCATION, location);
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, cookie.clone());
    }
    response
}
