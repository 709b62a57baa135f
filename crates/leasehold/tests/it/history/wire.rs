//! Calls as requests, and responses as answers.

use leasehold_history::{Call, End, HeardAnswer, Status, Taken, Wish};

use crate::support::Response;

/// A request, ready to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) target: String,
    pub(crate) key: Option<String>,
    pub(crate) body: String,
    pub(crate) is_nonsense: bool,
}

/// How to ask for it; `wait_ms` where a call can wait.
pub(crate) fn request(call: &Call, wait_ms: u32) -> Request {
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let wait = format!("0.{wait_ms:03}");
    let listening = if wait_ms > 0 { format!("?wait={wait}") } else { String::new() };
    let (method, target, body) = match call {
        Call::Configure { resource, capacity } => {
            ("PUT", format!("/l/{resource}"), format!("{{\"count\":{capacity}}}"))
        }
        Call::Delete { resource } => ("DELETE", format!("/l/{resource}"), String::new()),
        Call::Acquire { resource, ttl_us, .. } => {
            let body = format!("{{\"ttl\":{},\"wait\":{wait}}}", seconds(*ttl_us));
            ("POST", format!("/l/{resource}/borrow"), body)
        }
        Call::Renew { resource, lease, ttl_us } => {
            let body = format!("{{\"lease\":\"{lease}\",\"ttl\":{}}}", seconds(*ttl_us));
            ("POST", format!("/l/{resource}/renew"), body)
        }
        Call::Release { resource, lease } => {
            ("POST", format!("/l/{resource}/return"), format!("{{\"lease\":\"{lease}\"}}"))
        }
        Call::View { resource } => ("GET", format!("/l/{resource}"), String::new()),
        Call::ViewLease { resource, lease } => ("GET", format!("/l/{resource}/leases/{lease}"), String::new()),
        Call::Claim { resource, ttl_us, .. } => {
            let body = format!("{{\"resource\":\"{resource}\",\"timeout\":{}}}", seconds(*ttl_us));
            ("POST", "/v1/claims/".to_owned(), body)
        }
        Call::Update { claim, wish, .. } => {
            let body = match wish {
                Wish::Active => "{\"status\":\"active\"}".to_owned(),
                Wish::Released => "{\"status\":\"released\"}".to_owned(),
                Wish::Revoked => "{\"status\":\"revoked\"}".to_owned(),
                Wish::Ttl { ttl_us } => format!("{{\"ttl\":{}}}", seconds(*ttl_us)),
            };
            ("PATCH", format!("/v1/claims/{claim}/{listening}"), body)
        }
        Call::ViewClaim { claim, .. } => ("GET", format!("/v1/claims/{claim}/{listening}"), String::new()),
        Call::Lock { resource, client, ttl_us } => {
            let target = format!("/lock?job={resource}&client={client}&ttl={ttl_us}us&wait={wait_ms}ms");
            ("POST", target, String::new())
        }
        Call::Unlock { resource, client } => ("DELETE", format!("/lock?job={resource}&client={client}"), String::new()),
        Call::ViewLock { resource } => ("GET", format!("/lock?job={resource}"), String::new()),
    };
    Request { method, target, key: call.key().map(str::to_owned), body, is_nonsense: false }
}

/// The same call, malformed.
pub(crate) fn nonsense(call: &Call) -> Request {
    let Request { method, target, body, .. } = request(call, 0);
    let (target, body) = (target.replace("ttl=", "ttl=soon"), body.replace(':', ""));
    Request { method, target, key: None, body, is_nonsense: true }
}

