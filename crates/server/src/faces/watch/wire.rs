//! Events as text: the lines of a stream, and the JSON in them, which histories show too.

use std::io::Write as _;

use leasehold_engine::{Effect, Grant, Kind, What};
use leasehold_journal::Happened;

use super::reader::HEARTBEAT;

use crate::http::json::write::Object;
use crate::watch::digest::Digester;
use crate::watch::key::{public_name, write_key};
use crate::watch::ring::EventId;

/// How soon a browser is to come back, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// The last thing a reader hears when the service stops. A comment, as later events do not concern it.
pub(super) const GOODBYE: &[u8] = b": shutting down\n\n";

/// The first thing a reader hears. Its id is where it goes on from, so that it can also resume when nothing else comes.
pub(super) fn hello(from: EventId, newest: EventId, oldest: EventId) -> Vec<u8> {
    let mut object = Object::new();
    object
        .string("position", &newest.to_string())
        .string("oldest_id", &oldest.to_string())
        .integer("heartbeat_s", HEARTBEAT.as_secs());
    let mut frame = format!("retry: {RETRY_MS}\n").into_bytes();
    write_frame(&mut frame, Some(from), "hello", &object.end());
    frame
}

/// Something may have been missed.
pub(super) fn gap(frame: &mut Vec<u8>, reason: &str, oldest: EventId) {
    let mut object = Object::new();
    object.string("reason", reason).string("oldest_id", &oldest.to_string());
    write_frame(frame, Some(oldest), "gap", &object.end());
}

/// The last thing a reader hears that was too slow.
pub(super) fn lagging(sent: EventId) -> Vec<u8> {
    let mut object = Object::new();
    object
        .string("error", "too slow: events were dropped that had not been read yet")
        .string("resume_from", &sent.to_string());
    let mut frame = Vec::new();
    // Without an id, so that a reader that comes back names the last event it saw.
    write_frame(&mut frame, None, "lagging", &object.end());
    frame
}

/// The last thing a reader hears that would not be let in any more.
pub(super) fn signed_out(reason: &str) -> Vec<u8> {
    let mut object = Object::new();
    object.string("error", reason);
    let mut frame = Vec::new();
    write_frame(&mut frame, None, "signed-out", &object.end());
    frame
}

/// An id without data is no event; it only moves where the reader would resume.
pub(super) fn heartbeat(sent: EventId) -> Vec<u8> {
    format!(": still here\nid: {sent}\n\n").into_bytes()
}

pub(super) fn event(frame: &mut Vec<u8>, happened: &Happened, digester: &Digester) {
    let mut object = Object::new();
    write_event(&mut object, happened, digester);
    write_frame(frame, Some(EventId::of(happened)), name(&happened.effect.what), &object.end());
}

fn write_frame(frame: &mut Vec<u8>, id: Option<EventId>, event: &str, data: &[u8]) {
    if let Some(id) = id {
        writeln!(frame, "id: {id}").expect("memory takes it");
    }
    write!(frame, "event: {event}\ndata: ").expect("memory takes it");
    // JSON in one line: strings in it have their line breaks escaped.
    frame.extend_from_slice(data);
    frame.extend_from_slice(b"\n\n");
}

fn name(what: &What) -> &'static str {
    match what {
        What::Configured { .. } => "configured",
        What::Unconfigured => "unconfigured",
        What::Queued => "waiting",
        What::Granted { .. } => "granted",
        What::Renewed { .. } => "renewed",
        What::GraceBegan { .. } => "grace",
        What::GraceOver => "lapsed",
        What::Ended { how, .. } => how.as_str(),
    }
}

/// The members of an event. All of them are always there, so that a reader need not ask which.
pub(crate) fn write_event(object: &mut Object, happened: &Happened, digester: &Digester) {
    let Effect { resource, claim, client, grant, what, nth: _ } = &happened.effect;
    let kind = resource.kind();
    object
        .string("id", &EventId::of(happened).to_string())
        .float_seconds("at_unix", happened.wall.0)
        .string("event", name(what));
    write_key(object, kind, &public_name(resource, digester));
    object.optional_string("client", client.as_deref());
    match claim {
        // A lease's id is a secret, and a lock's is of no use to a reader.
        Some(claim) if kind == Kind::Claim => object.uuid("claim", claim.0),
        _ => object.null("claim"),
    };
    object
        .optional_integer("slot", grant.map(|Grant { slot, .. }| slot.into()))
        .optional_integer("token", grant.map(|Grant { token, .. }| token.0));
    let mut told = Told::default();
    match what {
        What::Configured { capacity } => told.capacity = Some(u64::from(*capacity)),
        What::Unconfigured | What::Queued | What::GraceOver => {}
        What::Granted { waited_us, ttl_us, from } => {
            told.waited_us = Some(*waited_us);
            told.ttl_us = Some(*ttl_us);
            told.from = from.as_deref();
        }
        What::Renewed { held_us, ttl_us } => {
            told.held_us = Some(*held_us);
            told.ttl_us = Some(*ttl_us);
        }
        What::GraceBegan { held_us } => told.held_us = Some(*held_us),
        What::Ended { how: _, held_us, late_us: _ } => told.held_us = *held_us,
    }
    object
        .optional_seconds("waited_s", told.waited_us)
        .optional_seconds("held_s", told.held_us)
        .optional_integer("capacity", told.capacity)
        .optional_string("from", told.from)
        .optional_seconds("ttl_s", told.ttl_us);
}

/// The members that only some events have.
#[derive(Default)]
struct Told<'a> {
    waited_us: Option<u64>,
    held_us: Option<u64>,
    capacity: Option<u64>,
    from: Option<&'a str>,
    ttl_us: Option<u64>,
}
