//! The endpoints of Terraform's lock, and its requests as calls.

use std::sync::Arc;

use http::Method;
use leasehold_engine::limits::DURATION_MAX_US;
use leasehold_engine::{Acquire, Command, IdempotencyKey, KeyReuse, Options, Patience, Quota, ResourceKey};

use crate::duration::{Cut, parse_go};
use crate::faces::{Received, Rows, fingerprint, fresh_claim_id};
use crate::http::Problem;
use crate::http::json::{Object, canonical, shown};
use crate::http::query::Query;
use crate::limits::{IDEMPOTENCY_KEY_MAX, TERRAFORM_NAME_MAX};

/// Told to a caller that takes this for the address of its state.
pub(super) const HINT: &str = "Leasehold keeps locks, not state: set lock_address and unlock_address to this address, \
                               and address to the one of the state";

/// The beginning of the names of these resources.
pub(super) const PREFIX: &str = "tf/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Lock,
    Unlock,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    let method = |name: &str| Method::from_bytes(name.as_bytes()).expect("letters make a method");
    vec![(method("LOCK"), "/tf/{*name}", Endpoint::Lock), (method("UNLOCK"), "/tf/{*name}", Endpoint::Unlock)]
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) enum Call {
    /// Always a [`Command::Acquire`].
    Lock(Command),
    Unlock {
        resource: ResourceKey,
        /// The ID; none to end the present holder's lock.
        key: Option<Arc<str>>,
    },
}

impl Call {
    pub(super) fn resource(&self) -> &ResourceKey {
        match self {
            Call::Lock(Command::Acquire(acquire)) => &acquire.resource,
            Call::Lock(other) => unreachable!("a lock is asked for, not {other:?}"),
            Call::Unlock { resource, .. } => resource,
        }
    }
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Result<Call, Problem> {
    let query = Query::parse(received.parts.uri.query())?;
    query.refuse_unknown(&["ttl", "wait"])?;
    // Both addresses of a backend may be one, with its query: they are checked for both methods alike.
    let (ttl_us, wait) = (ttl_us(&query, received)?, wait(&query, received)?);
    let resource = resource(received)?;
    if endpoint == Endpoint::Unlock && received.body.is_empty() {
        return Ok(Call::Unlock { resource, key: None });
    }
    let body = Object::parse(received.body)?;
    let name = lock_id(&body)?;
    if endpoint == Endpoint::Unlock {
        return Ok(Call::Unlock { resource, key: Some(name) });
    }
    let info = std::str::from_utf8(received.body).expect("JSON that was read is UTF-8");
    let most = received.settings.metadata_max;
    if info.len() > most {
        return Err(Problem::bad_request(format!("the LockInfo must have at most {most} bytes, got {}", info.len())));
    }
    let fingerprint = fingerprint(&[b"terraform", &canonical(&without_created(&body))]);
    Ok(Call::Lock(Command::Acquire(Box::new(Acquire {
        id: fresh_claim_id(&resource),
        resource,
        ttl_us,
        patience: Patience::For { wait_us: wait.us },
        client: None,
        principal: None,
        key: Some(IdempotencyKey { name, fingerprint }),
        metadata: Some(Arc::from(info)),
        quota: Quota::NONE,
        // Terraform asks again under the same ID until `-lock-timeout` is over.
        options: Options { key_reuse: KeyReuse::AfterWait, ..Options::default() },
    }))))
}

fn resource(received: &Received<'_>) -> Result<ResourceKey, Problem> {
    let name = received.params.decoded("name")?;
    if !(1..=TERRAFORM_NAME_MAX).contains(&name.len()) {
        let reason = format!("the name in the path must have 1 to {TERRAFORM_NAME_MAX} bytes, got {}", name.len());
        return Err(Problem::bad_request(reason));
    }
    Ok(ResourceKey::Claim(Arc::from(format!("{PREFIX}{name}"))))
}

/// The `ID`. It is a key, and a key has no line break: one stands between the caller's name and its key.
fn lock_id(body: &Object<'_>) -> Result<Arc<str>, Problem> {
    let id = body.required_string("ID", 1..=IDEMPOTENCY_KEY_MAX)?;
    if !id.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::about("ID", "ID must have visible ASCII characters alone"));
    }
    Ok(Arc::from(&*id))
}

/// The `LockInfo` without the time at which it was made, which a retry may set anew.
fn without_created(body: &Object<'_>) -> String {
    let members = body.members().filter(|(name, _)| *name != "Created");
    let members = members.map(|(name, raw)| format!("{}:{raw}", serde_json::Value::from(name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

/// No ttl means that the lock does not expire.
fn ttl_us(query: &Query<'_>, received: &Received<'_>) -> Result<u64, Problem> {
    let Some(text) = query.get("ttl") else { return Ok(DURATION_MAX_US) };
    match parse_go(text).ok().and_then(|ttl_us| u64::try_from(ttl_us).ok()) {
        Some(ttl_us) if ttl_us > 0 => Ok(Cut::to(received.settings.timeout_max_us, ttl_us).us),
        _ => Err(Problem::about("ttl", format!("ttl must be a duration above 0s such as 2h, got {}", shown(text)))),
    }
}

fn wait(query: &Query<'_>, received: &Received<'_>) -> Result<Cut, Problem> {
    let Some(text) = query.get("wait") else { return Ok(Cut::default()) };
    match parse_go(text).ok().and_then(|wait_us| u64::try_from(wait_us).ok()) {
        Some(wait_us) => Ok(Cut::to(received.settings.wait_max_us, wait_us)),
        None => Err(Problem::about("wait", format!("wait must be a duration such as 5m, got {}", shown(text)))),
    }
}
