//! Claims and claimed resources as JSON: the shapes of answers, from which their bytes and their schemas come.

use leasehold_engine::{ClaimId, ClaimStatus, ClaimView, Ending, ResourceView, Time};
use schemars::JsonSchema;
use serde::Serialize;

use crate::code::Code;
use crate::faces::ended;
use crate::faces::fittings::{Fittings, Paused, SlotGranted};
use crate::faces::terms::Terms;
use crate::http::json::value::{FencingToken, FloatSeconds, May, Raw, Rfc3339, UuidText};

pub(super) const STATUSES: [&str; 7] = ["waiting", "active", "expired", "released", "revoked", "aborted", "withdrawn"];

/// A claim, one of a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ClaimListed<'a> {
    id: UuidText,
    #[schemars(extend("format" = "uri"))]
    url: String,
    resource: &'a str,
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    created: Rfc3339,
    /// Seconds it has once it is active.
    timeout: FloatSeconds,
    /// Seconds left, while it is active.
    #[serde(skip_serializing_if = "May::is_missing")]
    ttl: May<FloatSeconds>,
    /// As it was given.
    metadata: Raw<'a>,
    /// The same under its other name.
    user_data: Raw<'a>,
    /// The caller that made it, where callers sign on.
    #[serde(skip_serializing_if = "May::is_missing")]
    owner: May<&'a str>,
    /// Seconds it waited, or has waited so far.
    waiting_duration: FloatSeconds,
    /// Seconds it was active, if it ever was.
    #[serde(skip_serializing_if = "May::is_missing")]
    active_duration: May<FloatSeconds>,
    status_history: Vec<StatusChange>,
    #[serde(skip_serializing_if = "May::is_missing")]
    token: May<FencingToken>,
    /// While it waits; 1 is next.
    #[serde(skip_serializing_if = "May::is_missing")]
    #[schemars(range(min = 1))]
    queue_position: May<u32>,
    /// While it waits: what it waits for, the first 16 by slot.
    #[serde(skip_serializing_if = "May::is_missing")]
    holders: May<Vec<ClaimHolder>>,
    /// While it waits, where not all holders are shown: how many there are.
    #[serde(skip_serializing_if = "May::is_missing")]
    holders_in_all: May<u32>,
    /// While it waits: seconds until it may expect to be active. An estimate, not a promise; null while too few claims
    /// have ended to tell, and while nothing is granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    eta_s: May<Option<FloatSeconds>>,
    /// While it waits: seconds without a question after which it is withdrawn, if it was made so.
    #[serde(skip_serializing_if = "May::is_missing")]
    wait_ttl: May<FloatSeconds>,
    /// Until its grant is confirmed: seconds that it lasts without, if it was made so.
    #[serde(skip_serializing_if = "May::is_missing")]
    confirm: May<FloatSeconds>,
    /// While it waits and nothing is granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
    /// While it is active: its slot, where the slots of the resource have names.
    #[serde(skip_serializing_if = "May::is_missing")]
    slot: May<SlotGranted<'a>>,
}

impl<'a> ClaimListed<'a> {
    pub(super) fn of(base_url: &str, view: &'a ClaimView) -> Self {
        // Under both names: callers of the deployed service look for the second.
        let metadata = Raw(view.metadata.as_deref().unwrap_or("null"));
        let waits = view.queue_position.is_some();
        let some = |us: u64| Some(us).filter(|&us| us > 0).map(FloatSeconds);
        let holders_in_all = Some(view.holders_in_all).filter(|&all| waits && all as usize > view.holders.len());
        ClaimListed {
            id: UuidText(view.id.0),
            url: claim_url(base_url, view.id),
            resource: &view.resource,
            status: status_name(view.status),
            created: Rfc3339(view.history.created.0),
            timeout: FloatSeconds(view.timeout_us),
            ttl: May(view.ttl_us.map(FloatSeconds)),
            metadata,
            user_data: metadata,
            owner: May(view.owner.as_deref()),
            waiting_duration: FloatSeconds(view.waiting_us),
            active_duration: May(view.active_us.map(FloatSeconds)),
            status_history: history(view),
            token: May(view.token.map(|token| FencingToken(token.0))),
            queue_position: May(view.queue_position),
            holders: May(waits.then(|| holders(&view.holders))),
            holders_in_all: May(holders_in_all),
            eta_s: May(waits.then(|| view.eta_us.map(FloatSeconds))),
            wait_ttl: May(some(view.wait_ttl_us)),
            confirm: May(some(view.confirm_us)),
            paused: May(view.pause.as_deref().map(Paused::of)),
            slot: May(slot(view).map(SlotGranted::without_data)),
        }
    }
}

/// The answer to a call about a claim. Lists leave out the terms: they are for its holder.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Claim<'a> {
    #[serde(flatten)]
    claim: ClaimListed<'a>,
    #[serde(flatten)]
    terms: Option<Terms>,
}

impl<'a> Claim<'a> {
    pub(super) fn of(base_url: &str, view: &'a ClaimView, asked_at: Time, clamped: bool) -> Self {
        let terms = |ttl_us| Terms::new(asked_at, view.now, view.now.plus(ttl_us), clamped);
        let claim = ClaimListed { slot: May(slot(view)), ..ClaimListed::of(base_url, view) };
        Claim { claim, terms: view.ttl_us.map(terms) }
    }
}

