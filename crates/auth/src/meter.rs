//! The requests of each principal, counted. Its live claims and waiters are counted by the engine, which gets the
//! numbers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::bucket::{Buckets, Rate};
use crate::limits::{PRINCIPALS_MAX, RequestRate};
use crate::{Identity, Now};

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
