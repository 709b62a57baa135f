//! Locks as JSON.

use leasehold_engine::{LockHolder, LockNews, LockView, Moment, Time};

use crate::dialect::terms::{Terms, write_rest};
use crate::dialect::text::Object;

pub(super) fn lock(view: &LockView, news: &LockNews, asked_at: Time, clamped: bool) -> Vec<u8> {
    let mut object = Object::new();
    let Some(holder) = &view.holder else {
        // As the published design has it, to the letter.
        object.string("holder", "").boolean("is_expired", true);
        return object.end();
    };
    let message = match news {
        LockNews::Seen => state_of(holder, view.now).to_owned(),
        LockNews::Renewed => "renewed".to_owned(),
        LockNews::Acquired { from: None } => "acquired".to_owned(),
        LockNews::Acquired { from: Some(previous) } => format!("acquired from {previous}"),
    };
    write_holder(&mut object, holder, view.now);
    if *news == LockNews::Seen {
        object.boolean("is_expired", holder.deadline <= view.now.at);
    }
    object.time_ms("grace_until", view.now.wall_at(holder.grace_until));
    object.boolean("success", true).string("job", &view.job).string("message", &message);
    object.integer("token", holder.token.0);
    if *news == LockNews::Seen {
        write_rest(&mut object, holder.deadline.since(view.now.at));
    } else {
        Terms { asked_at, now: view.now.at, deadline: holder.deadline, clamped }.write(&mut object);
    }
    object.end()
}

pub(super) fn released(job: &str) -> Vec<u8> {
    let mut object = Object::new();
    object.string("message", "lock released").boolean("success", true).string("job", job);
    object.end()
}

/// Who and until when: the members every answer about a held lock begins with.
pub(super) fn write_holder(object: &mut Object, holder: &LockHolder, now: Moment) {
    object.string("holder", &holder.client).time_ms("expires_at", now.wall_at(holder.deadline));
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
