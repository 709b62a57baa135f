//! The endpoints for observers and operators, and their requests as questions to the engine.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use leasehold_engine::limits::TOKEN_MAX;
use leasehold_engine::{Command, Reply, ResourceKey, Revocable, Token};
use schemars::JsonSchema;
use serde::Serialize;

use super::detail::HistoryQuery;
use super::list::List;
use super::lookup::{asked_of, no_such_resource, resolve};
use super::subscription::{self, Subscription, known_kind};
use super::{detail, list, reader, series, service};
use crate::code::Code;
use crate::driver::Handle;
use crate::faces::{Received, Rows, Service, parse_uuid};
use crate::http::json::{self, shown, to_bytes};
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId};
use crate::limits::{KEY_MAX, NAME_MAX};
use crate::response;
use crate::watch::Observer;
use crate::watch::digest::PoolDigest;
use crate::watch::key::{KEY_PATTERN, PublicKey};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    ListResources,
    ShowResource,
    History,
    Series,
    /// About the service itself.
    Service,
    /// From a pool's id to its key.
    FindPool,
    Events,
    Revoke,
    Fence,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    [
        (Method::GET, "/v1/observe/resources", Endpoint::ListResources),
        (Method::GET, "/v1/observe/resources/{key}", Endpoint::ShowResource),
        (Method::GET, "/v1/observe/resources/{key}/history", Endpoint::History),
        (Method::GET, "/v1/observe/series", Endpoint::Series),
        (Method::GET, "/v1/observe/service", Endpoint::Service),
        (Method::POST, "/v1/observe/pool", Endpoint::FindPool),
        (Method::GET, "/v1/events", Endpoint::Events),
        (Method::POST, "/v1/admin/revoke", Endpoint::Revoke),
        (Method::GET, "/v1/fence", Endpoint::Fence),
    ]
    .into()
}

/// A call that made sense.
#[derive(Debug)]
pub(crate) enum Call {
    List(Box<List>),
    Show(PublicKey),
    History(PublicKey, HistoryQuery),
    Series,
    Service { store: &'static str },
    FindPool(u128),
    Events(Subscription),
    Revoke(PublicKey, Revocable),
    Fence(PublicKey, Token),
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>, service: &Service) -> Result<Call, Problem> {
    Ok(match endpoint {
        Endpoint::ListResources => Call::List(Box::new(List::parse(&Query::parse(received.parts.uri.query())?)?)),
        Endpoint::ShowResource => {
            Query::parse(received.parts.uri.query())?.refuse_unknown(&[])?;
            Call::Show(key_in_path(received)?)
        }
        Endpoint::History => {
            Call::History(key_in_path(received)?, HistoryQuery::parse(&Query::parse(received.parts.uri.query())?)?)
        }
        Endpoint::Series => Call::Series,
        Endpoint::Service => Call::Service { store: received.settings.store },
        Endpoint::FindPool => {
            let body = json::Object::parse(received.body)?;
            body.refuse_unknown(&["id"])?;
            let text = body.required_secret("id", "a UUID")?;
            Call::FindPool(parse_uuid(&text).ok_or_else(|| Problem::about("id", "id must be a UUID"))?)
        }
        Endpoint::Events => Call::Events(subscription::parse(received, service)?),
        Endpoint::Revoke => {
            let body = json::Object::parse(received.body)?;
            body.refuse_unknown(&["key", "token", "order"])?;
            let text = body.required_string("key", 1..=KEY_MAX)?;
            let key = PublicKey::parse(&text).ok_or_else(|| {
                Problem::about("key", format!("key must be claim:NAME, lock:JOB or pool:DIGEST, got {}", shown(&text)))
            })?;
            let which = match (body.integer("token", 1..=TOKEN_MAX)?, body.integer("order", 1..=TOKEN_MAX)?) {
                (Some(token), None) => Revocable::Grant(Token(token)),
                (None, Some(order)) => Revocable::Place(order),
                (None, None) => Revocable::Grant(Token(body.required_integer("token", 1..=TOKEN_MAX)?)),
                (Some(_), Some(_)) => {
                    return Err(Problem::bad_request("give the token of a grant or the order of a waiter, not both"));
                }
            };
            Call::Revoke(key, which)
        }
        Endpoint::Fence => fence(&Query::parse(received.parts.uri.query())?)?,
    })
}

/// A text that is no key names no resource.
fn key_in_path(received: &Received<'_>) -> Result<PublicKey, Problem> {
    PublicKey::parse(&received.params.decoded("key")?).ok_or_else(no_such_resource)
}

fn fence(query: &Query<'_>) -> Result<Call, Problem> {
    query.refuse_unknown(&["kind", "resource", "token"])?;
    let required = |name: &'static str, what: &str| {
        query.get(name).ok_or_else(|| Problem::about(name, format!("{name} is required and must be {what}")))
    };
    let kind = known_kind(required("kind", "one of pool, claim, lock")?)?;
    let name = required("resource", "the name of a resource")?;
    let token = required("token", "the token of a grant")?;
    let token = token.parse().ok().filter(|token| (1..=TOKEN_MAX).contains(token)).ok_or_else(|| {
        Problem::about("token", format!("token must be a whole number from 1 to {TOKEN_MAX}, got {}", shown(token)))
    })?;
    if !(1..=NAME_MAX).contains(&name.len()) {
        return Err(Problem::about(
            "resource",
            format!("resource must have 1 to {NAME_MAX} bytes, got {}", name.len()),
        ));
    }
    let key = match kind {
        leasehold_engine::Kind::Claim => PublicKey::Named(ResourceKey::Claim(Arc::from(name))),
        leasehold_engine::Kind::Lock => PublicKey::Named(ResourceKey::Lock(Arc::from(name))),
        leasehold_engine::Kind::Pool => PublicKey::Pool(PoolDigest::parse(name).ok_or_else(|| {
            Problem::about(
                "resource",
                "resource must be the pool's digest of 32 hex digits; its id is a credential and does not belong in a \
                 URL, POST /v1/observe/pool gives the digest",
            )
        })?),
    };
    Ok(Call::Fence(key, Token(token)))
}