fn slot(view: &ClaimView) -> Option<SlotGranted<'_>> {
    view.slot.as_deref().map(|slot| SlotGranted::of(slot.number, &slot.named))
}

/// About how long a claim is.
pub(super) fn claim_len(view: &ClaimView) -> usize {
    let metadata_len = view.metadata.as_ref().map_or(4, |metadata| metadata.len());
    720 + view.resource.len()
        + 2 * metadata_len
        + view.owner.as_ref().map_or(0, |owner| owner.len())
        + view.pause.as_ref().map_or(0, |pause| 128 + pause.reason.len())
        + view.slot.as_ref().map_or(0, |slot| 48 + slot.named.name.len())
        + view.holders.len() * HOLDER_LEN
}

/// About how long one line about a holder or a waiter is.
const HOLDER_LEN: usize = 88;

pub(super) fn claim_url(base_url: &str, claim: ClaimId) -> String {
    format!("{base_url}/v1/claims/{}/", uuid::Uuid::from_u128(claim.0))
}

/// A status that a claim came to have.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StatusChange {
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    timestamp: Rfc3339,
}

fn history(view: &ClaimView) -> Vec<StatusChange> {
    let history = &view.history;
    // Every claim enters the queue, also one that is active at once.
    let waiting = Some(("waiting", history.created));
    let active = history.active.map(|wall| ("active", wall));
    let ended = history.ended.map(|(how, wall)| (ending_name(how), wall));
    let changes = [waiting, active, ended].into_iter().flatten();
    changes.map(|(status, wall)| StatusChange { status, timestamp: Rfc3339(wall.0) }).collect()
}

/// A named resource, its holders and its queue.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Resource<'a> {
    name: &'a str,
    /// How many claims may be active at once.
    capacity: u32,
    in_use: u32,
    waiting: u32,
    /// A note for people, if it has one.
    #[serde(skip_serializing_if = "May::is_missing")]
    label: May<&'a str>,
    #[serde(flatten)]
    fittings: Fittings<'a>,
    /// The active claims, at most 1000 by slot.
    holders: Vec<ClaimHolder>,
    /// The first of the waiting claims, next one first.
    queue: Vec<ClaimHolder>,
}

impl<'a> Resource<'a> {
    pub(super) fn of(view: &'a ResourceView) -> Self {
        Resource {
            name: view.resource.name().expect("a claimed resource has a name"),
            capacity: view.capacity,
            in_use: view.in_use,
            waiting: view.waiting,
            label: May(view.label.as_deref()),
            fittings: Fittings::of(view.fittings.as_deref()),
            holders: holders(&view.holders),
            queue: holders(&view.queue),
        }
    }
}

/// About how long a resource is.
pub(super) fn resource_len(view: &ResourceView) -> usize {
    let texts = [view.resource.name(), view.label.as_ref()].into_iter().flatten().map(|text| text.len());
    let fittings = view.fittings.as_ref().map_or(0, |fittings| {
        let pause = fittings.pause.as_ref().map_or(0, |pause| 128 + pause.reason.len());
        pause + fittings.out_of_service.iter().map(|out| 96 + out.reason.len()).sum::<usize>()
    });
    128 + fittings + texts.sum::<usize>() + (view.holders.len() + view.queue.len()) * HOLDER_LEN
}

/// A claim that holds a resource, or waits for it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ClaimHolder {
    /// A claim.
    id: UuidText,
    /// Since when it is active, or waits.
    since: Rfc3339,
}

fn holders(holders: &[leasehold_engine::Holder]) -> Vec<ClaimHolder> {
    holders.iter().map(|holder| ClaimHolder { id: UuidText(holder.claim.0), since: Rfc3339(holder.since.0) }).collect()
}

/// The claim is not in a status in which this can be done.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ClaimConflict<'a> {
    error: &'a str,
    #[schemars(extend("enum" = [Code::Waiting.as_str(), Code::Ended.as_str()]))]
    code: &'static str,
    #[schemars(extend("enum" = STATUSES))]
    status: &'static str,
    /// How it ended, if it has.
    #[serde(skip_serializing_if = "May::is_missing")]
    #[schemars(extend("enum" = ended::WORDS))]
    ended: May<&'static str>,
}

impl<'a> ClaimConflict<'a> {
    pub(super) fn waits(error: &'a str) -> Self {
        ClaimConflict { error, code: Code::Waiting.as_str(), status: "waiting", ended: May(None) }
    }

    pub(super) fn ended(error: &'a str, how: Ending) -> Self {
        let ended = May(Some(ended::word(how)));
        ClaimConflict { error, code: Code::Ended.as_str(), status: ending_name(how), ended }
    }
}

pub(super) fn status_name(status: ClaimStatus) -> &'static str {
    match status {
        ClaimStatus::Waiting => "waiting",
        ClaimStatus::Active => "active",
        ClaimStatus::Ended(how) => ending_name(how),
    }
}

pub(super) fn ending_name(how: Ending) -> &'static str {
    match how {
        Ending::Released => "released",
        Ending::Expired => "expired",
        Ending::Revoked => "revoked",
        Ending::Aborted => "aborted",
        Ending::Withdrawn | Ending::HandedBack | Ending::TimedOut | Ending::Deleted | Ending::Superseded => "withdrawn",
    }
}
