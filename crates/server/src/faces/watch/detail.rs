//! One resource in full, and its events.

use std::sync::Arc;

use http::{Response, StatusCode};
use leasehold_engine::{
    Command, HolderLine, HolderState, Inspection, Reply, ResourceKey, ResourceState, WaiterLine, Wall,
};
use leasehold_journal::Happened;
use schemars::JsonSchema;
use serde::Serialize;

use super::list::fitting;
use super::lookup::{asked_of, resolve};
use super::wire::{Event, History};
use crate::driver::Handle;
use crate::faces::fittings::{self, OutOfService, Paused};
use crate::faces::plain_seconds_us;
use crate::http::json::value::{FencingToken, FloatSeconds, May, Raw, UuidText};
use crate::http::json::{shown, to_bytes};
use crate::http::query::Query;
use crate::http::{Body, Problem, RequestId};
use crate::limits::{HISTORY_DEFAULT, HISTORY_MAX};
use crate::response;
use crate::watch::key::{Keyed, PublicKey, public_name};
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
    let partition = driver.partitions_of(Some(&resource)).start;
    let (envelope, answer) = asked_of(driver, Command::Inspect { resource }, id).await?;
    let Reply::Inspection(inspection) = answer else { unreachable!("an inspection is answered as one: {answer:?}") };
    let name = public_name(&inspection.line.resource, observer.digester());
    let history_from = observer.events.complete_since(partition);
    let body = to_bytes(&ObservedResource::of(envelope.to_position(), &inspection, &name, history_from));
    Ok(envelope.positioned(response::json(StatusCode::OK, id, body)))
}

/// A resource in full.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ObservedResource<'a> {
    position: String,
    #[serde(flatten)]
    resource: Keyed<'a>,
    capacity: u32,
    configured: bool,
    in_use: u32,
    waiting: u32,
    #[schemars(extend("enum" = ResourceState::ALL.map(ResourceState::as_str)))]
    state: &'static str,
    latest_token: u64,
    /// The name that a pool was given in place of its id.
    label: Option<&'a str>,
    /// While nothing is granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
    /// Slots that are not granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    out_of_service: May<Vec<OutOfService<'a>>>,
    holders: Vec<ObservedHolder<'a>>,
    queue: Vec<ObservedWaiter<'a>>,
    /// Holders or waiters were left out, by number or by size.
    truncated: bool,
    history_from_unix: FloatSeconds,
}

/// The holder of a slot.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ObservedHolder<'a> {
    slot: u32,
    /// The name of the slot, where slots have names. Its data is for the holder alone.
    #[serde(skip_serializing_if = "May::is_missing")]
    slot_name: May<&'a str>,
    token: FencingToken,
    client: Option<&'a str>,
    /// The name that a pool's borrower gave itself.
    holder: Option<&'a str>,
    /// The name that its caller signed on with.
    owner: Option<&'a str>,
    claim: Option<UuidText>,
    since_unix: FloatSeconds,
    held_s: FloatSeconds,
    ttl_s: FloatSeconds,
    remaining_s: FloatSeconds,
    metadata: Raw<'a>,
    #[schemars(extend("enum" = ["active", "grace", "lapsed"]))]
    state: &'static str,
    grace_remaining_s: Option<FloatSeconds>,
}

/// A waiter in the queue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
struct ObservedWaiter<'a> {
    #[schemars(range(min = 1))]
    place: u32,
    /// Its place in the order of creation, by which it can be revoked.
    order: u64,
    client: Option<&'a str>,
    /// The name that a pool's borrower gave itself.
    holder: Option<&'a str>,
    /// The name that its caller signed on with.
    owner: Option<&'a str>,
    claim: Option<UuidText>,
    waiting_s: FloatSeconds,
    /// Until it may expect a slot. An estimate, not a promise.
    eta_s: Option<FloatSeconds>,
    metadata: Raw<'a>,
}

