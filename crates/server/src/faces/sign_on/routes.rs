//! The endpoints of sign-on itself: `whoami`, and the dashboard's login.

use http::{Method, Response};
use leasehold_auth::Now;

use super::{login, whoami};
use crate::auth::{Caller, Guard};
use crate::faces::Call;
use crate::http::router::Endpoint;
use crate::http::{Body, Problem, RequestId};
use crate::links::api_url;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Whoami,
    Login,
    Callback,
    Logout,
}

pub(crate) fn endpoints<T>(wrap: impl Fn(Action) -> T) -> Vec<Endpoint<T>> {
    vec![
        Endpoint::new(Method::GET, "/v1/whoami", wrap(Action::Whoami)),
        Endpoint::new(Method::GET, "/login", wrap(Action::Login)),
        Endpoint::new(Method::GET, "/callback", wrap(Action::Callback)),
        Endpoint::new(Method::POST, "/logout", wrap(Action::Logout)),
    ]
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Without sign-on there is no identity.
    Whoami {
        who: Option<Caller>,
        api_url: String,
    },
    Login(Box<login::Step>),
}

impl Asked {
    pub(crate) fn said_by(&mut self, caller: Caller) {
        match self {
            Asked::Whoami { who, .. } => *who = Some(caller),
            Asked::Login(_) => {}
        }
    }
}

pub(crate) fn parse(action: Action, call: &Call<'_>, guard: &Guard) -> Result<Asked, Problem> {
    let step = match action {
        Action::Whoami => return Ok(Asked::Whoami { who: None, api_url: api_url(call.settings, call.parts) }),
        Action::Login => login::begin(call, guard)?,
        Action::Callback => login::finish(call, guard)?,
        Action::Logout => login::forget(call, guard)?,
    };
    Ok(Asked::Login(Box::new(step)))
}

pub(crate) async fn answer(asked: Asked, guard: &Guard, id: &RequestId, now: Now) -> Result<Response<Body>, Problem> {
    match asked {
        Asked::Whoami { who, api_url } => Ok(whoami::answer(who.as_ref(), &api_url, id)),
        // On the heap: it talks to the provider, and every parked caller would have room for that.
        Asked::Login(step) => Box::pin(login::answer(*step, guard, id, now)).await,
    }
}
