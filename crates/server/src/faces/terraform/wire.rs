//! Locks as Terraform reads them: the `LockInfo` of a holder as it was sent, or one made up for a holder that is not
//! Terraform's.

use http::{Response, StatusCode};
use leasehold_engine::limits::DURATION_MAX_US;
use leasehold_engine::{ClaimStatus, ClaimView, Ending, HoldingView, ResourceKey, Token};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::code::Code;
use crate::faces::{Envelope, ended, fittings};
use crate::http::Body;
use crate::http::json::value::{FencingToken, FloatSeconds, May, Rfc3339};
use crate::http::json::{Object, to_bytes};
use crate::response;

/// Members of our own, which replace those of the same name in a `LockInfo`.
const OWN: [&str; 5] = ["token", "expires_in", "waiting", "error", "code"];

/// The longest pause that is asked of a caller that does not get the lock.
const RETRY_MAX_S: u64 = 60;

/// Members that a holder gets beside its own `LockInfo`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct TerraformTaken {
    token: FencingToken,
    /// In how many seconds it expires; null: never.
    expires_in: Option<FloatSeconds>,
}

/// Members that another caller gets beside the `LockInfo` of the holder.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct TerraformHeld<'a> {
    error: &'a str,
    code: Code,
    /// The fencing token of the holder, where there is one.
    #[serde(skip_serializing_if = "May::is_missing")]
    token: May<FencingToken>,
    /// How many wait for it.
    waiting: u32,
}

/// A `LockInfo` for a holder that has none, as Terraform gives up on an answer without an `ID`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "PascalCase")]
#[schemars(extend("additionalProperties" = true))]
pub(super) struct TerraformMadeUp<'a> {
    /// The id of the claim, `pause` where the resource is paused, or `none`.
    #[serde(rename = "ID")]
    id: &'a str,
    operation: &'a str,
    info: &'a str,
    who: &'a str,
    version: &'a str,
    #[serde(skip_serializing_if = "May::is_missing")]
    created: May<Rfc3339>,
    path: &'a str,
}

/// The lock is not held under the caller's ID.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TerraformUnlocked {
    /// False when it was not held before either.
    released: bool,
}

/// The caller's own `LockInfo`, with its terms.
pub(super) fn taken(view: &ClaimView) -> Vec<u8> {
    let expires_in = view.ttl_us.filter(|_| view.timeout_us < DURATION_MAX_US).map(FloatSeconds);
    joined(&info(view), &TerraformTaken { token: token(view), expires_in })
}

pub(super) fn released(released: bool, envelope: &Envelope<'_>) -> Response<Body> {
    envelope.positioned(response::json(StatusCode::OK, envelope.id, to_bytes(&TerraformUnlocked { released })))
}

/// The lock is another's: its `LockInfo`, or one in place of it.
pub(super) fn held(
    status: StatusCode,
    error: &str,
    resource: &ResourceKey,
    view: &HoldingView,
    envelope: &Envelope<'_>,
) -> Response<Body> {
    let (info, token, retry_s) = if let Some(holder) = &view.holder {
        let rest_s = holder.ttl_us.unwrap_or(0).div_ceil(1_000_000);
        (info(holder), Some(token(holder)), rest_s.clamp(1, RETRY_MAX_S))
    } else {
        let path = resource.name().map_or("", |name| name);
        if let Some(pause) = &view.pause {
            let (info, who) = (fittings::sentence(pause), Some("a pause of Leasehold"));
            let rest_s = pause.rest_us.map_or(RETRY_MAX_S, |rest_us| rest_us.div_ceil(1_000_000));
            (made_up("pause", &info, who, Some(pause.since.0), path), None, rest_s.clamp(1, RETRY_MAX_S))
        } else {
            let info = if view.capacity == 0 { "no slot is configured" } else { "free again, ask again" };
            (made_up("none", info, None, None, path), None, 1)
        }
    };
    let held = TerraformHeld { error, code: Code::Locked, token: May(token), waiting: view.waiting };
    let mut response = response::json(status, envelope.id, joined(&info, &held));
    response::set_retry_after(&mut response, retry_s);
    envelope.positioned(response)
}

