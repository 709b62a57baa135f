//! The time side of a grant or a renewal, the same in every dialect: the rest of the lease, when to renew it, how long
//! the call waited for it, and whether it asked for more than it may have.

use leasehold_engine::Time;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::json::value::Seconds;

/// Renew after this part of the lease, so that two attempts may fail.
const RENEW_PART: u64 = 3;

/// The rest of a lease. It never overstates: fractions are cut off.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Rest {
    /// Seconds until it ends, no more than there are.
    expires_in: Seconds,
    /// Seconds until a good time to renew: two attempts may fail.
    renew_after: Seconds,
}

impl Rest {
    pub(crate) fn of(rest_us: u64) -> Self {
        Rest { expires_in: Seconds(rest_us), renew_after: Seconds(rest_us / RENEW_PART / 1_000 * 1_000) }
    }
}

/// The terms of a grant or a renewal. A caller that read its clock before it sent the call has the lease for `waited_s`
/// and `expires_in` from then.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub(crate) struct Terms {
    #[serde(flatten)]
    rest: Rest,
    /// True if the `ttl` or the `wait` asked for was above the maximum and cut to it.
    clamped: bool,
    /// Seconds this call waited in line. Counted from before it was sent, the lease lasts `waited_s` and `expires_in`.
    waited_s: Seconds,
}

impl Terms {
    /// The call came at `asked_at`, and the lease was looked at `now`: its rest counts from there.
    pub(crate) fn new(asked_at: Time, now: Time, deadline: Time, clamped: bool) -> Self {
        Terms { rest: Rest::of(deadline.since(now)), clamped, waited_s: Seconds(now.since(asked_at)) }
    }
}