impl<'a> ObservedResource<'a> {
    fn of(position: String, inspection: &'a Inspection, name: &'a str, history_from: Wall) -> Self {
        let Inspection { line, configured, latest_token, holders, queue, out_of_service } = inspection;
        // Metadata of a thousand holders and as many waiters would be megabytes; the counts tell how many there are.
        let lens = holders.iter().map(|line| detail_len([&line.client, &line.holder, &line.owner, &line.metadata]));
        let holders = &holders[..fitting(lens, usize::MAX).min(holders.len())];
        let lens = queue.iter().map(|line| detail_len([&line.client, &line.holder, &line.owner, &line.metadata]));
        let queue = &queue[..fitting(lens, usize::MAX).min(queue.len())];
        ObservedResource {
            position,
            resource: Keyed::of(line.resource.kind(), name),
            capacity: line.capacity,
            configured: *configured,
            in_use: line.in_use,
            waiting: line.waiting,
            state: line.state.as_str(),
            latest_token: latest_token.0,
            label: line.label.as_deref(),
            paused: May(line.pause.as_deref().map(Paused::of)),
            out_of_service: May(fittings::out_of_service(out_of_service)),
            truncated: holders.len() < line.in_use as usize || queue.len() < line.waiting as usize,
            holders: holders.iter().map(ObservedHolder::of).collect(),
            queue: (1..).zip(queue).map(|(place, waiter)| ObservedWaiter::of(place, waiter)).collect(),
            history_from_unix: FloatSeconds(history_from.0),
        }
    }
}

impl<'a> ObservedHolder<'a> {
    fn of(holder: &'a HolderLine) -> Self {
        let HolderLine { slot, token, client, holder: named, owner, claim, since, .. } = holder;
        let HolderLine { held_us, ttl_us, remaining_us, metadata, state, .. } = holder;
        let (state, grace_us) = match state {
            HolderState::Active => ("active", None),
            HolderState::Grace { remaining_us } => ("grace", Some(*remaining_us)),
            HolderState::Lapsed => ("lapsed", None),
        };
        ObservedHolder {
            slot: *slot,
            slot_name: May(holder.slot_name.as_deref()),
            token: FencingToken(token.0),
            client: client.as_deref(),
            holder: named.as_deref(),
            owner: owner.as_deref(),
            claim: claim.map(|claim| UuidText(claim.0)),
            since_unix: FloatSeconds(since.0),
            held_s: FloatSeconds(*held_us),
            ttl_s: FloatSeconds(*ttl_us),
            remaining_s: FloatSeconds(*remaining_us),
            metadata: Raw(metadata.as_deref().unwrap_or("null")),
            state,
            grace_remaining_s: grace_us.map(FloatSeconds),
        }
    }
}

impl<'a> ObservedWaiter<'a> {
    fn of(place: u32, waiter: &'a WaiterLine) -> Self {
        let WaiterLine { client, holder, owner, claim, order, waiting_us, eta_us, metadata } = waiter;
        ObservedWaiter {
            place,
            order: *order,
            client: client.as_deref(),
            holder: holder.as_deref(),
            owner: owner.as_deref(),
            claim: claim.map(|claim| UuidText(claim.0)),
            waiting_s: FloatSeconds(*waiting_us),
            eta_s: eta_us.map(FloatSeconds),
            metadata: Raw(metadata.as_deref().unwrap_or("null")),
        }
    }
}

/// About how long a line about a holder or a waiter is.
fn detail_len(texts: [&Option<Arc<str>>; 4]) -> usize {
    360 + texts.into_iter().flatten().map(|text| text.len()).sum::<usize>()
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
    let resource = resolve(observer, driver, key).await?;
    let partitions = driver.partitions_of(resource.as_ref());
    let key = resource.map_or_else(|| key.clone(), PublicKey::Named);
    let is_about_it = |happened: &Happened| key.is_of(&happened.effect.resource, digester);
    let Past { events, complete_since } = observer.events.past(partitions, query.since, query.limit, is_about_it);
    let names: Vec<_> = events.iter().map(|placed| public_name(&placed.happened.effect.resource, digester)).collect();
    let events = events.iter().zip(&names).map(|(placed, name)| Event::of(placed, name)).collect();
    let body = to_bytes(&History { events, complete_since_unix: FloatSeconds(complete_since.0) });
    Ok(response::json(StatusCode::OK, id, body))
}
