//! The fittings of a resource, in bodies and in answers: pauses, slots out of service, names and data of slots.
//! The same for pools, claimed resources and locks.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use http::StatusCode;
use leasehold_engine::limits::DURATION_MAX_US;
use leasehold_engine::{
    Command, FittingsView, NameSlots, NamedSlot, OutOfServiceView, PauseView, Refusal, ResourceKey,
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{Received, label};
use crate::code::Code;
use crate::http::Problem;
use crate::http::json::value::{FloatSeconds, May, Raw, Rfc3339};
use crate::http::json::{AboveMax, Least, Object, Seconds, shown, to_bytes};
use crate::limits::{NAMED_SLOTS_MAX, REASON_MAX, SLOT_DATA_MAX, SLOT_NAME_MAX};
use crate::openapi::{NamedSchema, Schema};

const FOR: Seconds = Seconds { least: Least::AboveZero, max_us: DURATION_MAX_US, above_max: AboveMax::Refuse };

/// `{"reason", "for"?}`
pub(super) fn pause(received: &Received<'_>, resource: ResourceKey) -> Result<Command, Problem> {
    let body = Object::parse(received.body)?;
    body.refuse_unknown(&["reason", "for"])?;
    let reason = Arc::from(&*body.required_string("reason", 1..=REASON_MAX)?);
    Ok(Command::Pause { resource, reason, for_us: body.seconds("for", FOR)? })
}

/// `{"out_of_service", "reason"}` for the slot in the path.
pub(super) fn serve_slot(received: &Received<'_>, resource: ResourceKey) -> Result<Command, Problem> {
    let slot = received.params.raw("slot");
    let slot = slot.parse::<u32>().map_err(|_| {
        Problem::bad_request(format!("the slot in the path must be a whole number from 0, got {}", shown(slot)))
    })?;
    let body = Object::parse(received.body)?;
    body.refuse_unknown(&["out_of_service", "reason"])?;
    let out = match body.raw("out_of_service") {
        Some("true") => Some(Arc::from(&*body.required_string("reason", 1..=REASON_MAX)?)),
        // A reason is held to its bounds also where it has nothing to say.
        Some("false") if body.has("reason") => body.required_string("reason", 1..=REASON_MAX).map(|_| None)?,
        Some("false") => None,
        _ => return Err(Problem::about("out_of_service", "out_of_service is required and must be true or false")),
    };
    Ok(Command::ServeSlot { resource, slot, out })
}

/// A capacity, under the name that it has in this dialect, or names for the slots, or both.
pub(super) fn configure(
    body: &Object<'_>,
    member: &'static str,
    received: &Received<'_>,
    resource: ResourceKey,
) -> Result<Command, Problem> {
    let allowed = 0..=received.settings.count_max;
    let label = label::parse(body)?;
    let slots: Option<Arc<[NamedSlot]>> = match body.raw("slots") {
        None | Some("null") => None,
        Some(raw) => Some(named_slots(raw)?),
    };
    let capacity = match (&slots, body.integer(member, allowed.clone())?) {
        (Some(slots), None) => slots.len() as u64,
        (Some(slots), Some(count)) if count == slots.len() as u64 => count,
        (Some(slots), Some(count)) => {
            let reason = format!("{member} must be the number of slots, {}, or be left out, got {count}", slots.len());
            return Err(Problem::about(member, reason));
        }
        (None, _) => body.required_integer(member, allowed.clone())?,
    };
    if !allowed.contains(&capacity) {
        let reason = format!("slots must be a list of at most {} objects, got {capacity}", allowed.end());
        return Err(Problem::about("slots", reason));
    }
    let capacity = u32::try_from(capacity).expect("the setting is below 2^32");
    Ok(if body.has("slots") {
        Command::NameSlots(Box::new(NameSlots { resource, capacity, slots, label }))
    } else {
        Command::Configure { resource, capacity, label }
    })
}

fn named_slots(raw: &str) -> Result<Arc<[NamedSlot]>, Problem> {
    let wrong = |got: &str| {
        let reason = format!("slots must be null or a list of 1 to {NAMED_SLOTS_MAX} objects, got {got}");
        Problem::about("slots", reason)
    };
    let list: Vec<&RawValue> = serde_json::from_str(raw).map_err(|_| wrong("something else"))?;
    if !(1..=NAMED_SLOTS_MAX).contains(&list.len()) {
        return Err(wrong(&list.len().to_string()));
    }
    let mut slots = Vec::with_capacity(list.len());
    let (mut names, mut data_bytes) = (BTreeSet::new(), 0);
    for raw in list {
        if !raw.get().starts_with('{') {
            return Err(wrong("something else"));
        }
        let slot = Object::parse(raw.get().as_bytes())?;
        slot.refuse_unknown(&["name", "data"])?;
        let name: Arc<str> = Arc::from(&*slot.required_string("name", 1..=SLOT_NAME_MAX)?);
        let data = slot.raw("data").filter(|data| *data != "null");
        data_bytes += data.map_or(0, str::len);
        if !names.insert(Arc::clone(&name)) {
            return Err(Problem::about(
                "slots",
                format!("slots must have different names, {} is there twice", shown(&name)),
            ));
        }
        slots.push(NamedSlot { name, data: data.map(Arc::from) });
    }
    if data_bytes > SLOT_DATA_MAX {
        let reason = format!("the data of all slots has {data_bytes} bytes, at most {SLOT_DATA_MAX} are allowed");
        return Err(Problem::about("slots", reason));
    }
    Ok(slots.into())
}

/// The refusals that only these calls get.
pub(super) fn refused(refusal: &Refusal) -> Option<Problem> {
    Some(match refusal {
        Refusal::NoSuchSlot { capacity } => {
            let reason = match capacity.checked_sub(1) {
                None => "no such slot: there are none".to_owned(),
                Some(last) => format!("no such slot: they have the numbers 0 to {last}"),
            };
            Problem::new(StatusCode::NOT_FOUND, reason).coded(Code::NoSuchSlot)
        }
        Refusal::SlotHeld { slot, name } => {
            let name = name.as_ref().map_or(String::new(), |name| format!(", {},", shown(name)));
            let reason = format!("slot {slot}{name} is held: it keeps its name and its place until it is given back");
            Problem::new(StatusCode::CONFLICT, reason).coded(Code::SlotHeld)
        }
        Refusal::SlotsNamed { capacity } => {
            let reason = format!("{capacity} slots have names: give all of them anew, or \"slots\": null for none");
            Problem::new(StatusCode::CONFLICT, reason).coded(Code::SlotsNamed)
        }
        Refusal::TooManyOutOfService { limit } => {
            let reason = format!("the limit of {limit} slots out of service is reached, a pause is for all of them");
            Problem::new(StatusCode::CONFLICT, reason).coded(Code::Overloaded)
        }
        _ => return None,
    })
}

/// A resource from which nothing is granted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Paused<'a> {
    /// The operator's words.
    reason: Cow<'a, str>,
    since: Rfc3339,
    /// Seconds until it ends by itself; null if it does not.
    resumes_in_s: Option<FloatSeconds>,
}

