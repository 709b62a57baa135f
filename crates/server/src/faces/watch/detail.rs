//! One resource in full, and its events.

use http::{Response, StatusCode};
use leasehold_engine::{Command, HolderLine, HolderState, Inspection, Reply as Engine, ResourceKey, WaiterLine, Wall};
use leasehold_journal::Happened;

use super::list::fitting;
use super::routes::{asked_of, resolve};
use super::wire::write_event;
use crate::driver::Handle;
use crate::faces::plain_seconds_us;
use crate::http::json::shown;
use crate::http::json::write::{Object, array};
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId, response};
use crate::limits::{HISTORY_DEFAULT, HISTORY_MAX};
use crate::watch::key::{PublicKey, public_name, write_key};
use crate::watch::{Observer, Past};

/// Which part of the past is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryQuery {
    since: Wall,
    limit: usize,
}

impl HistoryQuery {
    pub(super) fn parse(query: &Query<'_>) -> Result<Self, Problem> {
        query.refuse_unknown(&["since_unix", "limit"])?;
        let since = match query.get("since_unix") {
            None => Wall(0),
            Some(text) => Wall(plain_seconds_us(text).ok_or_else(|| {
                Problem::about("since_unix", format!("since_unix must be seconds since 1970, got {}", shown(text)))
            })?),
        };
        let limit = match query.get("limit") {
            None => HISTORY_DEFAULT,
            Some(text) => text.parse().ok().filter(|limit| (1..=HISTORY_MAX).contains(limit)).ok_or_else(|| {
                Problem::about(
                    "limit",
                    format!("limit must be a whole number from 1 to {HISTORY_MAX}, got {}", shown(text)),
                )
            })?,
        };
        Ok(HistoryQuery { since, limit })
    }
}

pub(super) async fn show(
    observer: &Observer,
    driver: &Handle,
    key: &PublicKey,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    // An unknown digest is looked up like the id of a pool that does not exist, so that both get the same answer.
    let resource = resolve(observer, driver, key).await?.unwrap_or(ResourceKey::Pool(0));
    let (reply, answer) = asked_of(driver, Command::Inspect { resource }, id).await?;
    let Engine::Inspection(inspection) = answer else { unreachable!("an inspection is answered as one: {answer:?}") };
    let mut object = Object::new();
    object.string("position", &format!("{}.{}", reply.epoch, reply.position));
    write_inspection(&mut object, &inspection, observer);
    object.float_seconds("history_from_unix", observer.events.complete_since().0);
    Ok(reply.positioned(response::json(StatusCode::OK, id, object.end())))
}

fn write_inspection(object: &mut Object, inspection: &Inspection, observer: &Observer) {
    let Inspection { line, configured, latest_token, holders, queue } = inspection;
    write_key(object, line.resource.kind(), &public_name(&line.resource, observer.digester()));
    object
        .integer("capacity", line.capacity.into())
        .boolean("configured", *configured)
        .integer("in_use", line.in_use.into())
        .integer("waiting", line.waiting.into())
        .string("state", line.state.as_str())
        .integer("latest_token", latest_token.0);
    // Metadata of a thousand holders and as many waiters would be megabytes; the counts above tell how many there are.
    let shown =
        fitting(holders.iter().map(|line| detail_len(line.client.as_deref(), line.metadata.as_deref())), usize::MAX);
    let holders = &holders[..shown.min(holders.len())];
    let shown =
        fitting(queue.iter().map(|line| detail_len(line.client.as_deref(), line.metadata.as_deref())), usize::MAX);
    let queue = &queue[..shown.min(queue.len())];
    let is_truncated = holders.len() < line.in_use as usize || queue.len() < line.waiting as usize;
    let holders = array(holders, |object, holder| {
        let HolderLine { slot, token, client, claim, since, held_us, ttl_us, remaining_us, metadata, state } = holder;
        let (state, grace_us) = match state {
            HolderState::Active => ("active", None),
            HolderState::Grace { remaining_us } => ("grace", Some(*remaining_us)),
            HolderState::Lapsed => ("lapsed", None),
        };
        object
            .integer("slot", (*slot).into())
            .integer("token", token.0)
            .optional_string("client", client.as_deref())
            .optional_uuid("claim", claim.map(|claim| claim.0))
            .float_seconds("since_unix", since.0)
            .float_seconds("held_s", *held_us)
            .float_seconds("ttl_s", *ttl_us)
            .float_seconds("remaining_s", *remaining_us)
            .raw("metadata", metadata.as_deref().unwrap_or("null"))
            .string("state", state)
            .optional_seconds("grace_remaining_s", grace_us);
    });
    object.name("holders").extend_from_slice(&holders);
    let queue: Vec<(u64, &WaiterLine)> = (1..).zip(queue).collect();
    let queue = array(&queue, |object, (place, waiter)| {
        let WaiterLine { client, claim, waiting_us, metadata } = waiter;
        object
            .integer("place", *place)
            .optional_string("client", client.as_deref())
            .optional_uuid("claim", claim.map(|claim| claim.0))
            .float_seconds("waiting_s", *waiting_us)
            .raw("metadata", metadata.as_deref().unwrap_or("null"));
    });
    object.name("queue").extend_from_slice(&queue);
    object.boolean("truncated", is_truncated);
}

/// About how long a line about a holder or a waiter is.
fn detail_len(client: Option<&str>, metadata: Option<&str>) -> usize {
    320 + client.map_or(0, str::len) + metadata.map_or(0, str::len)
}

/// Also of a resource that is gone: that is when people ask what happened.
pub(super) async fn history(
    observer: &Observer,
    driver: &Handle,
    key: &PublicKey,
    query: HistoryQuery,
    id: &RequestId,
) -> Result<Response<Body>, Problem> {
    let digester = observer.digester();
    // A pool that is known is compared by its id, and need not be digested again for every event.
    let key = resolve(observer, driver, key).await?.map_or_else(|| key.clone(), PublicKey::Named);
    let is_about_it = |happened: &Happened| key.is_of(&happened.effect.resource, digester);
    let Past { events, complete_since } = observer.events.past(query.since, query.limit, is_about_it);
    let mut object = Object::new();
    let events = array(&events, |object, happened| write_event(object, happened, digester));
    object.name("events").extend_from_slice(&events);
    object.float_seconds("complete_since_unix", complete_since.0);
    Ok(response::json(StatusCode::OK, id, object.end()))
}
