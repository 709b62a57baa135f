//! L8: each caller waits for its own time: it is told that there was nothing when its own wait is over, neither earlier
//! nor later, also when it shares its place.

use super::{Check, ensure};
use crate::ledger::When;

const SLACK_US: u64 = 400_000;

/// A caller is parked since `arrived`.
pub(crate) fn while_parked(waits_us: u64, arrived: When, now: When) -> Check {
    let served_us = now.served_us.saturating_sub(arrived.served_us);
    let outages = now.outages.saturating_sub(arrived.outages);
    let allowed_us = waits_us + waits_us / 1000 + outages * 1_100_000 + SLACK_US;
    ensure(served_us <= allowed_us, "L8", || {
        format!("a caller that waits {waits_us} us has no answer after {served_us} us of service")
    })
}

/// A caller that was parked is told that there was nothing.
pub(crate) fn on_nothing(waits_us: u64, arrived: When, now: When) -> Check {
    let passed_us = now.fair_us.saturating_sub(arrived.fair_us);
    ensure(passed_us + waits_us / 1000 + 2 >= waits_us, "L8", || {
        format!("a caller that waits {waits_us} us was sent away after {passed_us} us")
    })
}