pub(crate) async fn answer(
    observer: &Arc<Observer>,
    driver: &Handle,
    call: Call,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    match call {
        Call::List(list) => list::answer(observer, driver, *list, id).await,
        Call::Show(key) => detail::show(observer, driver, &key, id).await,
        Call::History(key, query) => detail::history(observer, driver, &key, query, id).await,
        Call::Series => {
            Ok(response::json(StatusCode::OK, id, series::answer(observer, driver.wall(), &driver.totals())))
        }
        Call::Service { store } => {
            Ok(response::json(StatusCode::OK, id, service::answer(observer, store, driver.wall())))
        }
        Call::FindPool(pool) => find_pool(observer, driver, pool, id).await,
        Call::Events(subscription) => reader::answer(observer, driver, subscription, id),
        Call::Revoke(key, which) => {
            let Some(resource) = resolve(observer, driver, &key).await? else {
                return Ok(response::json(StatusCode::OK, id, to_bytes(&Revoked { revoked: false })));
            };
            let (envelope, answer) = asked_of(driver, Command::Revoke { resource, which }, id).await?;
            let Reply::Revoked(revoked) = answer else { unreachable!("a revocation is answered as one: {answer:?}") };
            Ok(envelope.positioned(response::json(StatusCode::OK, id, to_bytes(&Revoked { revoked }))))
        }
        Call::Fence(key, token) => {
            // A pool that is not known has no grants, and neither has one that never was.
            let resource = resolve(observer, driver, &key).await?.unwrap_or(ResourceKey::Pool(0));
            let (envelope, answer) = asked_of(driver, Command::ViewFence { resource, token }, id).await?;
            let Reply::Fence(fence) = answer else { unreachable!("a fence is answered as one: {answer:?}") };
            let body = to_bytes(&Fence { current: fence.is_current, latest: fence.latest.0 });
            Ok(envelope.positioned(response::json(StatusCode::OK, id, body)))
        }
    }
}

/// A grant was taken away from its holder, or a waiter out of its queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Revoked {
    revoked: bool,
}

/// How a token stands.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Fence {
    /// True if its grant holds a slot right now.
    current: bool,
    /// The last token granted; 0 when nothing is remembered of the resource.
    latest: u64,
}

/// The name of a pool for observers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct PoolKey {
    #[schemars(extend("pattern" = KEY_PATTERN, "minLength" = 1, "maxLength" = KEY_MAX, "examples" = ["lock:deploy"]))]
    key: String,
}

async fn find_pool(
    observer: &Observer,
    driver: &Handle,
    pool: u128,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let resource = ResourceKey::Pool(pool);
    let (envelope, _) = asked_of(driver, Command::ViewResource { resource }, id).await.map_err(|problem| {
        if problem.status == StatusCode::NOT_FOUND {
            Problem::new(StatusCode::NOT_FOUND, "no such pool").coded(Code::NoSuchPool)
        } else {
            problem
        }
    })?;
    let body = to_bytes(&PoolKey { key: format!("pool:{}", observer.digester().remember(pool)) });
    Ok(envelope.positioned(response::json(StatusCode::OK, id, body)))
}
