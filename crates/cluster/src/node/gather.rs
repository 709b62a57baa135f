//! Callers gather before a transaction. Those that were answered together ask again together, some of them by way of
//! other nodes: a transaction that left with the first of them would make all others wait for it, and would cost the
//! store as much as one with all of them. So the next one waits until about as many are there as before, for a part of
//! the time that the last one took. A lone caller waits for no other.

use leasehold_journal::Clocks;

use super::Node;
use super::seat::Phase;

/// The longest that a change waits for others to join it.
const GATHER_US_MAX: u64 = 2_000;
/// A change waits half as long as the last transaction took.
const TOOK_PART: u64 = 2;
/// One in eight of the expected callers may be missing.
const MISSING_PART: usize = 8;

/// The figures of the last transaction, and the time since when callers have gathered for the next.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// Callers that were there when the last transaction became durable: those it answers, and those that came since.
    expected: usize,
    sent_at_us: u64,
    took_us: u64,
    since_us: Option<u64>,
}

impl Gathering {
    pub(super) fn sent(&mut self, now_us: u64) {
        self.sent_at_us = now_us;
        self.since_us = None;
    }

    pub(super) fn landed(&mut self, now_us: u64, held: usize) {
        self.took_us = now_us.saturating_sub(self.sent_at_us);
        self.expected = held;
    }

    /// There is no transaction to wait with: its partitions were lost, or the store is to be left alone for a while.
    pub(super) fn stop(&mut self) {
        self.since_us = None;
    }

    pub(super) fn until_us(&self) -> Option<u64> {
        self.since_us.map(|since_us| since_us + (self.took_us / TOOK_PART).min(GATHER_US_MAX))
    }

    /// Returns whether the next transaction waits for more callers than these.
    fn goes_on(&mut self, now_us: u64, held: usize) -> bool {
        if held >= self.expected - self.expected / MISSING_PART {
            self.since_us = None;
            return false;
        }
        self.since_us.get_or_insert(now_us);
        if self.until_us().is_some_and(|until_us| now_us < until_us) {
            return true;
        }
        self.since_us = None;
        false
    }
}

impl Node {
    /// Answers that wait in the partitions of this node.
    pub(super) fn held(&self) -> usize {
        let owned = self.unsaved.iter().filter_map(|n| self.seats[*n].owned.as_ref());
        owned.map(|owned| owned.callers().held).sum()
    }

    /// Returns whether the next transaction waits for callers. A batch that is sent again, and those at the beginning
    /// and at the end of an ownership, wait for none.
    pub(super) fn gathers(&mut self, clocks: Clocks) -> bool {
        let is_urgent = |n: &usize| {
            let seat = &self.seats[*n];
            seat.in_flight.is_some() || seat.phase != Phase::Serving
        };
        if self.is_draining || self.unsaved.iter().any(is_urgent) {
            self.gathering.since_us = None;
            return false;
        }
        let held = self.held();
        self.gathering.goes_on(clocks.mono_us, held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(held: usize, took_us: u64) -> Gathering {
        let mut gathering = Gathering::default();
        gathering.sent(1_000);
        gathering.landed(1_000 + took_us, held);
        gathering
    }

    #[test]
    fn a_lone_caller_waits_for_no_other() {
        assert!(!Gathering::default().goes_on(0, 1));
        assert!(!after(1, 3_000).goes_on(5_000, 1));
    }

    #[test]
    fn callers_that_were_answered_together_are_waited_for() {
        let mut gathering = after(16, 3_000);
        assert!(gathering.goes_on(5_000, 1));
        assert_eq!(gathering.until_us(), Some(6_500));
        assert!(gathering.goes_on(5_900, 13));
        assert!(!gathering.goes_on(6_000, 14), "an eighth may be missing");
        assert_eq!(gathering.until_us(), None);
    }

    #[test]
    fn not_for_longer_than_half_a_transaction_or_two_milliseconds() {
        let mut gathering = after(16, 1_000);
        assert!(gathering.goes_on(5_000, 1));
        assert!(!gathering.goes_on(5_500, 2));
        let mut gathering = after(16, 60_000);
        assert!(gathering.goes_on(70_000, 1));
        assert!(gathering.goes_on(71_999, 1));
        assert!(!gathering.goes_on(72_000, 1));
    }
}
