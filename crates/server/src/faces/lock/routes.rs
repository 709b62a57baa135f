//! The endpoint of locks, and its requests as commands.

use std::sync::Arc;

use http::Method;
use leasehold_engine::limits::TOKEN_MAX;
use leasehold_engine::{Acquire, Command, Options, Patience, Quota, Renewal, ResourceKey, Spend, Token};
use leasehold_journal::Request;

use super::lookout::{LastSeen, Watching};
use super::wire::{LockState, Topic};
use crate::duration::{Cut, parse_go};
use crate::faces::header::seconds_us;
use crate::faces::{Received, Rows, fittings, fresh_claim_id, idempotency_key, key_name, proving};
use crate::http::Problem;
use crate::http::json::{DURATION_HINT, shown};
use crate::http::query::Query;
use crate::limits::{KEEP_MAX_US, NAME_MAX};

/// The lock that is meant when no job is named.
pub(super) const DEFAULT_JOB: &str = "default";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Acquire,
    Release,
    Show,
    Pause,
    Resume,
    Prove,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::POST, "/lock", Endpoint::Acquire),
        (Method::DELETE, "/lock", Endpoint::Release),
        (Method::GET, "/lock", Endpoint::Show),
        (Method::PUT, "/lock/pause", Endpoint::Pause),
        (Method::DELETE, "/lock/pause", Endpoint::Resume),
        (Method::GET, "/lock/proof", Endpoint::Prove),
    ]
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) struct Call {
    pub(super) topic: Topic,
    pub(crate) request: Request,
    pub(super) aim: Aim,
}

/// The purpose of a call beside the command it carries.
#[derive(Debug)]
pub(super) enum Aim {
    /// The answer to the command.
    Answer,
    /// A change of what the caller sees.
    News(Box<Watching>),
    /// A proof that the client holds the lock.
    Proof(Box<Proving>),
}

/// A proof that is wanted.
#[derive(Debug)]
pub(super) struct Proving {
    pub(super) client: Arc<str>,
    /// Of the grant of this token alone.
    pub(super) token: Option<Token>,
    pub(super) audience: Box<str>,
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Result<Call, Problem> {
    let query = Query::parse(received.parts.uri.query())?;
    let job: Arc<str> = Arc::from(query.get("job").unwrap_or(DEFAULT_JOB));
    if !(1..=NAME_MAX).contains(&job.len()) {
        return Err(Problem::about("job", format!("job must have 1 to {NAME_MAX} bytes, got {}", job.len())));
    }
    let resource = ResourceKey::Lock(Arc::clone(&job));
    let (mut clamped, mut aim) = (false, Aim::Answer);
    let command = match endpoint {
        Endpoint::Show => {
            if let Some(watching) = parse_watching(&query, received)? {
                aim = Aim::News(watching);
            }
            match query.get("client").filter(|client| (1..=NAME_MAX).contains(&client.len())) {
                Some(client) => Command::ViewPlace { resource, name: Arc::from(client) },
                None => Command::ViewResource { resource },
            }
        }
        Endpoint::Pause => fittings::pause(received, resource)?,
        Endpoint::Resume => Command::Resume { resource },
        Endpoint::Prove => {
            let (client, token) = (client(&query, received)?, token(&query)?);
            aim = Aim::Proof(Box::new(Proving { client, token, audience: proving::audience(&query)? }));
            Command::ViewResource { resource }
        }
        Endpoint::Release => {
            let (client, token) = (client(&query, received)?, token(&query)?);
            match (key_name(&received.parts.headers)?, token) {
                (Some(_), Some(_)) => {
                    return Err(Problem::bad_request("give the token or the Idempotency-Key, each names one grant"));
                }
                (Some(key), None) => Command::Spend(Box::new(Spend {
                    id: fresh_claim_id(&resource),
                    resource,
                    key,
                    client: Some(client),
                })),
                (None, token) => Command::Unlock { resource, client, token },
            }
        }
        Endpoint::Acquire => {
            let client = client(&query, received)?;
            let (ttl, wait) = (ttl(&query, received)?, wait(&query, received)?);
            clamped = ttl.is_cut || wait.is_cut;
            let key = idempotency_key(&received.parts.headers, &[client.as_bytes(), &ttl.us.to_le_bytes()])?;
            let options = Options { renewal: renewal(&query)?, keep_us: keep_us(&query)?, ..Options::default() };
            Command::Acquire(Box::new(Acquire {
                id: fresh_claim_id(&resource),
                resource,
                client: Some(client),
                principal: None,
                ttl_us: ttl.us,
                patience: Patience::For { wait_us: wait.us },
                key,
                metadata: None,
                quota: Quota::NONE,
                options,
            }))
        }
    };
    Ok(Call { topic: Topic { job, clamped }, request: command.into(), aim })
}

/// A caller that waits for a change, and what it saw last.
fn parse_watching(query: &Query<'_>, received: &Received<'_>) -> Result<Option<Box<Watching>>, Problem> {
    let wait = wait(query, received)?;
    let last_seen = last_seen(query)?;
    let watching = Watching { wait_us: wait.us, last_seen, ip: received.from.client };
    Ok((wait.us > 0).then(|| Box::new(watching)))
}

/// The lock as the caller saw it: the token of the answer, and its message where that is not `held`.
fn last_seen(query: &Query<'_>) -> Result<Option<LastSeen>, Problem> {
    let text = query.get("while").unwrap_or(LockState::Held.as_str());
    let state = LockState::parse(text).ok_or_else(|| {
        let [held, grace, expired] = LockState::ALL.map(LockState::as_str);
        Problem::about("while", format!("while must be {held}, {grace} or {expired}, got {}", shown(text)))
    })?;
    let Some(text) = query.get("after") else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(0) => Ok(Some(LastSeen::Free)),
        Ok(token) if token <= TOKEN_MAX => Ok(Some(LastSeen::Granted(Token(token), state))),
        _ => {
            let reason = format!("after must be an integer from 0 to {TOKEN_MAX}, got {}", shown(text));
            Err(Problem::about("after", reason))
        }
    }
}

