//! Pools and leases as JSON.

use leasehold_engine::{LeaseView, ResourceView};

use crate::dialect::text::{Object, unix_seconds};

/// Renew after this part of the lease, so that two attempts may fail.
const RENEW_PART: u64 = 3;

pub(super) fn pool(id: u128, view: &ResourceView, with_waiting: bool) -> Vec<u8> {
    let mut object = Object::new();
    object
        .uuid("id", id)
        .integer("count", view.capacity.into())
        .integer("in_use", view.in_use.into())
        .integer("available", view.capacity.saturating_sub(view.in_use).into());
    if with_waiting {
        object.integer("waiting", view.waiting.into());
    }
    object.end()
}

/// Neither time overstates: both are counted from when the lease was looked at, and fractions are cut off.
pub(super) fn lease(view: &LeaseView) -> Vec<u8> {
    let rest_us = view.deadline.since(view.now.at);
    let mut object = Object::new();
    object
        .uuid("lease", view.claim.0)
        .integer("position", view.slot.into())
        .integer("expires_at_unix", unix_seconds(view.now.wall_at(view.deadline)))
        .seconds("expires_in", rest_us)
        .integer("token", view.token.0)
        .seconds("renew_after", rest_us / RENEW_PART / 1_000 * 1_000);
    object.end()
}

pub(super) fn flag(name: &str, value: bool) -> Vec<u8> {
    let mut object = Object::new();
    object.boolean(name, value);
    object.end()
}
