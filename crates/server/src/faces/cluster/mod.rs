//! The cluster as one of its nodes sees it: nodes, partitions and their owners, and the shared store.

mod openapi;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use crate::auth::{Admission, Need};
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::openapi::{NamedSchema, Operation};
use crate::response;
use crate::settings::Settings;
use routes::{Call, Endpoint};
use wire::ClusterBody;

pub(crate) struct Cluster;

impl Face for Cluster {
    type Endpoint = Endpoint;
    type Call = Call;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::Show => Class::Observe,
        }
    }

    fn admission(endpoint: Endpoint) -> Admission {
        match endpoint {
            Endpoint::Show => Admission::Named,
        }
    }

    fn parse(endpoint: Endpoint, _received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        match endpoint {
            Endpoint::Show => Ok(Call::Show),
        }
    }

    fn need(call: &Call) -> Need<'_> {
        match call {
            Call::Show => Need::One(Action::Observe, Target::Service),
        }
    }

    async fn answer<'a>(service: &'a Service, call: Call, id: &'a RequestId) -> Result<Response<Body>, Problem> {
        match call {
            Call::Show => {
                let Some(status) = service.driver.cluster() else {
                    let reason = "this service is no cluster: it runs in one process";
                    return Err(Problem::new(StatusCode::NOT_FOUND, reason).hinting("serve --store makes a cluster"));
                };
                let body = ClusterBody::of(&status, service.settings.store);
                Ok(response::json(StatusCode::OK, id, to_bytes(&body)))
            }
        }
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}
