//! `GET /v1/whoami`: the caller's name as the service knows it, and the rights of that name. For people who wonder why
//! they are refused, and for the dashboard, which shows only the buttons that work, and where to send calls to.

use http::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::Caller;
use crate::http::json::to_bytes;
use crate::http::json::value::May;
use crate::http::{Body, RequestId};
use crate::response;

/// A caller's name and its rights, where callers sign on.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Whoami<'a> {
    /// True if callers sign on at all. If not, every caller may do everything.
    sign_on: bool,
    #[serde(skip_serializing_if = "May::is_missing")]
    name: May<Option<&'a str>>,
    #[serde(skip_serializing_if = "May::is_missing")]
    source: May<Option<&'static str>>,
    #[serde(skip_serializing_if = "May::is_missing")]
    groups: May<Vec<&'a str>>,
    #[serde(skip_serializing_if = "May::is_missing")]
    actions: May<Vec<&'static str>>,
    /// True if the dashboard has a login of its own.
    #[serde(skip_serializing_if = "May::is_missing")]
    login: May<bool>,
    /// True if people can log in to it with an API token.
    #[serde(skip_serializing_if = "May::is_missing")]
    token_login: May<bool>,
    /// The beginning of the addresses of calls; not this address where operators have their own.
    api_url: &'a str,
}

pub(super) fn answer(who: Option<&Caller>, api_url: &str, id: &RequestId) -> Response<Body> {
    let principal = who.and_then(|who| who.identity.principal());
    let actions = who.map(|Caller { identity, sign_on }| sign_on.policy().actions_of(identity));
    let body = to_bytes(&Whoami {
        sign_on: who.is_some(),
        name: May(who.map(|_| principal.map(|principal| &*principal.name))),
        source: May(who.map(|_| principal.map(|principal| principal.source.as_str()))),
        groups: May(
            who.map(|_| principal.iter().flat_map(|principal| principal.groups.iter().map(|it| &**it)).collect())
        ),
        actions: May(actions.map(|actions| actions.iter().map(|action| action.as_str()).collect())),
        login: May(who.map(|who| who.sign_on.login().is_some())),
        token_login: May(who.map(|who| who.sign_on.has_token_login())),
        api_url,
    });
    response::json(StatusCode::OK, id, body)
}