/// The answer about an ID that neither holds the lock nor waits for it.
pub(super) fn not_held(resource: &ResourceKey, view: &HoldingView, envelope: &Envelope<'_>) -> Response<Body> {
    match (&view.keyed, &view.holder) {
        // It was granted between two looks at it, or waits again: the caller asks again.
        (Some(ClaimView { status: ClaimStatus::Active | ClaimStatus::Waiting, .. }), _) => {
            held(StatusCode::CONFLICT, "the lock of this ID changed just now, ask again", resource, view, envelope)
        }
        (Some(keyed @ ClaimView { status: ClaimStatus::Ended(how), .. }), _) => match how {
            Ending::Released | Ending::Withdrawn | Ending::TimedOut | Ending::HandedBack => released(false, envelope),
            how => over(*how, keyed, view, envelope),
        },
        (None, Some(_)) => held(StatusCode::CONFLICT, "another ID holds the lock", resource, view, envelope),
        (None, None) => {
            let error = "no lock of this ID is held, or remembered";
            ended::answer(StatusCode::CONFLICT, Code::NotHeld, error, None, envelope)
        }
    }
}

/// The caller lost the lock before it gave it back.
fn over(how: Ending, keyed: &ClaimView, view: &HoldingView, envelope: &Envelope<'_>) -> Response<Body> {
    let at = keyed.history.ended.map_or_else(String::new, |(_, wall)| format!(" at {}", written(wall.0)));
    let since = if view.latest > keyed.token.unwrap_or(Token(0)) {
        format!("token {} was granted since", view.latest.0)
    } else {
        "no other was granted since".to_owned()
    };
    let error = format!("the lock of this ID {}{at}, {since}", lost(how));
    ended::answer(StatusCode::CONFLICT, Code::NotHeld, &error, Some(how), envelope)
}

fn written(unix_us: u64) -> String {
    let quoted = to_bytes(&Rfc3339(unix_us));
    String::from_utf8_lossy(&quoted).trim_matches('"').to_owned()
}

fn lost(how: Ending) -> &'static str {
    match how {
        Ending::Expired | Ending::Superseded => "expired",
        _ => "was revoked",
    }
}

/// One JSON object with the members of a `LockInfo` and those of `more`.
fn joined(info: &[u8], more: &impl Serialize) -> Vec<u8> {
    let more = to_bytes(more);
    // Neither is empty: a LockInfo has an ID.
    [&info[..info.len() - 1], b",", &more[1..]].concat()
}

/// A `LockInfo`: the holder's own, or one that says the same of a claim that is not Terraform's.
fn info(view: &ClaimView) -> Vec<u8> {
    let metadata = view.metadata.as_deref().unwrap_or("null");
    let Some(info) = Object::parse(metadata.as_bytes()).ok().filter(is_lock_info) else {
        let text = if metadata == "null" { "" } else { metadata };
        let id = Uuid::from_u128(view.id.0).hyphenated().to_string();
        return made_up(&id, text, view.owner.as_deref(), Some(view.history.created.0), &view.resource);
    };
    let mut bytes = vec![b'{'];
    for (nth, (name, raw)) in info.members().filter(|(name, _)| !OWN.contains(name)).enumerate() {
        if nth > 0 {
            bytes.push(b',');
        }
        // The name is the caller's, so that it is escaped again.
        serde_json::to_writer(&mut bytes, name).expect("a string can be written to memory");
        bytes.push(b':');
        bytes.extend_from_slice(raw.as_bytes());
    }
    bytes.push(b'}');
    bytes
}

fn made_up(id: &str, info: &str, who: Option<&str>, created_us: Option<u64>, path: &str) -> Vec<u8> {
    let (operation, who, version) = ("claim", who.unwrap_or("a claim of Leasehold"), env!("CARGO_PKG_VERSION"));
    to_bytes(&TerraformMadeUp { id, operation, info, who, version, created: May(created_us.map(Rfc3339)), path })
}

fn token(view: &ClaimView) -> FencingToken {
    FencingToken(view.token.unwrap_or(Token(0)).0)
}

fn is_lock_info(info: &Object<'_>) -> bool {
    info.string("ID", 1..=usize::MAX).is_ok_and(|id| id.is_some())
}
