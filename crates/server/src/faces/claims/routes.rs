//! The endpoints of claims and their resources, and their requests as commands.

use std::ops::RangeInclusive;
use std::sync::Arc;

use http::Method;
use leasehold_engine::limits::DURATION_MAX_US;
use leasehold_engine::{
    Acquire, ClaimId, Command, IdempotencyKey, Options, Particulars, Patience, Quota, ResourceKey, Update, Wish,
};
use leasehold_journal::Request;

use super::list::{ClaimList, ResourceList};
use crate::auth::no_such_claim;
use crate::duration::Cut;
use crate::faces::{Received, Rows, fingerprint, fittings, fresh_claim_id, key_name, listening, parse_uuid, proving};
use crate::http::Problem;
use crate::http::json::{AboveMax, Least, Object, Seconds, canonical, shown};
use crate::http::query::Query;
use crate::limits::{CONFIRM_S, NAME_MAX, WAIT_TTL_S};
use crate::links;

/// `timeout` and `ttl` of a claim may be zero. They are cut to the configured maximum, and refused when they are
/// absurd.
const DURATION: Seconds = Seconds { least: Least::Zero, max_us: DURATION_MAX_US, above_max: AboveMax::Refuse };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Create,
    List,
    Show,
    Update,
    Prove,
    ListResources,
    ShowResource,
    PutResource,
    DeleteResource,
    PauseResource,
    ResumeResource,
    ServeSlot,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    [
        (Method::POST, ["/v1/claims", "/v1/claims/"], Endpoint::Create),
        (Method::GET, ["/v1/claims", "/v1/claims/"], Endpoint::List),
        (Method::GET, ["/v1/claims/{id}", "/v1/claims/{id}/"], Endpoint::Show),
        (Method::PATCH, ["/v1/claims/{id}", "/v1/claims/{id}/"], Endpoint::Update),
        (Method::PUT, ["/v1/claims/{id}", "/v1/claims/{id}/"], Endpoint::Update),
        (Method::GET, ["/v1/claims/{id}/proof", "/v1/claims/{id}/proof/"], Endpoint::Prove),
        (Method::GET, ["/v1/resources", "/v1/resources/"], Endpoint::ListResources),
        (Method::GET, ["/v1/resources/{name}", "/v1/resources/{name}/"], Endpoint::ShowResource),
        (Method::PUT, ["/v1/resources/{name}", "/v1/resources/{name}/"], Endpoint::PutResource),
        (Method::DELETE, ["/v1/resources/{name}", "/v1/resources/{name}/"], Endpoint::DeleteResource),
        (Method::PUT, ["/v1/resources/{name}/pause", "/v1/resources/{name}/pause/"], Endpoint::PauseResource),
        (Method::DELETE, ["/v1/resources/{name}/pause", "/v1/resources/{name}/pause/"], Endpoint::ResumeResource),
        (Method::PUT, ["/v1/resources/{name}/slots/{slot}", "/v1/resources/{name}/slots/{slot}/"], Endpoint::ServeSlot),
    ]
    .into_iter()
    .flat_map(|(method, patterns, endpoint)| patterns.map(|pattern| (method.clone(), pattern, endpoint)))
    .collect()
}

/// A call that made sense, or one that has to be held against what exists.
#[derive(Debug)]
pub(crate) enum Call {
    One {
        topic: Topic,
        request: Request,
    },
    Claims(Box<ClaimList>),
    Resources(ResourceList),
    Prove {
        claim: ClaimId,
        audience: Box<str>,
    },
    /// The query or the body is wrong, which matters only if the claim exists.
    Mistaken {
        claim: ClaimId,
        problem: Problem,
    },
}