impl<'a> Paused<'a> {
    pub(super) fn of(view: &'a PauseView) -> Self {
        let reason = if view.is_by_slots {
            format!("every slot is out of service: {}", view.reason).into()
        } else {
            Cow::Borrowed(&*view.reason)
        };
        Paused { reason, since: Rfc3339(view.since.0), resumes_in_s: view.rest_us.map(FloatSeconds) }
    }
}

/// `paused since 2024-01-15T10:30:00Z: new disks`, for people.
pub(super) fn sentence(view: &PauseView) -> String {
    let since = to_bytes(&Rfc3339(view.since.0));
    let since = String::from_utf8_lossy(&since);
    format!("paused since {}: {}", since.trim().trim_matches('"'), Paused::of(view).reason)
}

/// A slot that is not granted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct OutOfService<'a> {
    slot: u32,
    /// The operator's words.
    reason: &'a str,
    since: Rfc3339,
}

/// A slot with a name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct SlotListed<'a> {
    name: &'a str,
    /// As it was given.
    data: Raw<'a>,
}

/// The slot of a lease or claim, where slots have names.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct SlotGranted<'a> {
    /// From 0.
    number: u32,
    name: &'a str,
    /// As the operator gave it. Lists leave it out: it is for the holder.
    #[serde(skip_serializing_if = "May::is_missing")]
    data: May<Raw<'a>>,
}

