//! Events as text: the lines of a stream, and the JSON in them, which histories show too.

use std::io::Write as _;
use std::sync::Arc;

use leasehold_engine::{Effect, Ending, Grant, Kind, Names, What};
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::json::append;
use crate::http::json::value::{FencingToken, FloatSeconds, May, UuidText};
use crate::limits::HEARTBEAT;
use crate::watch::Placed;
use crate::watch::bookmark::Bookmark;
use crate::watch::digest::Digester;
use crate::watch::key::{Keyed, public_name};

/// The place of a reader or of an event. With several partitions, each place has the number of its partition before it.
pub(super) const ID_PATTERN: &str = r"^([0-9]{1,4}:)?[0-9]{1,18}\.[0-9]{1,18}(,[0-9]{1,4}:[0-9]{1,18}\.[0-9]{1,18})*$";

/// How soon a browser is to come back, in milliseconds.
const RETRY_MS: u32 = 1_000;

/// The last thing a reader hears when the service stops. A comment, as later events do not concern it.
pub(super) const GOODBYE: &[u8] = b": shutting down\n\n";

/// The first thing a reader hears.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StreamHello {
    /// The newest event there is.
    #[schemars(extend("pattern" = ID_PATTERN, "examples" = ["1.42"]))]
    position: String,
    /// The oldest event that a reader can resume from.
    #[schemars(extend("pattern" = ID_PATTERN, "examples" = ["1.1"]))]
    oldest_id: String,
    /// A reader hears something at least this often.
    heartbeat_s: u64,
}

/// Something may have been missed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StreamGap<'a> {
    reason: &'a str,
    /// The oldest event that a reader can resume from; the stream goes on there.
    #[schemars(extend("pattern" = ID_PATTERN, "examples" = ["1.1"]))]
    oldest_id: String,
}

/// The last thing a reader hears that was too slow.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StreamLagging {
    error: &'static str,
    /// The last event that the reader was sent.
    #[schemars(extend("pattern" = ID_PATTERN, "examples" = ["1.42"]))]
    resume_from: String,
}

/// The last thing a reader hears that would not be let in any more.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct StreamSignedOut<'a> {
    error: &'a str,
}

/// The names of the events that are about the stream itself.
pub(super) const HELLO: &str = "hello";
pub(super) const GAP: &str = "gap";
pub(super) const LAGGING: &str = "lagging";
pub(super) const SIGNED_OUT: &str = "signed-out";

/// Its id is where the reader goes on from, so that it can also resume when nothing else comes.
pub(super) fn hello(from: &Bookmark, newest: &Bookmark, oldest: &Bookmark) -> Vec<u8> {
    let (position, oldest_id) = (newest.to_string(), oldest.to_string());
    let hello = StreamHello { position, oldest_id, heartbeat_s: HEARTBEAT.as_secs() };
    let mut frame = format!("retry: {RETRY_MS}\n").into_bytes();
    write_frame(&mut frame, Some(from), HELLO, &hello);
    frame
}

pub(super) fn gap(frame: &mut Vec<u8>, reason: &str, oldest: &Bookmark) {
    write_frame(frame, Some(oldest), GAP, &StreamGap { reason, oldest_id: oldest.to_string() });
}

pub(super) fn lagging(sent: &Bookmark) -> Vec<u8> {
    let error = "too slow: events were dropped that had not been read yet";
    let mut frame = Vec::new();
    // Without an id, so that a reader that comes back names the last event it saw.
    write_frame(&mut frame, None, LAGGING, &StreamLagging { error, resume_from: sent.to_string() });
    frame
}

pub(super) fn signed_out(error: &str) -> Vec<u8> {
    let mut frame = Vec::new();
    write_frame(&mut frame, None, SIGNED_OUT, &StreamSignedOut { error });
    frame
}