/// The parts of the call that the answer needs.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(super) endpoint: Endpoint,
    /// The beginning of absolute URLs.
    pub(super) base_url: String,
    /// It asked for a longer wait, timeout or ttl than it may have.
    pub(super) clamped: bool,
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Result<Call, Problem> {
    let query = Query::parse(received.parts.uri.query())?;
    let base_url = links::base_url(received.settings, received.parts);
    let mut clamped = false;
    let request = match endpoint {
        Endpoint::List => return ClaimList::parse(&query, base_url).map(|list| Call::Claims(Box::new(list))),
        Endpoint::ListResources => return ResourceList::parse(&query, base_url).map(Call::Resources),
        Endpoint::Create => {
            let wait = parse_listening(received, &query)?;
            let (acquire, is_cut) = create(received)?;
            clamped = wait.is_cut || is_cut;
            Request { listen_us: wait.us, ..Command::Acquire(Box::new(acquire)).into() }
        }
        Endpoint::Show => {
            let claim = claim_in_path(received)?;
            match parse_news(received, &query) {
                Ok((wait, only_while_waiting)) => {
                    clamped = wait.is_cut;
                    let command = Command::ViewClaim { claim };
                    Request { command, listen_us: wait.us, only_while_waiting }
                }
                Err(problem) => return Ok(Call::Mistaken { claim, problem }),
            }
        }
        Endpoint::Update => {
            let claim = claim_in_path(received)?;
            match parse_update(received, &query) {
                Ok((update, wait, is_cut)) => {
                    clamped = wait.is_cut || is_cut;
                    Request { listen_us: wait.us, ..Command::Update { claim, update }.into() }
                }
                Err(problem) => return Ok(Call::Mistaken { claim, problem }),
            }
        }
        Endpoint::Prove => {
            let claim = claim_in_path(received)?;
            let audience = query.refuse_unknown(&["aud"]).and_then(|()| proving::audience(&query));
            return Ok(match audience {
                Ok(audience) => Call::Prove { claim, audience },
                Err(problem) => Call::Mistaken { claim, problem },
            });
        }
        Endpoint::ShowResource => Command::ViewResource { resource: resource_in_path(received)? }.into(),
        Endpoint::DeleteResource => Command::Unconfigure { resource: resource_in_path(received)? }.into(),
        Endpoint::PutResource => {
            let resource = resource_in_path(received)?;
            let body = Object::parse(received.body)?;
            body.refuse_unknown(&["capacity", "label", "slots"])?;
            fittings::configure(&body, "capacity", received, resource)?.into()
        }
        Endpoint::PauseResource => fittings::pause(received, resource_in_path(received)?)?.into(),
        Endpoint::ResumeResource => Command::Resume { resource: resource_in_path(received)? }.into(),
        Endpoint::ServeSlot => fittings::serve_slot(received, resource_in_path(received)?)?.into(),
    };
    Ok(Call::One { topic: Topic { endpoint, base_url, clamped }, request })
}

/// The claim that is asked for, and whether its timeout was cut.
fn create(received: &Received<'_>) -> Result<(Acquire, bool), Problem> {
    let body = Object::parse(received.body)?;
    body.refuse_unknown(&["resource", "timeout", "metadata", "ttl", "user_data", "wait_ttl", "confirm"])?;
    let resource = body.required_string("resource", 1..=NAME_MAX)?;
    let timeout = either(&body, "timeout", "ttl")?;
    let timeout = Cut::to(received.settings.timeout_max_us, body.required_seconds(timeout, DURATION)?);
    let timeout_us = timeout.us;
    let metadata = body.json(either(&body, "metadata", "user_data")?, received.settings.metadata_max)?;
    let particulars = Particulars {
        wait_ttl_us: body.seconds("wait_ttl", within(&WAIT_TTL_S))?.unwrap_or(0),
        confirm_us: body.seconds("confirm", within(&CONFIRM_S))?.unwrap_or(0),
        ..Particulars::default()
    };
    let terms = [particulars.wait_ttl_us, particulars.confirm_us].map(u64::to_le_bytes);
    let asked = |metadata: &[u8]| {
        let timeout = timeout_us.to_le_bytes();
        let parts: [&[u8]; 5] = [resource.as_bytes(), &timeout, metadata, &terms[0], &terms[1]];
        // As it was before there were terms, where there are none.
        fingerprint(if particulars.is_empty() { &parts[..3] } else { &parts })
    };
    // Metadata is the same when its value is, in any spelling. Earlier versions compared the spelling.
    let name = key_name(&received.parts.headers)?;
    let value = name.as_ref().and(metadata).map(canonical).unwrap_or_default();
    let former = name.as_ref().map(|_| asked(metadata.unwrap_or_default().as_bytes()));
    let key = name.map(|name| IdempotencyKey { name, fingerprint: asked(&value) });
    let resource = ResourceKey::Claim(Arc::from(&*resource));
    let acquire = Acquire {
        id: fresh_claim_id(&resource),
        ttl_us: timeout_us,
        patience: Patience::Standing,
        client: None,
        principal: None,
        key,
        metadata: metadata.map(Arc::from),
        quota: Quota::NONE,
        options: Options { former_fingerprint: former, particulars: particulars.clone(), ..Options::default() },
        resource,
    };
    Ok((acquire, timeout.is_cut))
}

