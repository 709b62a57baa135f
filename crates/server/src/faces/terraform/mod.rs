//! Terraform and `OpenTofu`, `/tf/{name}`: the lock of their HTTP backend over the claimed resource `tf/NAME`. The `ID`
//! of the caller's `LockInfo` is the key of its claim, and the `LockInfo` its metadata. State is kept elsewhere.

mod openapi;
mod routes;
mod wire;

use std::sync::Arc;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};
use leasehold_engine::{ClaimStatus, ClaimView, Command, Ending, Kind, Refusal, Reply, ResourceKey, Revocable, Wish};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::{ask, ended, fittings, front, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need, On};
use crate::code::Code;
use crate::driver::Handle;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::response;
use crate::settings::Settings;
use routes::{Call, Endpoint, HINT};

pub(crate) struct Terraform;

impl Face for Terraform {
    type Endpoint = Endpoint;
    type Call = Call;

    const LABELS: FaceLabels = FaceLabels::lending("terraform", Kind::Claim);

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn hint(_endpoint: Endpoint) -> Option<&'static str> {
        Some(HINT)
    }

    fn class(_endpoint: Endpoint) -> Class {
        Class::Api
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        routes::parse(endpoint, received)
    }

    fn need(call: &Call) -> Need<'_> {
        let action = match call {
            Call::Lock(_) => Action::Acquire,
            // A key is its caller's own, so that a claim found by it is, too.
            Call::Unlock { key: Some(_), .. } => Action::UpdateOwn,
            Call::Unlock { key: None, .. } => Action::RevokeAny,
        };
        let name = call.resource().name().expect("a claimed resource has a name");
        Need::One(action, Target::Named(Kind::Claim, name))
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        let action = match call {
            Call::Lock(_) => "acquire",
            Call::Unlock { key: Some(_), .. } => "unlock",
            Call::Unlock { key: None, .. } => "revoke",
        };
        Some(AskedChange::new(action, On::Resource(call.resource())))
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        match call {
            Call::Lock(command) => auth::sign_command(command, &caller),
            Call::Unlock { key: Some(key), .. } => {
                auth::sign_key(key, &caller);
                Ok(())
            }
            Call::Unlock { key: None, .. } => Ok(()),
        }
    }

    fn answer<'a>(
        service: &'a Service,
        call: Call,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        answer(&service.driver, call, id)
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }

    fn schemas(_settings: &Settings) -> Vec<NamedSchema> {
        openapi::schemas()
    }
}

async fn answer(driver: &Handle, call: Call, id: &RequestId) -> Result<Response<Body>, Problem> {
    match call {
        Call::Lock(command) => lock(driver, command, id).await,
        // On the heap: they never wait, and every parked caller would have room for them.
        Call::Unlock { resource, key: Some(key) } => Box::pin(unlock(driver, resource, key, id)).await,
        Call::Unlock { resource, key: None } => Box::pin(force(driver, resource, id)).await,
    }
}

async fn lock(driver: &Handle, command: Command, id: &RequestId) -> Result<Response<Body>, Problem> {
    let Command::Acquire(acquire) = &command else { unreachable!("a lock is asked for") };
    let resource = acquire.resource.clone();
    let (envelope, taken) = front::acquire(driver, command, id).await?;
    let refusal = match taken {
        Ok(view) => {
            return envelope.word(|envelope| {
                let body = wire::taken(&view);
                Ok(envelope.positioned(response::json(StatusCode::OK, envelope.id, body)))
            });
        }
        Err(refusal) => refusal,
    };
    match refusal {
        Refusal::NoneFree { .. } => {
            let (envelope, view) = Box::pin(front::holding(driver, resource.clone(), None, id)).await?;
            let error = match &view.pause {
                Some(pause) => format!("{} is {}", resource.name().map_or("", |name| name), fittings::sentence(pause)),
                None => "another ID holds the lock".to_owned(),
            };
            Ok(wire::held(StatusCode::LOCKED, &error, &resource, &view, &envelope))
        }
        Refusal::KeySpent { how } => {
            let error = "the lock of this ID has ended, an ID locks once";
            Ok(ended::answer(StatusCode::CONFLICT, Code::KeySpent, error, Some(how), &envelope))
        }
        Refusal::KeyReused => {
            let reason = "this ID was sent with another LockInfo";
            let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, reason).coded(Code::KeyReused);
            Ok(envelope.positioned(problem.to_response(envelope.id)))
        }
        other => unreachable!("not said of a lock of Terraform: {other:?}"),
    }
}

async fn unlock(
    driver: &Handle,
    resource: ResourceKey,
    key: Arc<str>,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let (envelope, view) = front::holding(driver, resource.clone(), Some(Arc::clone(&key)), id).await?;
    let status = match &view.keyed {
        Some(ClaimView { status: ClaimStatus::Active, .. }) => Wish::Released,
        Some(ClaimView { status: ClaimStatus::Waiting, .. }) => Wish::Withdrawn,
        _ => return Ok(wire::not_held(&resource, &view, &envelope)),
    };
    let claim = view.keyed.as_ref().expect("it was just matched").id;
    let (envelope, ended) = front::end(driver, claim, status, id).await?;
    match ended {
        Ok(()) => Ok(wire::released(true, &envelope)),
        Err(Refusal::Ended(Ending::Released)) => Ok(wire::released(false, &envelope)),
        // It ended, or was granted, since it was looked at. The present state decides.
        Err(_) => {
            let (envelope, view) = front::holding(driver, resource.clone(), Some(key), id).await?;
            Ok(wire::not_held(&resource, &view, &envelope))
        }
    }
}

/// `terraform force-unlock` sends no ID: the present holder loses the lock.
async fn force(driver: &Handle, resource: ResourceKey, id: &RequestId) -> Result<Response<Body>, Problem> {
    let (envelope, view) = front::holding(driver, resource.clone(), None, id).await?;
    let Some(token) = view.holder.as_ref().and_then(|holder| holder.token) else {
        return Ok(wire::released(false, &envelope));
    };
    let (envelope, answer) = ask(driver, Command::Revoke { resource, which: Revocable::Grant(token) }.into(), id).await;
    match answer {
        Ok(Reply::Revoked(was_held)) => Ok(wire::released(was_held, &envelope)),
        Ok(other) => unreachable!("no revocation is answered with {other:?}"),
        Err(denial) => {
            let refusal = unserved(denial)?;
            unreachable!("a revocation is not refused: {refusal:?}")
        }
    }
}