/// The answer in a response; `None` if it contradicts nothing.
pub(crate) fn answer(call: &Call, has_waited: bool, response: &Response) -> Option<HeardAnswer> {
    let unexpected = || -> ! { panic!("{call:?} was answered {}: {}", response.status, response.json()) };
    Some(match (call, response.status) {
        (Call::Configure { .. }, 200) => HeardAnswer::Configured,
        (Call::Delete { .. }, 200) => HeardAnswer::Deleted(response.json()["deleted"] == true),
        (Call::Acquire { .. } | Call::Renew { .. } | Call::ViewLease { .. }, 200) => HeardAnswer::Held {
            lease: response.text("lease"),
            slot: u32::try_from(response.number("position")).unwrap(),
            token: response.number("token"),
        },
        // A waiter is refused as of the end of its wait, which the answer does not tell.
        (Call::Acquire { .. }, 409) if has_waited => return None,
        (Call::Acquire { .. }, 409) => HeardAnswer::Full,
        (Call::Acquire { .. } | Call::Claim { .. }, 410) => HeardAnswer::KeySpent,
        (Call::ViewLease { .. }, 404) if response.text("error") == "no such lease" => HeardAnswer::NotHeld,
        (Call::Acquire { .. } | Call::Renew { .. } | Call::View { .. } | Call::ViewLease { .. }, 404) => {
            HeardAnswer::NoResource
        }
        (Call::Renew { .. }, 409) => HeardAnswer::NotHeld,
        (Call::Release { .. }, 200) => HeardAnswer::Released(response.json()["returned"] == true),
        (Call::View { .. }, 200) => HeardAnswer::Seen {
            capacity: u32::try_from(response.number("count")).unwrap(),
            in_use: u32::try_from(response.number("in_use")).unwrap(),
        },
        (Call::Claim { .. } | Call::Update { .. } | Call::ViewClaim { .. }, 200..=202) => claim(call, response),
        // It did not hold the lock, but waited for it.
        (Call::Unlock { .. }, 200) if response.text("message") == "wait withdrawn" => HeardAnswer::NotTheHolder,
        (Call::Update { .. }, 204) | (Call::Unlock { .. }, 200) => HeardAnswer::Released(true),
        (Call::Update { .. }, 409) => HeardAnswer::Refused { status: status(&response.text("status")) },
        (Call::Update { .. } | Call::ViewClaim { .. }, 404) => HeardAnswer::NoClaim,
        (Call::Lock { .. }, 200) => {
            let message = response.text("message");
            let from = message.strip_prefix("acquired from ").map(str::to_owned);
            let how = if message == "renewed" { Taken::Renewed } else { Taken::Acquired { from } };
            HeardAnswer::Locked { token: response.number("token"), how }
        }
        (Call::Lock { .. }, 409) => {
            // In the step that ended its wait the lock may have been let go.
            let holder = response.json()["holder"].as_str()?.to_owned();
            HeardAnswer::LockedBy { holder, in_grace: response.text("error") == "grace period active" }
        }
        (Call::Unlock { .. }, 403) => HeardAnswer::NotTheHolder,
        (Call::ViewLock { .. }, 200) => {
            let holder = response.text("holder");
            let is_expired = response.json()["is_expired"] == true;
            let holder = (!holder.is_empty()).then(|| (holder, response.number("token")));
            HeardAnswer::LockSeen { holder, is_expired }
        }
        _ => unexpected(),
    })
}

fn claim(call: &Call, response: &Response) -> HeardAnswer {
    let claim = response.text("id");
    match (status(&response.text("status")), response.json()["token"].as_u64()) {
        (Status::Waiting, _) if matches!(call, Call::Claim { .. }) => HeardAnswer::Waiting { lease: claim },
        (Status::Waiting, _) => {
            HeardAnswer::InLine { claim, place: u32::try_from(response.number("queue_position")).unwrap() }
        }
        (Status::Ended(how), _) => HeardAnswer::Ended { claim, how },
        (Status::Active, token) => HeardAnswer::Active { claim, token: token.expect("an active claim has a token") },
    }
}

fn status(text: &str) -> Status {
    match text {
        "waiting" => Status::Waiting,
        "active" => Status::Active,
        "released" => Status::Ended(End::Released),
        "revoked" => Status::Ended(End::Revoked),
        "expired" => Status::Ended(End::Expired),
        "withdrawn" => Status::Ended(End::Withdrawn),
        other => panic!("no claim is {other}"),
    }
}
