//! The endpoints of sign-on itself: `whoami`, the dashboard's login, and the files of the page for people who are not
//! let in.

use http::{Method, Response};
use leasehold_auth::Now;

use super::{by_token, login, person, whoami};
use crate::auth::{Caller, Guard};
use crate::faces::page::{File, PageFile};
use crate::faces::{Received, Rows, Service};
use crate::http::{Body, Problem, RequestId};
use crate::links::api_url;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Whoami,
    Login,
    TokenLogin,
    Asset,
    Callback,
    Logout,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::GET, "/v1/whoami", Endpoint::Whoami),
        (Method::GET, "/login", Endpoint::Login),
        (Method::POST, "/login", Endpoint::TokenLogin),
        (Method::GET, "/login/{file}", Endpoint::Asset),
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
    /// A session that a token has begun.
    Begun(Box<by_token::SessionCookie>),
    /// A file of the page for people who are not let in.
    Asset(PageFile),
}

impl Call {
    pub(crate) fn said_by(&mut self, caller: Caller) {
        match self {
            Call::Whoami { who, .. } => *who = Some(caller),
            Call::Login(_) | Call::Begun(_) | Call::Asset(_) => {}
        }
    }
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>, service: &Service) -> Result<Call, Problem> {
    let guard = &service.guard;
    let step = match endpoint {
        Endpoint::TokenLogin => return by_token::begin(received, service).map(|begun| Call::Begun(Box::new(begun))),
        Endpoint::Asset => {
            let file = File::find(person::FILES, received.params.raw("file"))?;
            return Ok(Call::Asset(PageFile::file(file, &received.parts.headers)));
        }
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
        Call::Begun(begun) => Ok(by_token::answer(&begun, id)),
        Call::Asset(wanted) => Ok(wanted.answer(id)),
        // On the heap: it talks to the provider, and every parked caller would have room for that.
        Call::Login(step) => Box::pin(login::answer(*step, guard, id, now)).await,
    }
}
