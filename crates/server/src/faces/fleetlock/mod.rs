//! `FleetLock`, `/v1/pre-reboot` and `/v1/steady-state`: machines of a group (Zincati, Flatcar) ask for leave to
//! reboot, over the claimed resource `fleetlock/GROUP`. The machine's `id` is the key of its claim.

mod openapi;
mod routes;
mod wire;

use http::{Response, StatusCode};
use leasehold_auth::{Action, Target};
use leasehold_engine::{ClaimStatus, Command, Kind, Refusal, Wish};

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::front;
use crate::auth::{self, Admission, AskedChange, Caller, Need, On};
use crate::driver::Handle;
use crate::http::{Body, Problem, RequestId};
use crate::metrics::FaceLabels;
use crate::openapi::{NamedSchema, Operation};
use crate::settings::Settings;
use routes::{Call, Endpoint, Machine};

pub(crate) struct FleetLock;

impl Face for FleetLock {
    type Endpoint = Endpoint;
    type Call = Call;

    const LABELS: FaceLabels = FaceLabels::lending("fleetlock", Kind::Claim);

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
    let (envelope, taken) = front::acquire(driver, command, id).await?;
    match taken {
        Ok(view) => envelope.word(|envelope| Ok(wire::holds(&view, envelope))),
        Err(Refusal::NoneFree { .. }) => {
            let (envelope, view) = front::holding(driver, resource, None, id).await?;
            let value = wire::full(&view);
            Ok(envelope.positioned(wire::failed(StatusCode::LOCKED, wire::FULL, &value, id)))
        }
        Err(Refusal::KeyReused) => {
            let value = "a claim that no machine made has this id as its Idempotency-Key";
            Ok(envelope.positioned(wire::failed(StatusCode::CONFLICT, "failed_lock_id_in_use", value, id)))
        }
        Err(other) => unreachable!("not said of a machine: {other:?}"),
    }
}

/// A machine that is back gives its slot back, and one that had none is told the same.
async fn steady_state(driver: &Handle, machine: Machine, id: &RequestId) -> Result<Response<Body>, Problem> {
    let Machine { resource, key } = machine;
    let (envelope, view) = front::holding(driver, resource, Some(key), id).await?;
    let Some(held) = view.keyed.filter(|claim| claim.status == ClaimStatus::Active) else {
        return Ok(wire::steady(&envelope));
    };
    // Also if it ended since it was looked at.
    let (envelope, _) = front::end(driver, held.id, Wish::Released, id).await?;
    Ok(wire::steady(&envelope))
}
