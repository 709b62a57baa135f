//! Claims and claimed resources as JSON.

use leasehold_engine::{ClaimId, ClaimStatus, ClaimView, Ending, Holder, ResourceView, Time};

use crate::faces::terms::Terms;
use crate::http::json::write::{Object, array};

/// The answer to a call about this claim. Lists leave out the terms: they are for its holder.
pub(super) fn claim(base_url: &str, view: &ClaimView, asked_at: Time, clamped: bool) -> Vec<u8> {
    let mut object = Object::new();
    write_claim(&mut object, base_url, view);
    if let Some(ttl_us) = view.ttl_us {
        Terms { asked_at, now: view.now, deadline: view.now.plus(ttl_us), clamped }.write(&mut object);
    }
    object.end()
}

/// One of a list.
pub(super) fn write_listed(object: &mut Object, base_url: &str, view: &ClaimView) {
    write_claim(object, base_url, view);
}

/// About how long a claim is.
pub(super) fn claim_len(view: &ClaimView) -> usize {
    let metadata_len = view.metadata.as_ref().map_or(4, |metadata| metadata.len());
    640 + view.resource.len()
        + 2 * metadata_len
        + view.owner.as_ref().map_or(0, |owner| owner.len())
        + view.holders.len() * HOLDER_LEN
}

/// About how long one line about a holder or a waiter is.
const HOLDER_LEN: usize = 88;

pub(super) fn claim_url(base_url: &str, claim: ClaimId) -> String {
    format!("{base_url}/v1/claims/{}/", uuid::Uuid::from_u128(claim.0))
}

fn write_claim(object: &mut Object, base_url: &str, view: &ClaimView) {
    object
        .uuid("id", view.id.0)
        .string("url", &claim_url(base_url, view.id))
        .string("resource", &view.resource)
        .string("status", status_name(view.status))
        .time("created", view.history.created.0)
        .float_seconds("timeout", view.timeout_us);
    if let Some(ttl_us) = view.ttl_us {
        object.float_seconds("ttl", ttl_us);
    }
    // Under both names: callers of the deployed service look for the second.
    let metadata = view.metadata.as_deref().unwrap_or("null");
    object.raw("metadata", metadata).raw("user_data", metadata);
    if let Some(owner) = &view.owner {
        object.string("owner", owner);
    }
    object.float_seconds("waiting_duration", view.waiting_us);
    if let Some(active_us) = view.active_us {
        object.float_seconds("active_duration", active_us);
    }
    write_history(object, view);
    if let Some(token) = view.token {
        object.integer("token", token.0);
    }
    if let Some(position) = view.queue_position {
        object.integer("queue_position", position.into());
        write_holders(object, "holders", &view.holders);
        if view.holders_in_all as usize > view.holders.len() {
            object.integer("holders_in_all", view.holders_in_all.into());
        }
    }
}

fn write_history(object: &mut Object, view: &ClaimView) {
    let history = &view.history;
    // Every claim enters the queue, also one that is active at once.
    let waiting = Some(("waiting", history.created));
    let active = history.active.map(|wall| ("active", wall));
    let ended = history.ended.map(|(how, wall)| (ending_name(how), wall));
    let entries: Vec<_> = [waiting, active, ended].into_iter().flatten().collect();
    let json = array(&entries, |object, (status, wall)| {
        object.string("status", status).time("timestamp", wall.0);
    });
    object.name("status_history").extend_from_slice(&json);
}

pub(super) fn resource(view: &ResourceView) -> Vec<u8> {
    let mut object = Object::new();
    write_resource(&mut object, view);
    object.end()
}

/// About how long a resource is.
pub(super) fn resource_len(view: &ResourceView) -> usize {
    128 + view.resource.name().map_or(0, |name| name.len()) + (view.holders.len() + view.queue.len()) * HOLDER_LEN
}

pub(super) fn write_resource(object: &mut Object, view: &ResourceView) {
    object
        .string("name", view.resource.name().expect("a claimed resource has a name"))
        .integer("capacity", view.capacity.into())
        .integer("in_use", view.in_use.into())
        .integer("waiting", view.waiting.into());
    write_holders(object, "holders", &view.holders);
    write_holders(object, "queue", &view.queue);
}

fn write_holders(object: &mut Object, name: &str, holders: &[Holder]) {
    let json = array(holders, |object, holder| {
        object.uuid("id", holder.claim.0).time("since", holder.since.0);
    });
    object.name(name).extend_from_slice(&json);
}

pub(super) fn deleted(was_there: bool) -> Vec<u8> {
    let mut object = Object::new();
    object.boolean("deleted", was_there);
    object.end()
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