fn client(query: &Query<'_>, received: &Received<'_>) -> Result<Arc<str>, Problem> {
    match query.get("client") {
        None | Some("") => {
            let is_in_body = received.body.windows(6).any(|part| part == b"client");
            let hint = if is_in_body {
                "client belongs in the query, not in the body: /lock?client=NAME"
            } else {
                "/lock?client=NAME, a name for this run"
            };
            Err(Problem::about("client", "client parameter required").hinting(hint))
        }
        Some(client) if client.len() > NAME_MAX => {
            Err(Problem::about("client", format!("client must have 1 to {NAME_MAX} bytes, got {}", client.len())))
        }
        Some(client) => Ok(Arc::from(client)),
    }
}

/// The answer for a client that has the lock already.
fn renewal(query: &Query<'_>) -> Result<Renewal, Problem> {
    match (query.get("renew"), token(query)?) {
        (None | Some("yes"), None) => Ok(Renewal::Any),
        (None | Some("yes"), Some(token)) => Ok(Renewal::Only(token)),
        (Some("no"), None) => Ok(Renewal::Never),
        (Some("no"), Some(_)) => {
            Err(Problem::bad_request("renew=no and token contradict each other, give one of them"))
        }
        (Some(other), _) => Err(Problem::about("renew", format!("renew must be yes or no, got {}", shown(other)))),
    }
}

/// One grant, by its token.
fn token(query: &Query<'_>) -> Result<Option<Token>, Problem> {
    let Some(text) = query.get("token") else { return Ok(None) };
    match text.parse::<u64>() {
        Ok(token) if (1..=TOKEN_MAX).contains(&token) => Ok(Some(Token(token))),
        _ => {
            let reason = format!("token must be an integer from 1 to {TOKEN_MAX}, got {}", shown(text));
            Err(Problem::about("token", reason))
        }
    }
}

fn ttl(query: &Query<'_>, received: &Received<'_>) -> Result<Cut, Problem> {
    let Some(text) = query.get("ttl") else { return Ok(Cut { us: received.settings.default_ttl_us, is_cut: false }) };
    match parse_go(text).ok().and_then(|ttl_us| u64::try_from(ttl_us).ok()) {
        Some(ttl_us) if ttl_us > 0 => Ok(Cut::to(received.settings.ttl_max_us, ttl_us)),
        _ => Err(Problem::about("ttl", "invalid ttl format").hinting("a duration with its unit: 30s, 1m30s or 24h")),
    }
}

fn wait(query: &Query<'_>, received: &Received<'_>) -> Result<Cut, Problem> {
    let Some(text) = query.get("wait") else { return Ok(Cut::default()) };
    match duration_us(text) {
        Some(wait_us) => Ok(Cut::to(received.settings.wait_max_us, wait_us)),
        None => Err(Problem::about("wait", "invalid wait format").hinting(DURATION_HINT)),
    }
}

/// An addition of ours takes a Go duration, as everything about a lock does, and what pools and claims take.
fn duration_us(text: &str) -> Option<u64> {
    let go = parse_go(text).ok().and_then(|duration_us| u64::try_from(duration_us).ok());
    go.or_else(|| seconds_us(text))
}

fn keep_us(query: &Query<'_>) -> Result<u64, Problem> {
    let Some(text) = query.get("keep") else { return Ok(0) };
    match duration_us(text) {
        Some(keep_us) if keep_us <= KEEP_MAX_US => Ok(keep_us),
        _ => Err(Problem::about("keep", format!("keep must be a duration from 0s to 300s, got {}", shown(text)))),
    }
}