impl<'a> SlotGranted<'a> {
    pub(super) fn of(number: u32, named: &'a NamedSlot) -> Self {
        SlotGranted { number, name: &named.name, data: May(Some(data(named))) }
    }

    pub(super) fn without_data(self) -> Self {
        SlotGranted { data: May(None), ..self }
    }
}

fn data(named: &NamedSlot) -> Raw<'_> {
    Raw(named.data.as_deref().unwrap_or("null"))
}

/// The fittings of a resource, each where there is some.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Fittings<'a> {
    /// While nothing is granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    paused: May<Paused<'a>>,
    /// Slots that are not granted.
    #[serde(skip_serializing_if = "May::is_missing")]
    out_of_service: May<Vec<OutOfService<'a>>>,
    /// The names and data of the slots, where they have names.
    #[serde(skip_serializing_if = "May::is_missing")]
    slots: May<Vec<SlotListed<'a>>>,
}

impl<'a> Fittings<'a> {
    pub(super) fn of(view: Option<&'a FittingsView>) -> Self {
        let slots = |slots: &'a [NamedSlot]| {
            slots.iter().map(|slot| SlotListed { name: &slot.name, data: data(slot) }).collect::<Vec<_>>()
        };
        Fittings {
            paused: May(view.and_then(|view| view.pause.as_ref()).map(Paused::of)),
            out_of_service: May(view.and_then(|view| out_of_service(&view.out_of_service))),
            slots: May(view.and_then(|view| view.slots.as_deref()).map(slots)),
        }
    }
}

/// The slots that are out of service; `None` where all are in service.
pub(super) fn out_of_service(views: &[OutOfServiceView]) -> Option<Vec<OutOfService<'_>>> {
    let lines = views.iter().map(|OutOfServiceView { slot, reason, since }| OutOfService {
        slot: *slot,
        reason,
        since: Rfc3339(since.0),
    });
    (!views.is_empty()).then(|| lines.collect())
}

/// The end of a pause.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Resumed {
    /// False when there was none.
    pub(super) resumed: bool,
}

/// The bodies of these calls in the OpenAPI document.
pub(super) fn schemas() -> Vec<NamedSchema> {
    let reason = |says: &str| Schema::string().length(1, REASON_MAX).says(format!("{says}, 1 to {REASON_MAX} bytes."));
    vec![
        (
            "PauseRequest".into(),
            Schema::object()
                .member("reason", reason("Why nothing is granted, for people"))
                .maybe(
                    "for",
                    Schema::seconds()
                        .above_zero()
                        .maximum(DURATION_MAX_US / 1_000_000)
                        .or_duration()
                        .says("Seconds of service time after which it ends by itself."),
                )
                .and_no_other(),
        ),
        (
            "SlotService".into(),
            Schema::object()
                .member("out_of_service", Schema::any().with("type", "boolean"))
                .maybe("reason", reason("Why, for people; required with `out_of_service: true`"))
                .with("anyOf", json!([{"properties": {"out_of_service": {"const": false}}}, {"required": ["reason"]}]))
                .and_no_other(),
        ),
        Schema::shape::<Resumed>(),
    ]
}

/// The member `slots` of a body.
pub(super) fn slots_schema() -> Schema {
    let slot = Schema::object()
        .member("name", Schema::string().length(1, SLOT_NAME_MAX).says(format!("1 to {SLOT_NAME_MAX} bytes, unique.")))
        .maybe("data", Schema::any().says("Any JSON for the holder of the slot."))
        .and_no_other();
    let list = Schema::array(slot).with("minItems", 1).with("maxItems", NAMED_SLOTS_MAX);
    Schema::either([list, Schema::any().with("type", "null")]).says(format!(
        "A name and data for each slot, at most {NAMED_SLOTS_MAX}, with at most {} KiB of data in all; the capacity is their \
         number. Without it names stay; null takes them away. A slot that is held keeps its name.",
        SLOT_DATA_MAX / 1024
    ))
}
