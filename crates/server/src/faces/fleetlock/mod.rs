//! `FleetLock`, `/v1/pre-reboot` and `/v1/steady-state`: machines of a group (Zincati, Flatcar) ask for leave to reboot,
//! over the claimed resource `fleetlock/GROUP`. The machine's `id` is the key of its claim.

mod openapi;
mod routes;
mod wire;

use std::sync::Arc;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};
use leasehold_engine::{ClaimStatus, Command, HoldingView, Kind, Refusal, Reply, ResourceKey, Update, Wish};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::{Envelope, ask, denial, unserved};
use crate::auth::{self, Admission, AskedChange, Caller, Need, On};
use crate::driver::Handle;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::Dialect;
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
use routes::{Call, Endpoint, Machine};

pub(crate) struct FleetLock;

impl Face for FleetLock {
    type Endpoint = Endpoint;
    type Call = Call;

    const DIALECT: Dialect = Dialect::FleetLock;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(_endpoint: Endpoint) -> Class {
        Class::Api
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<Call, Problem> {
        Ok(routes::parse(endpoint, received))
    }

    fn need(call: &Call) -> Need<'_> {
        let (action, resource) = match call {
            // It learns nothing but what is wrong with its own request.
            Call::Wrong { .. } => return Need::Nothing,
            Call::PreReboot(command) => (Action::Acquire, routes::resource_of(command)),
            Call::SteadyState(machine) => (Action::UpdateOwn, &machine.resource),
        };
        let name = resource.name().expect("a claimed resource has a name");
        Need::One(action, Target::Named(Kind::Claim, name))
    }

    fn change(call: &Call) -> Option<AskedChange<'_>> {
        match call {
            Call::Wrong { .. } => None,
            Call::PreReboot(command) => auth::change_by(command),
            Call::SteadyState(machine) => Some(AskedChange::new("unlock", On::Resource(&machine.resource))),
        }
    }

    fn sign(call: &mut Call, caller: Caller) -> Result<(), Problem> {
        match call {
            Call::Wrong { .. } => Ok(()),
            Call::PreReboot(command) => auth::sign_command(command, &caller),
            Call::SteadyState(machine) => {
                auth::sign_key(&mut machine.key, &caller);
                Ok(())
            }
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
        Call::Wrong { kind, value } => Ok(wire::failed(StatusCode::BAD_REQUEST, kind, &value, id)),
        Call::PreReboot(command) => pre_reboot(driver, command, id).await,
        Call::SteadyState(machine) => steady_state(driver, machine, id).await,
    }
}

async fn pre_reboot(driver: &Handle, command: Command, id: &RequestId) -> Result<Response<Body>, Problem> {
    let resource = routes::resource_of(&command).clone();
    let (envelope, answer) = ask(driver, command.into(), id).await;
    let refusal = match answer {
        Ok(Reply::Claim(view)) => return envelope.word(|envelope| Ok(wire::holds(&view, envelope))),
        Ok(other) => unreachable!("no machine is answered with {other:?}"),
        Err(denial) => unserved(denial)?,
    };
    if let Some(problem) = denial::past_a_limit(&refusal) {
        return Err(problem);
    }
    match refusal {
        Refusal::NoneFree { .. } => {
            let (envelope, view) = holding(driver, resource, None, id).await?;
            let value = wire::full(&view);
            Ok(envelope.positioned(wire::failed(StatusCode::LOCKED, wire::FULL, &value, id)))
        }
        Refusal::KeyReused => {
            let value = "a claim that no machine made has this id as its Idempotency-Key";
            Ok(envelope.positioned(wire::failed(StatusCode::CONFLICT, "failed_lock_id_in_use", value, id)))
        }
        other => unreachable!("not said of a machine: {other:?}"),
    }
}

/// A machine that is back gives its slot back, and one that had none is told the same.
async fn steady_state(driver: &Handle, machine: Machine, id: &RequestId) -> Result<Response<Body>, Problem> {
    let Machine { resource, key } = machine;
    let (envelope, view) = holding(driver, resource, Some(key), id).await?;
    let Some(held) = view.keyed.filter(|claim| claim.status == ClaimStatus::Active) else {
        return Ok(wire::steady(&envelope));
    };
    let update = Update { status: Some(Wish::Released), ..Update::default() };
    let (envelope, answer) = ask(driver, Command::Update { claim: held.id, update }.into(), id).await;
    match answer {
        Ok(Reply::ClaimEnded(_)) => Ok(wire::steady(&envelope)),
        Ok(other) => unreachable!("no end of a claim is answered with {other:?}"),
        Err(denial) => match unserved(denial)? {
            // It ended since it was looked at.
            Refusal::Ended(_) | Refusal::NoSuchClaim => Ok(wire::steady(&envelope)),
            other => unreachable!("the end of a claim is not refused with {other:?}"),
        },
    }
}

async fn holding<'a>(
    driver: &Handle,
    resource: ResourceKey,
    key: Option<Arc<str>>,
    id: &'a RequestId,
) -> Result<(Envelope<'a>, Box<HoldingView>), Problem> {
    let (envelope, answer) = ask(driver, Command::ViewHolding { resource, key }.into(), id).await;
    match answer {
        Ok(Reply::Holding(view)) => Ok((envelope, view)),
        Ok(other) => unreachable!("no look at a group is answered with {other:?}"),
        Err(denial) => {
            let refusal = unserved(denial)?;
            unreachable!("a look at a group is not refused: {refusal:?}")
        }
    }
}
