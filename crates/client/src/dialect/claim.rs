//! Claims: `/v1/claims/`. A claim stands in its queue by itself, so waiting for it survives connections and restarts.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{Ask, Call, Grant, Id, Look, Match, encode, read_named};
use crate::reply::Reply;

/// Without `wait`: with it the claim would end with its connection.
pub(super) fn acquire(ask: &Ask, resource: &str, metadata: Option<&Value>) -> Call {
    let mut body = json!({"resource": resource, "timeout": ask.ttl.as_secs_f64()});
    if let Some(metadata) = metadata {
        body["metadata"] = metadata.clone();
    }
    let mut call = Call::new(Method::POST, "/v1/claims/".to_owned()).json(&body);
    call.key = Some(ask.name.clone());
    call
}

pub(super) fn round(id: &str, wait: Duration, ttl: Duration) -> Call {
    let target = format!("{}?wait={}", of(id), wait.as_secs_f64());
    Call::new(Method::PATCH, target).json(&json!({"status": "active", "ttl": ttl.as_secs_f64()}))
}

pub(super) fn renew(id: &str, ttl: Duration) -> Call {
    Call::new(Method::PATCH, of(id)).json(&json!({"ttl": ttl.as_secs_f64()}))
}

pub(super) fn release(id: &str) -> Call {
    Call::new(Method::PATCH, of(id)).json(&json!({"status": "released"}))
}

/// Valid while it waits and while it is active.
pub(super) fn withdraw(id: &str) -> Call {
    Call::new(Method::PATCH, of(id)).json(&json!({"status": "withdrawn"}))
}

pub(super) fn look(id: &str) -> Call {
    Call::new(Method::GET, of(id))
}

pub(super) fn read_look(reply: &Reply) -> Look {
    let holders = reply.json.get("holders").and_then(Value::as_array);
    let holders = holders.into_iter().flatten().map(|holder| {
        // A name where the service tells one; of an id its first part, which is no credential of a claim.
        let name = ["holder", "name", "owner"].iter().find_map(|member| holder.get(*member)?.as_str());
        let id = || holder.get("id").and_then(Value::as_str).map(|id| id.chars().take(8).collect());
        name.map(str::to_owned).or_else(id).unwrap_or_else(|| "another claim".to_owned())
    });
    Look {
        queue_position: reply.number("queue_position"),
        holders: holders.collect(),
        waiting: None,
        eta: reply.seconds("eta_s"),
    }
}

pub(super) fn read_grant(resource: &str, reply: &Reply) -> Option<Grant> {
    if reply.text("status") != Some("active") {
        return None;
    }
    let (slot, named) = read_named(reply);
    Some(Grant {
        id: Id::Claim { id: reply.text("id")?.to_owned(), resource: resource.to_owned() },
        token: reply.number("token")?,
        slot,
        named,
        length: length(reply)?,
        waited: reply.seconds("waited_s"),
    })
}

pub(super) fn read_renewal(id: &str, token: u64, reply: &Reply) -> Match {
    let is_ours = reply.text("id") == Some(id) && reply.number("token") == Some(token);
    match length(reply) {
        Some(length) if is_ours => Match::Ours(length),
        _ => Match::Foreign,
    }
}

fn length(reply: &Reply) -> Option<Duration> {
    reply.seconds("expires_in").or_else(|| reply.seconds("ttl"))
}

fn of(id: &str) -> String {
    format!("/v1/claims/{}/", encode(id))
}
