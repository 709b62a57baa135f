//! The face of sign-on itself: `whoami`, and the dashboard's login. `auth` identifies callers and decides on their
//! rights.

mod by_token;
mod jar;
mod login;
mod openapi;
pub(crate) mod person;
mod routes;
mod whoami;

use http::Response;

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use crate::auth::{Admission, Caller, From, Need};
use crate::http::{Body, Problem, RequestId};
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
use routes::{Call, Endpoint};

pub(crate) struct SignOnFace;

impl Face for SignOnFace {
    type Endpoint = Endpoint;
    type Call = Call;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(_endpoint: Endpoint) -> Class {
        Class::SignOn
    }

    fn admission(endpoint: Endpoint) -> Admission {
        match endpoint {
            Endpoint::Whoami => Admission::Named,
            Endpoint::Login | Endpoint::TokenLogin | Endpoint::Asset | Endpoint::Callback | Endpoint::Logout => {
                Admission::Open
            }
        }
    }

    fn approach(endpoint: Endpoint, from: From<'_>, service: &Service) -> Result<(), Problem> {
        match endpoint {
            Endpoint::Login | Endpoint::TokenLogin | Endpoint::Callback => {
                service.guard.count_step(from.client, service.driver.now())
            }
            Endpoint::Whoami | Endpoint::Asset | Endpoint::Logout => Ok(()),
        }
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received, service)
    }

    fn need(_call: &Call) -> Need<'_> {
        Need::Nothing
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        call.said_by(caller);
        Ok(())
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        routes::answer(call, &service.guard, id, service.driver.now())
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}
