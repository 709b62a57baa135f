//! The face of observers, `/v1/observe/…` and `/v1/events`, and of the operator who revokes. `watch` keeps the data, or
//! the engine gives it slice by slice.

mod detail;
mod list;
mod lookup;
mod openapi;
mod reader;
mod routes;
mod series;
mod service;
mod subscription;
mod wire;

use http::Response;
use leasehold_auth::{Action, Target};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use crate::auth::{Admission, AskedChange, Caller, Need, On, public_target};
use crate::http::{Body, Problem, RequestId};
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
pub(crate) use list::survey;
use routes::{Call, Endpoint};

pub(crate) struct Watch;

impl Face for Watch {
    type Endpoint = Endpoint;
    type Call = Call;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::Fence => Class::Api,
            Endpoint::Revoke => Class::Admin,
            Endpoint::ListResources
            | Endpoint::ShowResource
            | Endpoint::History
            | Endpoint::Series
            | Endpoint::Service
            | Endpoint::FindPool
            | Endpoint::Events => Class::Observe,
        }
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received, service)
    }

    fn need(call: &Call) -> Need<'_> {
        match call {
            Call::Revoke(key, _) => Need::One(Action::RevokeAny, public_target(key)),
            Call::Fence(key, _) => Need::One(Action::Inspect, public_target(key)),
            Call::Show(key) | Call::History(key, _) => Need::One(Action::Observe, public_target(key)),
            Call::FindPool(_) => Need::One(Action::Observe, Target::Pool),
            // Its curves are of all resources together.
            Call::Series => Need::One(Action::Observe, Target::Service),
            Call::List(_) | Call::Service { .. } | Call::Events(_) => Need::Sight,
        }
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        match call {
            Call::Revoke(key, _) => Some(AskedChange::new("revoke", On::Key(key))),
            Call::Fence(..)
            | Call::List(_)
            | Call::Show(_)
            | Call::History(..)
            | Call::Series
            | Call::Service { .. }
            | Call::FindPool(_)
            | Call::Events(_) => None,
        }
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        match call {
            Call::List(list) => list.wanted.sight = caller.sight(),
            Call::Events(subscription) => subscription.filter.sight = caller.sight(),
            Call::Show(_)
            | Call::History(..)
            | Call::Series
            | Call::Service { .. }
            | Call::FindPool(_)
            | Call::Revoke(..)
            | Call::Fence(..) => {}
        }
        Ok(())
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        routes::answer(&service.observer, &service.driver, call, id)
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}

#[cfg(test)]
mod tests;
