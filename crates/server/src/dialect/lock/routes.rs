//! The endpoint of locks, and its requests as commands.

use std::sync::Arc;

use http::Method;
use leasehold_engine::{Acquire, Command, Patience, Quota, ResourceKey};
use leasehold_journal::Request;

use crate::dialect::{Call, NAME_MAX, fresh_claim_id};
use crate::duration::parse_go;
use crate::http::Problem;
use crate::http::query::Query;
use crate::http::router::Endpoint;

/// The lock that is meant when no job is named.
pub(super) const DEFAULT_JOB: &str = "default";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire,
    Release,
    Show,
}

pub(crate) fn endpoints<T>(wrap: impl Fn(Action) -> T) -> Vec<Endpoint<T>> {
    [(Method::POST, Action::Acquire), (Method::DELETE, Action::Release), (Method::GET, Action::Show)]
        .map(|(method, action)| Endpoint::new(method, "/lock", wrap(action)))
        .into()
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(super) subject: Subject,
    pub(crate) request: Request,
}

/// What the answer needs to know of the call.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) job: Arc<str>,
}

pub(crate) fn parse(action: Action, call: &Call<'_>) -> Result<Asked, Problem> {
    let query = Query::parse(call.parts.uri.query())?;
    let job: Arc<str> = Arc::from(query.get("job").unwrap_or(DEFAULT_JOB));
    if !(1..=NAME_MAX).contains(&job.len()) {
        return Err(Problem::bad_request(format!("job must have 1 to {NAME_MAX} bytes, got {}", job.len())));
    }
    let resource = ResourceKey::Lock(Arc::clone(&job));
    let command = match action {
        Action::Show => Command::ViewResource { resource },
        Action::Release => Command::Unlock { resource, client: client(&query)? },
        Action::Acquire => Command::Acquire(Box::new(Acquire {
            resource,
            id: fresh_claim_id(),
            client: Some(client(&query)?),
            ttl_us: ttl_us(&query, call)?,
            patience: Patience::For { wait_us: wait_us(&query, call)? },
            key: None,
            metadata: None,
            quota: Quota::NONE,
        })),
    };
    Ok(Asked { subject: Subject { job }, request: command.into() })
}

fn client(query: &Query<'_>) -> Result<Arc<str>, Problem> {
    match query.get("client") {
        None | Some("") => Err(Problem::bad_request("client parameter required")),
        Some(client) if client.len() > NAME_MAX => {
            Err(Problem::bad_request(format!("client must have 1 to {NAME_MAX} bytes, got {}", client.len())))
        }
        Some(client) => Ok(Arc::from(client)),
    }
}

fn ttl_us(query: &Query<'_>, call: &Call<'_>) -> Result<u64, Problem> {
    let Some(text) = query.get("ttl") else { return Ok(call.settings.default_ttl_us) };
    match parse_go(text).ok().and_then(|ttl_us| u64::try_from(ttl_us).ok()) {
        Some(ttl_us) if ttl_us > 0 => Ok(ttl_us.min(call.settings.max_ttl_us)),
        _ => Err(Problem::bad_request("invalid ttl format")),
    }
}

fn wait_us(query: &Query<'_>, call: &Call<'_>) -> Result<u64, Problem> {
    let Some(text) = query.get("wait") else { return Ok(0) };
    match parse_go(text).ok().and_then(|wait_us| u64::try_from(wait_us).ok()) {
        Some(wait_us) => Ok(wait_us.min(call.settings.max_wait_us)),
        None => Err(Problem::bad_request("invalid wait format")),
    }
}
