//! The limits of one principal: requests a second are counted here; live claims and waiters are counted by the engine,
//! which gets the numbers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::bucket::{Buckets, Rate};
use crate::{Identity, Now};

/// Principals whose rate is remembered at once.
const PRINCIPALS_MAX: usize = 100_000;

/// The limits of one principal, the same for all. `None`: no limit beyond those of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerLimits {
    /// Claims, leases and locks that wait or are held.
    pub live_claims: Option<u32>,
    /// The part of them that waits.
    pub waiters: Option<u32>,
    pub requests: Option<RequestRate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    pub per_second: u32,
    /// How many may come at once.
    pub burst: u32,
}

/// Counts requests. Callers that did not sign on share one bucket.
#[derive(Debug)]
pub(crate) struct Meter(Option<Mutex<Buckets<Option<Arc<str>>>>>);

impl Meter {
    pub(crate) fn new(rate: Option<RequestRate>) -> Self {
        let rate = rate.map(|rate| Rate { per_second_milli: u64::from(rate.per_second) * 1_000, burst: rate.burst });
        Meter(rate.map(|rate| Mutex::new(Buckets::new(rate, PRINCIPALS_MAX))))
    }

    /// Counts one request, or returns in how many seconds to come back.
    pub(crate) fn count(&self, identity: &Identity, now: Now) -> Result<(), u32> {
        let Some(buckets) = &self.0 else { return Ok(()) };
        let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets.try_take(&identity.name().cloned(), now.mono_us)
    }
}
