//! L9: waiting costs nothing. The pulse runs as often as something is due, however long the store takes.

use super::{Check, ensure};

/// While a lease is held the pulse runs twenty times a second; deadlines that were set before come on top.
const IDLE_TICKS_MAX: u64 = 200;
/// The ticks of one request: its wait, its lease, the grace, being forgotten, and looks at deadlines that were moved.
const TICKS_PER_REQUEST: u64 = 10;

/// The pulse ran this many times within a second that brought this many requests.
pub(crate) fn on_tick(ticks: u64, asked: u64) -> Check {
    let allowed = IDLE_TICKS_MAX + asked * TICKS_PER_REQUEST;
    ensure(ticks <= allowed, "L9", || format!("the pulse ran {ticks} times within a second, {asked} requests came"))
}
