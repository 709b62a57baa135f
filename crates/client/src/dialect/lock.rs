//! The sticky lock: `/lock`.

use std::time::Duration;

use http::Method;

use super::{Ask, Call, Grant, Id, KEEP, Look, Match, encode, go_duration};
use crate::reply::Reply;

/// A lock's length is not in its answer in older versions of the service, which cut it to their maximum.
const LONGEST: Duration = Duration::from_hours(24);

pub(super) fn acquire(ask: &Ask, job: &str) -> Call {
    let client = ask.lock_client();
    let mut target = format!("{}&ttl={}", of(job, &client), go_duration(ask.ttl));
    if ask.wait > Duration::ZERO {
        target.push_str("&wait=");
        target.push_str(&go_duration(ask.wait));
        target.push_str("&keep=");
        target.push_str(&go_duration(KEEP));
    }
    let mut call = Call::new(Method::POST, target);
    call.key = Some(ask.name.clone());
    call
}

pub(super) fn renew(job: &str, client: &str, token: u64, ttl: Duration) -> Call {
    Call::new(Method::POST, format!("{}&ttl={}&token={token}", of(job, client), go_duration(ttl)))
}

pub(super) fn release(job: &str, client: &str, token: Option<u64>) -> Call {
    let token = token.map_or(String::new(), |token| format!("&token={token}"));
    Call::new(Method::DELETE, format!("{}{token}", of(job, client)))
}

/// Ends what the key has or waits for, and spends it.
pub(super) fn withdraw(ask: &Ask, job: &str) -> Call {
    let mut call = release(job, &ask.lock_client(), None);
    call.key = Some(ask.name.clone());
    call
}

pub(super) fn look(job: &str, client: &str) -> Call {
    Call::new(Method::GET, of(job, client))
}

pub(super) fn read_look(reply: &Reply) -> Look {
    let holder = reply.text("holder").filter(|holder| !holder.is_empty());
    Look {
        queue_position: reply.number("queue_position"),
        holders: holder.map(str::to_owned).into_iter().collect(),
        waiting: reply.number("waiting"),
        eta: reply.seconds("eta_s"),
    }
}

pub(super) fn read_grant(ask: &Ask, job: &str, reply: &Reply) -> Option<Grant> {
    let client = ask.lock_client();
    if reply.text("holder") != Some(&client) {
        return None;
    }
    Some(Grant {
        id: Id::Lock { job: job.to_owned(), client },
        token: reply.number("token")?,
        slot: Some(0),
        named: None,
        length: length(reply, ask.ttl),
        waited: reply.seconds("waited_s"),
    })
}

pub(super) fn read_renewal(client: &str, token: u64, ttl: Duration, reply: &Reply) -> Match {
    match (reply.text("holder"), reply.number("token")) {
        (Some(holder), Some(known)) if holder == client && known == token => Match::Ours(length(reply, ttl)),
        (Some(holder), Some(other)) if holder == client => Match::Anew(other),
        _ => Match::Foreign,
    }
}

fn length(reply: &Reply, asked: Duration) -> Duration {
    reply.seconds("expires_in").unwrap_or(asked.min(LONGEST))
}

fn of(job: &str, client: &str) -> String {
    format!("/lock?job={}&client={}", encode(job), encode(client))
}
