//! The endpoints of sign-on itself: `whoami`, and the dashboard's login.

use http::{Method, Response};
use leasehold_auth::Now;

use super::{login, whoami};
use crate::auth::{Caller, Guard};
use crate::faces::{Received, Rows};
use crate::http::{Body, Problem, RequestId};
use crate::links::api_url;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Whoami,
    Login,
    Callback,
    Logout,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::GET, "/v1/whoami", Endpoint::Whoami),
        (Method::GET, "/login", Endpoint::Login),
        (Method::GET, "/callback", Endpoint::Callback),
        (Method::POST, "/logout", Endpoint::Logout),
    ]
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) enum Call {
    /// Without sign-on there is no identity.
    Whoami {
        who: Option<Caller>,
        api_url: String,
    },
    Login(Box<login::Step>),
}

impl Call {
    pub(crate) fn said_by(&mut self, caller: Caller) {
        match self {
            Call::Whoami { who, .. } => *who = Some(caller),
            Call::Login(_) => {}
        }
    }
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>, guard: &Guard) -> Result<Call, Problem> {
    let step = match endpoint {
        Endpoint::Whoami => return Ok(Call::Whoami { who: None, api_url: api_url(received.settings, received.parts) }),
        Endpoint::Login => login::begin(received, guard)?,
        Endpoint::Callback => login::finish(received, guard)?,
        Endpoint::Logout => login::forget(received, guard)?,
    };
    Ok(Call::Login(Box::new(step)))
}

pub(crate) async fn answer(call: Call, guard: &Guard, id: &RequestId, now: Now) -> Result<Response<Body>, Problem> {
    match call {
        Call::Whoami { who, api_url } => Ok(whoami::answer(who.as_ref(), &api_url, id)),
        // On the heap: it talks to the provider, and every parked caller would have room for that.
        Call::Login(step) => Box::pin(login::answer(*step, guard, id, now)).await,
    }
}
