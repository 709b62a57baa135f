//! Locks as JSON.

use leasehold_engine::{LockHolder, LockNews, LockView, Moment, PlaceView, Reply, Time};

use crate::faces::terms::{Terms, write_rest};
use crate::http::json::write::Object;

pub(super) fn lock(view: &LockView, news: &LockNews, asked_at: Time, clamped: bool) -> Vec<u8> {
    let Some(holder) = &view.holder else { return unheld(&view.job) };
    let mut object = Object::new();
    let message = match news {
        LockNews::Seen => {
            write_seen(&mut object, view, holder);
            return object.end();
        }
        LockNews::Renewed => "renewed".to_owned(),
        LockNews::Acquired { from: None } => "acquired".to_owned(),
        LockNews::Acquired { from: Some(previous) } => format!("acquired from {previous}"),
    };
    write_holder(&mut object, holder, view.now);
    object.time_ms("grace_until", view.now.wall_at(holder.grace_until).0);
    object.boolean("success", true).string("job", &view.job).string("message", &message);
    object.integer("token", holder.token.0);
    Terms { asked_at, now: view.now.at, deadline: holder.deadline, clamped }.write(&mut object);
    object.end()
}

fn write_seen(object: &mut Object, view: &LockView, holder: &LockHolder) {
    write_holder(object, holder, view.now);
    object.boolean("is_expired", holder.deadline <= view.now.at);
    object.time_ms("grace_until", view.now.wall_at(holder.grace_until).0);
    object.boolean("success", true).string("job", &view.job).string("message", state_of(holder, view.now));
    object.integer("token", holder.token.0);
    write_rest(object, holder.deadline.since(view.now.at));
}

/// A lock as one of its clients sees it.
pub(super) fn place(view: &PlaceView) -> Vec<u8> {
    let Reply::Lock(lock, _) = &view.seen else { unreachable!("a place in a lock's queue is shown with the lock") };
    let Some(holder) = &lock.holder else { return unheld(&lock.job) };
    let mut object = Object::new();
    write_seen(&mut object, lock, holder);
    object.integer("waiting", view.waiting.into());
    object.optional_integer("queue_position", view.queue_position.map(u64::from));
    object.end()
}

/// A lock that no client has had: the two members that the published design has, and the job that its suite asks for.
fn unheld(job: &str) -> Vec<u8> {
    let mut object = Object::new();
    object.string("holder", "").boolean("is_expired", true).string("job", job);
    object.end()
}

pub(super) fn released(job: &str, message: &str) -> Vec<u8> {
    let mut object = Object::new();
    object.string("message", message).boolean("success", true).string("job", job);
    object.end()
}

/// Holder and expiry: the members every answer about a held lock begins with.
pub(super) fn write_holder(object: &mut Object, holder: &LockHolder, now: Moment) {
    object.string("holder", &holder.client).time_ms("expires_at", now.wall_at(holder.deadline).0);
}

fn state_of(holder: &LockHolder, now: Moment) -> &'static str {
    if now.at < holder.deadline {
        "held"
    } else if now.at < holder.grace_until {
        "in grace"
    } else {
        "expired"
    }
}