/// A number of seconds within these bounds.
fn within(allowed: &RangeInclusive<u64>) -> Seconds {
    let max_us = allowed.end() * 1_000_000;
    Seconds { least: Least::Seconds(*allowed.start()), max_us, above_max: AboveMax::Refuse }
}

/// The name a member goes by: its own, or the one the deployed claims service has for it.
fn either(body: &Object<'_>, own: &'static str, other: &'static str) -> Result<&'static str, Problem> {
    match (body.has(own), body.has(other)) {
        (true, true) => Err(Problem::about(own, format!("{own} and {other} mean the same, give one of them"))),
        (false, true) => Ok(other),
        (_, false) => Ok(own),
    }
}

/// The change, how long to wait for it, and whether its ttl or timeout was cut.
fn parse_update(received: &Received<'_>, query: &Query<'_>) -> Result<(Update, Cut, bool), Problem> {
    let wait = parse_listening(received, query)?;
    let body = Object::parse(received.body)?;
    body.refuse_unknown(&["ttl", "timeout", "status"])?;
    if body.is_empty() {
        return Err(Problem::bad_request("nothing to change, give any of ttl, timeout, status"));
    }
    let duration = |name| -> Result<Option<Cut>, Problem> {
        Ok(body.seconds(name, DURATION)?.map(|asked_us| Cut::to(received.settings.timeout_max_us, asked_us)))
    };
    let (ttl, timeout) = (duration("ttl")?, duration("timeout")?);
    let is_cut = [ttl, timeout].into_iter().flatten().any(|duration| duration.is_cut);
    let us = |duration: Option<Cut>| duration.map(|duration| duration.us);
    let update = Update { ttl_us: us(ttl), timeout_us: us(timeout), status: wish(&body)? };
    Ok((update, wait, is_cut))
}

/// `wait`, and whether it is over at once for a claim that does not wait.
fn parse_news(received: &Received<'_>, query: &Query<'_>) -> Result<(Cut, bool), Problem> {
    query.refuse_unknown(&["wait", "while"])?;
    let only_while_waiting = match query.get("while") {
        None => false,
        Some("waiting") => true,
        Some(other) => return Err(Problem::about("while", format!("while must be waiting, got {}", shown(other)))),
    };
    Ok((listening(&received.parts.headers, query, received.settings.wait_max_us)?, only_while_waiting))
}

/// `wait`, the only thing the query of such a call may hold.
fn parse_listening(received: &Received<'_>, query: &Query<'_>) -> Result<Cut, Problem> {
    query.refuse_unknown(&["wait"])?;
    listening(&received.parts.headers, query, received.settings.wait_max_us)
}

fn wish(body: &Object<'_>) -> Result<Option<Wish>, Problem> {
    const ALLOWED: &str = "one of active, released, revoked, aborted, withdrawn";
    let Ok(status) = body.string("status", 0..=usize::MAX) else {
        return Err(Problem::about("status", format!("status must be a string, {ALLOWED}")));
    };
    Ok(match status.as_deref() {
        None => None,
        Some("active") => Some(Wish::Active),
        Some("released") => Some(Wish::Released),
        Some("revoked") => Some(Wish::Revoked),
        Some("aborted") => Some(Wish::Aborted),
        Some("withdrawn") => Some(Wish::Withdrawn),
        Some(other) => {
            return Err(Problem::about("status", format!("status must be {ALLOWED}, got {}", shown(other))));
        }
    })
}

fn claim_in_path(received: &Received<'_>) -> Result<ClaimId, Problem> {
    parse_uuid(received.params.raw("id")).map(ClaimId).ok_or_else(no_such_claim)
}

fn resource_in_path(received: &Received<'_>) -> Result<ResourceKey, Problem> {
    let name = received.params.decoded("name")?;
    if !(1..=NAME_MAX).contains(&name.len()) {
        let reason = format!("the resource name in the path must have 1 to {NAME_MAX} bytes, got {}", name.len());
        return Err(Problem::bad_request(reason));
    }
    Ok(ResourceKey::Claim(Arc::from(&*name)))
}
