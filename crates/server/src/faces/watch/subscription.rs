//! `GET /v1/events` and its parameters: which events, and from where on.

use std::net::IpAddr;

use http::HeaderMap;
use http::header::HeaderName;
use leasehold_auth::policy::Sight;
use leasehold_engine::{Effect, Kind, ResourceKey};

use crate::auth::Standing;
use crate::faces::{Received, Service, parse_uuid};
use crate::http::Problem;
use crate::http::json::shown;
use crate::http::query::Query;
use crate::watch::bookmark::Bookmark;
use crate::watch::digest::Digester;
use crate::watch::key::{PublicKey, parse_kind};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The subscription of a reader.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(super) filter: Filter,
    pub(super) last_seen: Option<Bookmark>,
    /// The right by which it reads, where callers sign on.
    pub(super) standing: Option<Box<Standing>>,
    /// Where its reader is.
    pub(super) ip: Option<IpAddr>,
}

/// Which events a reader wants.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(super) kind: Option<Kind>,
    pub(super) resource: Option<OneResource>,
    /// Those that the reader may observe.
    pub(super) sight: Sight,
}

#[derive(Debug)]
pub(super) enum OneResource {
    Key(PublicKey),
    /// Of any kind.
    Name(String),
}

impl Filter {
    pub(super) fn wants(&self, effect: &Effect, digester: &Digester) -> bool {
        self.kind.is_none_or(|kind| effect.resource.kind() == kind)
            && self.sight.shows(&effect.resource)
            && match &self.resource {
                None => true,
                Some(OneResource::Key(key)) => key.is_of(&effect.resource, digester),
                Some(OneResource::Name(name)) => effect.resource.name().is_some_and(|known| **known == **name),
            }
    }
}

pub(super) fn parse(received: &Received<'_>, service: &Service) -> Result<Subscription, Problem> {
    let query = Query::parse(received.parts.uri.query())?;
    query.refuse_unknown(&["resource", "kind", "last_event_id"])?;
    let kind = query.get("kind").map(known_kind).transpose()?;
    let resource = query.get("resource").map(|text| wanted(text, service.observer.digester())).transpose()?;
    let last_seen = last_seen(&received.parts.headers, &query)?;
    let Received { parts, from, settings, .. } = received;
    // It lasts only as long as its reader would be let in.
    let standing = service.guard.current().map(|_| {
        let is_encrypted = settings.is_encrypted();
        Box::new(Standing::new(&service.guard, &service.driver, &parts.headers, *from, is_encrypted))
    });
    Ok(Subscription {
        filter: Filter { kind, resource, sight: Sight::EVERYTHING },
        last_seen,
        standing,
        ip: Some(from.client),
    })
}

pub(crate) fn known_kind(text: &str) -> Result<Kind, Problem> {
    parse_kind(text)
        .ok_or_else(|| Problem::about("kind", format!("kind must be one of pool, claim, lock, got {}", shown(text))))
}

fn wanted(text: &str, digester: &Digester) -> Result<OneResource, Problem> {
    if parse_uuid(text).is_some() {
        let reason = "resource must not be a pool's id, which is a credential and does not belong in a URL; \
                      use the key pool:DIGEST that POST /v1/observe/pool gives";
        return Err(Problem::about("resource", reason));
    }
    Ok(match PublicKey::parse(text) {
        // Known once, it need not be digested again for every event.
        Some(PublicKey::Pool(digest)) => OneResource::Key(match digester.recall(digest) {
            Some(pool) => PublicKey::Named(ResourceKey::Pool(pool)),
            None => PublicKey::Pool(digest),
        }),
        Some(key) => OneResource::Key(key),
        None if text.is_empty() => {
            return Err(Problem::about("resource", "resource must be a key or a name, got \"\""));
        }
        None => OneResource::Name(text.to_owned()),
    })
}

/// The header comes first: a browser that reconnects sends it along with the query it began with.
fn last_seen(headers: &HeaderMap, query: &Query<'_>) -> Result<Option<Bookmark>, Problem> {
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or("?"));
    let Some(text) = header.or(query.get("last_event_id")).filter(|text| !text.is_empty()) else { return Ok(None) };
    Bookmark::parse(text).map(Some).ok_or_else(|| {
        Problem::about(
            "last_event_id",
            format!("last_event_id must be the id of an event, such as 1.42, got {}", shown(text)),
        )
    })
}