/// An id without data is no event; it only moves where the reader would resume.
pub(super) fn heartbeat(sent: &Bookmark) -> Vec<u8> {
    format!(": still here\nid: {sent}\n\n").into_bytes()
}

/// `sent` is where its reader would go on after it.
pub(super) fn event(frame: &mut Vec<u8>, placed: &Placed, sent: &Bookmark, digester: &Digester) {
    let resource = public_name(&placed.happened.effect.resource, digester);
    let event = Event::of(placed, &resource);
    write_frame(frame, Some(sent), event.what, &event);
}

fn write_frame(frame: &mut Vec<u8>, id: Option<&Bookmark>, event: &str, data: &impl Serialize) {
    if let Some(id) = id {
        writeln!(frame, "id: {id}").expect("memory takes it");
    }
    write!(frame, "event: {event}\ndata: ").expect("memory takes it");
    // JSON in one line: strings in it have their line breaks escaped.
    append(frame, data);
    frame.extend_from_slice(b"\n\n");
}

/// The names of events, each once: for what happened, and in the list of all.
macro_rules! event_names {
    ($($what:pat => $name:literal,)+) => {
        fn name(what: &What) -> &'static str {
            match what {
                $($what => $name,)+
                What::Ended { how, .. } => how.as_str(),
            }
        }

        /// Every name that an event may have.
        pub(super) fn event_names() -> Vec<&'static str> {
            [$($name),+].into_iter().chain(Ending::ALL.map(Ending::as_str)).collect()
        }
    };
}

event_names! {
    What::Granted { .. } => "granted",
    What::Queued => "waiting",
    What::Renewed { .. } => "renewed",
    What::GraceBegan { .. } => "grace",
    What::GraceOver => "lapsed",
    What::Configured { .. } => "configured",
    What::Unconfigured => "unconfigured",
    What::Paused { .. } => "paused",
    What::Resumed { .. } => "resumed",
    What::SlotServed { out: Some(_), .. } => "out_of_service",
    What::SlotServed { out: None, .. } => "in_service",
}

/// Something that happened. Members but `reason` are always there, so that a reader need not ask which.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Event<'a> {
    #[schemars(extend("pattern" = ID_PATTERN, "examples" = ["1.42"]))]
    id: String,
    at_unix: FloatSeconds,
    #[serde(rename = "event")]
    #[schemars(extend("enum" = event_names()))]
    what: &'static str,
    #[serde(flatten)]
    resource: Keyed<'a>,
    client: Option<&'a str>,
    /// The name that a pool's borrower gave itself.
    holder: Option<&'a str>,
    /// The name that its caller signed on with.
    owner: Option<&'a str>,
    /// The name that a pool was given in place of its id.
    label: Option<&'a str>,
    claim: Option<UuidText>,
    slot: Option<u32>,
    token: Option<FencingToken>,
    waited_s: Option<FloatSeconds>,
    held_s: Option<FloatSeconds>,
    capacity: Option<u32>,
    /// The client that let the lock lapse.
    from: Option<&'a str>,
    /// Of a pause: how long it lasts unless it is ended before; null until then.
    ttl_s: Option<FloatSeconds>,
    /// Why a resource was paused, or a slot taken out of service.
    #[serde(skip_serializing_if = "May::is_missing")]
    reason: May<&'a str>,
}

