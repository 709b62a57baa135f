//! The endpoints of `FleetLock`, and its requests as calls. A request that makes no sense is answered in the protocol's
//! own words, so that it is a call, too.

use std::borrow::Cow;
use std::sync::Arc;

use http::Method;
use leasehold_engine::limits::DURATION_MAX_US;
use leasehold_engine::{Acquire, Command, IdempotencyKey, KeyReuse, Options, Patience, Quota, ResourceKey};

use crate::faces::{Received, Rows, fingerprint, fresh_claim_id};
use crate::http::json::{Object, to_bytes};
use crate::limits::{FLEETLOCK_GROUP_MAX, IDEMPOTENCY_KEY_MAX};

/// The header that every request has, with the value `true`.
pub(super) const HEADER: &str = "fleet-lock-protocol";

/// The beginning of the names of these resources.
const PREFIX: &str = "fleetlock/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    PreReboot,
    SteadyState,
    PreRebootBelow,
    SteadyStateBelow,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::POST, "/v1/pre-reboot", Endpoint::PreReboot),
        (Method::POST, "/v1/steady-state", Endpoint::SteadyState),
        (Method::POST, "/fleetlock/v1/pre-reboot", Endpoint::PreRebootBelow),
        (Method::POST, "/fleetlock/v1/steady-state", Endpoint::SteadyStateBelow),
    ]
}

#[derive(Debug)]
pub(crate) enum Call {
    /// Always a [`Command::Acquire`].
    PreReboot(Command),
    SteadyState(Machine),
    Wrong {
        kind: &'static str,
        value: Cow<'static, str>,
    },
}

/// A machine of a group.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(super) resource: ResourceKey,
    pub(super) key: Arc<str>,
}

/// The metadata of a machine's claim.
#[derive(serde::Serialize)]
struct Metadata<'a> {
    id: &'a str,
}

pub(super) fn resource_of(command: &Command) -> &ResourceKey {
    match command {
        Command::Acquire(acquire) => &acquire.resource,
        other => unreachable!("a machine asks for a slot, not {other:?}"),
    }
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Call {
    let mut headers = received.parts.headers.get_all(HEADER).iter();
    if !matches!((headers.next(), headers.next()), (Some(value), None) if value == "true") {
        let value = "the header fleet-lock-protocol must be given once, with the value true";
        return Call::Wrong { kind: "bad_header", value: value.into() };
    }
    let machine = match machine(received.body) {
        Ok(machine) => machine,
        Err(value) => return Call::Wrong { kind: "bad_body", value },
    };
    match endpoint {
        Endpoint::SteadyState | Endpoint::SteadyStateBelow => Call::SteadyState(machine),
        Endpoint::PreReboot | Endpoint::PreRebootBelow => Call::PreReboot(ask(machine, received)),
    }
}

fn ask(machine: Machine, received: &Received<'_>) -> Command {
    let Machine { resource, key: name } = machine;
    let metadata = String::from_utf8(to_bytes(&Metadata { id: &name })).expect("JSON is UTF-8");
    Command::Acquire(Box::new(Acquire {
        id: fresh_claim_id(&resource),
        resource,
        ttl_us: received.settings.fleetlock_ttl_us.unwrap_or(DURATION_MAX_US),
        patience: Patience::For { wait_us: 0 },
        client: None,
        principal: None,
        key: Some(IdempotencyKey { name, fingerprint: fingerprint(&[b"fleetlock"]) }),
        metadata: Some(metadata.into()),
        quota: Quota::NONE,
        // The key names a machine, which reboots again and again.
        options: Options { key_reuse: KeyReuse::Always, ..Options::default() },
    }))
}

fn machine(body: &[u8]) -> Result<Machine, Cow<'static, str>> {
    let body = Object::parse(body).map_err(said)?;
    let params = body.raw("client_params").ok_or("client_params is missing, it must be an object with id and group")?;
    let params = Object::parse(params.as_bytes())
        .map_err(|_| Cow::Borrowed("client_params must be an object with id and group"))?;
    let id = params.required_string("id", 1..=IDEMPOTENCY_KEY_MAX).map_err(said)?;
    if !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("id must have visible ASCII characters alone".into());
    }
    let group = params.required_string("group", 1..=FLEETLOCK_GROUP_MAX).map_err(said)?;
    if !group.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-')) {
        return Err("group must have letters, digits, dots and hyphens alone".into());
    }
    let resource = ResourceKey::Claim(Arc::from(format!("{PREFIX}{group}")));
    Ok(Machine { resource, key: Arc::from(&*id) })
}

fn said(problem: impl Into<crate::http::Problem>) -> Cow<'static, str> {
    problem.into().reason
}
