//! S17: an answer shows no more of a lease than is left of it when the answer leaves.

use leasehold_engine::Time;

use super::{Check, ensure};

/// A lease until `deadline` is shown as having `shown_us` left; the answer leaves at `at`.
pub(crate) fn on_leaving(shown_us: u64, deadline: Time, at: Time) -> Check {
    let left_us = deadline.since(at);
    ensure(shown_us <= left_us, "S17", || format!("an answer shows {shown_us} us of a lease, {left_us} us are left"))
}