impl<'a> Event<'a> {
    /// The resource goes by its public name.
    pub(super) fn of(placed: &'a Placed, resource: &'a str) -> Self {
        let happened = &placed.happened;
        let Effect { resource: key, claim, client, names, grant, what, nth: _ } = &happened.effect;
        let named = |pick: fn(&Names) -> &Option<Arc<str>>| names.as_deref().and_then(|names| pick(names).as_deref());
        let kind = key.kind();
        let mut event = Event {
            id: placed.mark().to_string(),
            at_unix: FloatSeconds(happened.wall.0),
            what: name(what),
            resource: Keyed::of(kind, resource),
            client: client.as_deref(),
            holder: named(|names| &names.holder),
            // A lock's client has any name that it likes; elsewhere it is the name that its caller signed on with.
            owner: if kind == Kind::Lock { named(|names| &names.principal) } else { client.as_deref() },
            label: named(|names| &names.label),
            // A lease's id is a secret, and a lock's is of no use to a reader.
            claim: claim.filter(|_| kind == Kind::Claim).map(|claim| UuidText(claim.0)),
            slot: grant.map(|Grant { slot, .. }| slot),
            token: grant.map(|Grant { token, .. }| FencingToken(token.0)),
            waited_s: None,
            held_s: None,
            capacity: None,
            from: None,
            ttl_s: None,
            reason: May(None),
        };
        match what {
            What::Configured { capacity } => event.capacity = Some(*capacity),
            What::Paused { reason, for_us } => {
                event.reason = May(Some(reason));
                event.ttl_s = for_us.map(FloatSeconds);
            }
            What::Resumed { paused_us } => event.held_s = Some(FloatSeconds(*paused_us)),
            What::SlotServed { slot, out } => {
                event.slot = Some(*slot);
                event.reason = May(out.as_deref());
            }
            What::Unconfigured | What::Queued | What::GraceOver => {}
            What::Granted { waited_us, ttl_us, from } => {
                event.waited_s = Some(FloatSeconds(*waited_us));
                event.ttl_s = Some(FloatSeconds(*ttl_us));
                event.from = from.as_deref();
            }
            What::Renewed { held_us, ttl_us } => {
                event.held_s = Some(FloatSeconds(*held_us));
                event.ttl_s = Some(FloatSeconds(*ttl_us));
            }
            What::GraceBegan { held_us } => event.held_s = Some(FloatSeconds(*held_us)),
            What::Ended { how: _, held_us, late_us: _ } => event.held_s = held_us.map(FloatSeconds),
        }
        event
    }
}

/// The past of a resource.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct History<'a> {
    pub(super) events: Vec<Event<'a>>,
    /// Nothing that happened since then is missing.
    pub(super) complete_since_unix: FloatSeconds,
}

#[cfg(test)]
mod tests {
    use leasehold_journal::{Epoch, Position};
    use serde_json::Value;

    use super::*;
    use crate::openapi::Schema;
    use crate::watch::bookmark::EventPlace;
    use crate::watch::ring::EventId;

    fn assert_fits<T: JsonSchema>(frame: &[u8], event: &str) {
        let text = std::str::from_utf8(frame).unwrap();
        assert!(text.contains(&format!("event: {event}\n")), "{text}");
        let (_, data) = text.split_once("data: ").unwrap();
        let data: Value = serde_json::from_str(data.trim_end()).unwrap();
        let (name, schema) = Schema::shape::<T>();
        let schema = schema.and_no_other().into();
        let faults: Vec<String> =
            jsonschema::validator_for(&schema).unwrap().iter_errors(&data).map(|fault| fault.to_string()).collect();
        assert!(faults.is_empty(), "{data} is no {name}: {faults:?}");
    }

    #[test]
    fn what_a_reader_hears_of_the_stream_itself_fits_the_document() {
        let place = |partition, position| EventPlace {
            partition,
            id: EventId { epoch: Epoch(3), position: Position(position) },
        };
        for bookmark in [Bookmark(vec![place(None, 41)]), Bookmark(vec![place(Some(0), 41), place(Some(1), 7)])] {
            assert_fits::<StreamHello>(&hello(&bookmark, &bookmark, &bookmark), HELLO);
            let mut frame = Vec::new();
            gap(&mut frame, "it is long ago", &bookmark);
            assert_fits::<StreamGap<'_>>(&frame, GAP);
            assert_fits::<StreamLagging>(&lagging(&bookmark), LAGGING);
        }
        assert_fits::<StreamSignedOut<'_>>(&signed_out("the token has expired"), SIGNED_OUT);
    }
}
