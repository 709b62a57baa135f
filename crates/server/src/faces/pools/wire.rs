//! Pools and leases as JSON.

use leasehold_engine::{LeaseView, PlaceView, Reply, ResourceView, Spent, Time};

use crate::faces::terms::{Terms, write_rest};
use crate::http::json::write::{Object, unix_seconds};

pub(super) fn pool(id: u128, view: &ResourceView, with_waiting: bool) -> Vec<u8> {
    let mut object = Object::new();
    write_pool(&mut object, id, view);
    if with_waiting {
        object.integer("waiting", view.waiting.into());
    }
    object.end()
}

/// A pool as one of its borrowers sees it.
pub(super) fn place(id: u128, view: &PlaceView) -> Vec<u8> {
    let mut object = Object::new();
    if let Reply::Resource(pool) = &view.seen {
        write_pool(&mut object, id, pool);
    }
    object.integer("waiting", view.waiting.into());
    object.optional_integer("queue_position", view.queue_position.map(u64::from));
    object.optional_string("holder", view.holder.as_deref());
    object.end()
}

/// The lease or place of a borrow that was given up.
pub(super) fn given_up(had: Spent) -> Vec<u8> {
    let mut object = Object::new();
    object.boolean("returned", had == Spent::Held).boolean("withdrawn", had == Spent::Waited);
    object.end()
}

fn write_pool(object: &mut Object, id: u128, view: &ResourceView) {
    object
        .uuid("id", id)
        .integer("count", view.capacity.into())
        .integer("in_use", view.in_use.into())
        .integer("available", view.capacity.saturating_sub(view.in_use).into());
}

/// A lease that was just given or renewed.
pub(super) fn granted(view: &LeaseView, asked_at: Time, clamped: bool) -> Vec<u8> {
    let mut object = Object::new();
    write_lease(&mut object, view);
    Terms { asked_at, now: view.now.at, deadline: view.deadline, clamped }.write(&mut object);
    object.integer("token", view.token.0);
    object.end()
}

/// A lease that was only looked at.
pub(super) fn lease(view: &LeaseView) -> Vec<u8> {
    let mut object = Object::new();
    write_lease(&mut object, view);
    write_rest(&mut object, view.deadline.since(view.now.at));
    object.integer("token", view.token.0);
    object.end()
}

/// The time does not overstate: it counts from when the lease was looked at, and fractions are cut off.
fn write_lease(object: &mut Object, view: &LeaseView) {
    object
        .uuid("lease", view.claim.0)
        .integer("position", view.slot.into())
        .integer("expires_at_unix", unix_seconds(view.now.wall_at(view.deadline).0));
}

pub(super) fn flag(name: &str, value: bool) -> Vec<u8> {
    let mut object = Object::new();
    object.boolean(name, value);
    object.end()
}
