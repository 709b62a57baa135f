//! Pools: `/l/{id}`. The id is the credential.

use std::time::Duration;

use http::Method;
use serde_json::json;

use super::{Ask, Call, Grant, Id, KEEP, Look, Match, read_named};
use crate::reply::Reply;

pub(super) fn acquire(ask: &Ask, pool: &str) -> Call {
    let mut body = json!({"ttl": ask.ttl.as_secs_f64(), "wait": ask.wait.as_secs_f64()});
    if ask.wait > Duration::ZERO {
        body["keep"] = json!(KEEP.as_secs_f64());
    }
    let mut call = Call::new(Method::POST, format!("/l/{pool}/borrow")).json(&body);
    call.key = Some(ask.name.clone());
    call
}

/// Ends what the key has or waits for.
pub(super) fn withdraw(ask: &Ask, pool: &str) -> Call {
    let mut call = Call::new(Method::DELETE, format!("/l/{pool}/borrow"));
    call.key = Some(ask.name.clone());
    call
}

pub(super) fn renew(pool: &str, lease: &str, ttl: Duration) -> Call {
    Call::new(Method::POST, format!("/l/{pool}/renew")).json(&json!({"lease": lease, "ttl": ttl.as_secs_f64()}))
}

pub(super) fn give_back(pool: &str, lease: &str) -> Call {
    Call::new(Method::POST, format!("/l/{pool}/return")).json(&json!({"lease": lease}))
}

/// With the key, so that the service can tell its place.
pub(super) fn look(ask: &Ask, pool: &str) -> Call {
    let mut call = Call::new(Method::GET, format!("/l/{pool}"));
    call.key = Some(ask.name.clone());
    call
}

pub(super) fn read_look(reply: &Reply) -> Look {
    let in_use = reply.number("in_use");
    Look {
        queue_position: reply.number("queue_position"),
        holders: in_use
            .map(|count| format!("{count} of {} slots", reply.number("count").unwrap_or(count)))
            .into_iter()
            .collect(),
        waiting: reply.number("waiting"),
        eta: reply.seconds("eta_s"),
    }
}

pub(super) fn read_grant(pool: &str, reply: &Reply) -> Option<Grant> {
    Some(Grant {
        id: Id::Pool { pool: pool.to_owned(), lease: reply.text("lease")?.to_owned() },
        token: reply.number("token")?,
        slot: Some(u32::try_from(reply.number("position")?).ok()?),
        named: read_named(reply).1,
        length: length(reply)?,
        waited: reply.seconds("waited_s"),
    })
}

pub(super) fn read_renewal(lease: &str, token: u64, reply: &Reply) -> Match {
    let is_ours = reply.text("lease") == Some(lease) && reply.number("token") == Some(token);
    match length(reply) {
        Some(length) if is_ours => Match::Ours(length),
        _ => Match::Foreign,
    }
}

fn length(reply: &Reply) -> Option<Duration> {
    reply.seconds("expires_in")
}
