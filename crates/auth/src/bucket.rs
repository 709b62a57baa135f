//! Token buckets, many of them, in a bounded table: they limit how often each key may do something.

use std::collections::HashMap;
use std::hash::Hash;

const S_US: u64 = 1_000_000;

/// How fast a bucket refills and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) per_second_milli: u64,
    pub(crate) burst: u32,
}

/// A bucket is remembered as the point in time at which it will be full again; a full one need not be remembered.
#[derive(Debug)]
pub(crate) struct Buckets<K> {
    rate: Rate,
    full_at_us: HashMap<K, u64>,
    max: usize,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(crate) fn new(rate: Rate, max: usize) -> Self {
        assert!(rate.per_second_milli > 0 && rate.burst > 0 && max > 0, "a bucket that never has anything");
        Buckets { rate, full_at_us: HashMap::new(), max }
    }

    /// The cost of one request, as time to refill.
    fn cost_us(&self) -> u64 {
        (S_US * 1_000).div_ceil(self.rate.per_second_milli)
    }

    /// How long until one may be taken: zero if now.
    pub(crate) fn wait_us(&self, key: &K, now_us: u64) -> u64 {
        let full_at_us = self.full_at_us.get(key).copied().unwrap_or(0).max(now_us);
        let room_us = self.cost_us() * u64::from(self.rate.burst - 1);
        (full_at_us - now_us).saturating_sub(room_us)
    }

    /// Takes one, whether or not it is there; an empty bucket gets no emptier than one below.
    pub(crate) fn take(&mut self, key: &K, now_us: u64) {
        if self.full_at_us.len() >= self.max && !self.full_at_us.contains_key(key) {
            self.make_room(now_us);
        }
        let (cost_us, room_us) = (self.cost_us(), self.cost_us() * u64::from(self.rate.burst));
        let full_at_us = self.full_at_us.entry(key.clone()).or_insert(0);
        *full_at_us = ((*full_at_us).max(now_us) + cost_us).min(now_us + room_us);
    }

    /// Takes one if it is there; else returns in how many seconds to come back.
    pub(crate) fn try_take(&mut self, key: &K, now_us: u64) -> Result<(), u32> {
        match self.wait_us(key, now_us) {
            0 => {
                self.take(key, now_us);
                Ok(())
            }
            wait_us => Err(seconds_up(wait_us)),
        }
    }

    /// Drops the full ones, and if there are none, the half that is nearest to full.
    fn make_room(&mut self, now_us: u64) {
        self.full_at_us.retain(|_, full_at_us| *full_at_us > now_us);
        if self.full_at_us.len() >= self.max {
            let mut times: Vec<u64> = self.full_at_us.values().copied().collect();
            let middle = times.len() / 2;
            let (_, &mut median, _) = times.select_nth_unstable(middle);
            self.full_at_us.retain(|_, full_at_us| *full_at_us > median);
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.full_at_us.len()
    }
}

/// Whole seconds, at least one, for `Retry-After`.
pub(crate) fn seconds_up(us: u64) -> u32 {
    u32::try_from(us.div_ceil(S_US)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_refills() {
        // Two a second, three at once.
        let mut buckets = Buckets::new(Rate { per_second_milli: 2_000, burst: 3 }, 10);
        let mut now_us = 1_000 * S_US;
        for _ in 0..3 {
            assert_eq!(buckets.try_take(&"a", now_us), Ok(()));
        }
        assert_eq!(buckets.try_take(&"a", now_us), Err(1));
        assert_eq!(buckets.try_take(&"b", now_us), Ok(()), "another's is another");
        now_us += S_US / 2;
        assert_eq!(buckets.try_take(&"a", now_us), Ok(()));
        assert_eq!(buckets.wait_us(&"a", now_us), S_US / 2);
        now_us += 100 * S_US;
        for _ in 0..3 {
            assert_eq!(buckets.try_take(&"a", now_us), Ok(()));
        }
        assert_eq!(buckets.try_take(&"a", now_us), Err(1), "it holds no more than its burst");
    }

    #[test]
    fn the_table_stays_bounded() {
        let mut buckets = Buckets::new(Rate { per_second_milli: 1, burst: 1 }, 100);
        for key in 0..100_000_u64 {
            buckets.take(&key, key);
            assert!(buckets.len() <= 100);
        }
        assert!(buckets.wait_us(&99_999, 100_000) > 0, "the last one is remembered");
    }
}
