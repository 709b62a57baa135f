//! Answers in `FleetLock`'s words: `kind` for programs, `value` for people.

use http::{Response, StatusCode};
use leasehold_engine::{ClaimView, HoldingView};

use schemars::JsonSchema;
use serde::Serialize;

use crate::faces::{Envelope, fittings};
use crate::http::json::value::{FencingToken, May};
use crate::http::json::{Object, to_bytes};
use crate::http::{Body, RequestId};
use crate::response;

/// Every slot of the group is taken.
pub(super) const FULL: &str = "failed_lock_semaphore_full";

/// Tells whether a machine has a slot.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FleetLockSlot {
    held: bool,
    #[serde(skip_serializing_if = "May::is_missing")]
    token: May<FencingToken>,
}

/// A request that failed, in the words of the protocol.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FleetLockError<'a> {
    /// The error, for programs.
    kind: &'a str,
    /// The error, for people.
    value: &'a str,
}

pub(super) fn failed(status: StatusCode, kind: &str, value: &str, id: &RequestId) -> Response<Body> {
    response::json(status, id, to_bytes(&FleetLockError { kind, value }))
}

pub(super) fn holds(view: &ClaimView, envelope: &Envelope<'_>) -> Response<Body> {
    slot(&FleetLockSlot { held: true, token: May(view.token.map(|token| FencingToken(token.0))) }, envelope)
}

pub(super) fn steady(envelope: &Envelope<'_>) -> Response<Body> {
    slot(&FleetLockSlot { held: false, token: May(None) }, envelope)
}

fn slot(slot: &FleetLockSlot, envelope: &Envelope<'_>) -> Response<Body> {
    envelope.positioned(response::json(StatusCode::OK, envelope.id, to_bytes(slot)))
}

/// `1 of 1 reboot slots taken, by node-7 for 12 min`
pub(super) fn full(view: &HoldingView) -> String {
    let HoldingView { in_use, capacity, holder, pause, .. } = view;
    if let Some(pause) = pause {
        return format!("reboots are {}", fittings::sentence(pause));
    }
    let taken = format!("{in_use} of {capacity} reboot slots taken");
    let Some(holder) = holder else { return taken };
    let whose = if *in_use > 1 { "the first by" } else { "by" };
    format!("{taken}, {whose} {} for {}", name(holder), span(holder.active_us.unwrap_or(0)))
}

/// The machine, or the owner of a claim that no machine made.
fn name(holder: &ClaimView) -> String {
    let metadata = holder.metadata.as_deref().unwrap_or("null");
    let machine =
        Object::parse(metadata.as_bytes()).ok().and_then(|it| it.string("id", 1..=usize::MAX).ok()?.map(Into::into));
    machine.or_else(|| holder.owner.as_deref().map(str::to_owned)).unwrap_or_else(|| "a claim of Leasehold".to_owned())
}

fn span(us: u64) -> String {
    let s = us / 1_000_000;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min", s / 60),
        7_200..172_800 => format!("{} h", s / 3_600),
        _ => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (s, expected) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7_199, "119 min"),
            (7_200, "2 h"),
            (172_799, "47 h"),
            (172_800, "2 days"),
        ] {
            assert_eq!(span(s * 1_000_000 + 999_999), expected);
        }
    }
}
