//! The keys of proofs: the public ones for guards, and the operator's word that another is to sign from now on. The
//! dialects give the proofs themselves (`faces/proving.rs`).

mod openapi;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::proving;
use crate::auth::{Admission, AskedChange, Need, On};
use crate::http::json::to_bytes;
use crate::http::{Body, Problem, RequestId};
use crate::openapi::{NamedSchema, Operation};
use crate::proofs::NotRotated;
use crate::response;
use crate::settings::Settings;
use routes::{Call, Endpoint};
use wire::Rotated;

pub(crate) struct Proofs;

impl Face for Proofs {
    type Endpoint = Endpoint;
    type Call = Call;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(endpoint: Endpoint) -> Class {
        match endpoint {
            Endpoint::Keys => Class::Docs,
            Endpoint::Rotate => Class::Admin,
        }
    }

    fn admission(endpoint: Endpoint) -> Admission {
        match endpoint {
            Endpoint::Keys => Admission::Open,
            Endpoint::Rotate => Admission::Named,
        }
    }

    fn parse(endpoint: Endpoint, _received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        Ok(match endpoint {
            Endpoint::Keys => Call::Keys,
            Endpoint::Rotate => Call::Rotate,
        })
    }

    fn need(call: &Call) -> Need<'_> {
        match call {
            Call::Keys => Need::Nothing,
            Call::Rotate => Need::One(Action::Admin, Target::Service),
        }
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        match call {
            Call::Keys => None,
            Call::Rotate => Some(AskedChange::new("rotate-proof-key", On::Service)),
        }
    }

    async fn answer<'a>(service: &'a Service, call: Call, id: &'a RequestId) -> Result<Response<Body>, Problem> {
        let now_s = service.driver.wall().0 / 1_000_000;
        let body = match call {
            Call::Keys => to_bytes(&proving::keys(service).await?.public(now_s)),
            Call::Rotate => {
                let ring = service.proof_keys.rotate(now_s).await.map_err(refused)?;
                tracing::info!(kid = ring.kid(), "another key signs proofs from now on");
                to_bytes(&Rotated { kid: ring.kid() })
            }
        };
        Ok(response::json(StatusCode::OK, id, body))
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}

fn refused(refused: NotRotated) -> Problem {
    match refused {
        NotRotated::TooOften { retry_after_s } => {
            let reason = "as many keys as there may be were made within a day; old ones stay for a day, so that proofs \
                          can be checked";
            Problem::too_many(reason, retry_after_s)
        }
        NotRotated::Failed(error) => proving::away(&error),
    }
}
