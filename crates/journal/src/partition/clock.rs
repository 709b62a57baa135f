//! Service time: a counter that belongs to the data. It advances with a monotonic clock, but only while the partition
//! can serve, so downtime of any sort is charged to no lease.
//!
//! ```text
//! monotonic  ──┬────┬────┬─────────── stopped 60 s ───────────┬────┬──
//! service    ──┬────┬────┬─ +100 ms ─┬────┬──
//! ```

use leasehold_engine::{Time, planted};

/// While the driver did not run, or changes waited to become durable, at most this much of the time counts.
pub const STRETCH_MAX_US: u64 = 100_000;

/// The clock of one partition: turns readings of a monotonic clock into service time.
#[derive(Debug)]
pub struct ServiceClock {
    at: Time,
    seen_mono_us: u64,
    /// The time that passed on the monotonic clock and did not count.
    uncharged_us: u64,
    /// While changes wait to become durable: how much time may still count before one of them does.
    allowance_us: Option<u64>,
    /// While a beat is on its way to the store: how much time may still count before it is there.
    beat_allowance_us: Option<u64>,
}

impl ServiceClock {
    /// Goes on from `at`, which was true at the monotonic reading `mono_us`.
    pub fn new(at: Time, mono_us: u64) -> Self {
        ServiceClock { at, seen_mono_us: mono_us, uncharged_us: 0, allowance_us: None, beat_allowance_us: None }
    }

    /// Service time as of the last reading.
    pub fn at(&self) -> Time {
        self.at
    }

    /// The monotonic reading that `at` belongs to.
    pub fn seen_mono_us(&self) -> u64 {
        self.seen_mono_us
    }

    /// How far service time fell behind the monotonic clock, in all.
    pub fn uncharged_us(&self) -> u64 {
        self.uncharged_us
    }

    /// Service time now. `anybody_holds`: while no lease is held, no holder can be wronged and long stretches count in
    /// full, so that an idle service may sleep.
    pub fn advance(&mut self, mono_us: u64, anybody_holds: bool) -> Time {
        let elapsed_us = mono_us.saturating_sub(self.seen_mono_us);
        let mut passed_us = elapsed_us;
        self.seen_mono_us = self.seen_mono_us.max(mono_us);
        if anybody_holds && !planted!(StandstillCharged) {
            passed_us = passed_us.min(STRETCH_MAX_US);
        }
        if let Some(allowance_us) = self.allowance_us.as_mut().filter(|_| !planted!(AppendCharged)) {
            passed_us = passed_us.min(*allowance_us);
            *allowance_us -= passed_us;
        }
        if let Some(allowance_us) = self.beat_allowance_us.as_mut().filter(|_| !planted!(BeatWithoutClockStop)) {
            passed_us = passed_us.min(*allowance_us);
            *allowance_us -= passed_us;
        }
        self.uncharged_us += elapsed_us - passed_us;
        self.at = self.at.plus(passed_us);
        self.at
    }

    /// A change was made that is not durable yet. Wherever the store or the committer hangs from here on, at most
    /// `STRETCH_MAX_US` count: a lease granted meanwhile does not end before its holder hears of it.
    pub fn change_made(&mut self) {
        if self.allowance_us.is_none() {
            self.allowance_us = Some(STRETCH_MAX_US);
        }
    }

    /// Changes became durable. `advance` has been called with the time at which they did. `are_more`: other changes
    /// still wait.
    pub fn became_durable(&mut self, are_more: bool) {
        self.allowance_us = are_more.then_some(STRETCH_MAX_US);
    }

    /// Service time was written down with a beat that is not in the store yet. Until it is, at most `STRETCH_MAX_US`
    /// count, as for an append: a lease does not end while no caller could be answered.
    pub fn beat_begun(&mut self) {
        if self.beat_allowance_us.is_none() {
            self.beat_allowance_us = Some(STRETCH_MAX_US);
        }
    }

    /// The beat is in the store. `advance` has been called with the time at which it was.
    pub fn beat_done(&mut self) {
        self.beat_allowance_us = None;
    }

    /// When service time reaches this point on the monotonic clock, if nothing else happens; `None` when time stands
    /// still before that.
    pub fn mono_us_at(&self, due_at: Time) -> Option<u64> {
        let rest_us = due_at.since(self.at);
        let allowances = [self.allowance_us, self.beat_allowance_us];
        let is_within_reach = allowances.into_iter().flatten().all(|allowance_us| rest_us <= allowance_us);
        (is_within_reach || planted!(PulseSpins)).then(|| self.seen_mono_us.saturating_add(rest_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    #[test]
    fn it_runs_with_the_monotonic_clock_while_the_driver_does() {
        let mut clock = ServiceClock::new(Time(0), 5 * S);
        for step in 1..=40 {
            clock.advance(5 * S + step * 50_000, true);
        }
        assert_eq!(clock.at(), Time(2 * S));
    }

    #[test]
    fn a_minute_of_standstill_counts_a_tenth_of_a_second() {
        let mut clock = ServiceClock::new(Time(7), 0);
        assert_eq!(clock.advance(60 * S, true), Time(7 + STRETCH_MAX_US));
        assert_eq!(clock.uncharged_us(), 60 * S - STRETCH_MAX_US);
    }

    #[test]
    fn a_hanging_store_counts_a_tenth_of_a_second_however_often_the_driver_runs() {
        let mut clock = ServiceClock::new(Time(0), 0);
        clock.change_made();
        for step in 1..=100 {
            clock.advance(step * 50_000, true);
        }
        assert_eq!(clock.at(), Time(STRETCH_MAX_US));
        clock.became_durable(false);
        assert_eq!(clock.advance(5 * S + 20_000, true), Time(STRETCH_MAX_US + 20_000));
        assert_eq!(clock.uncharged_us(), 5 * S - STRETCH_MAX_US);
    }

    #[test]
    fn a_store_that_makes_changes_durable_often_enough_stops_no_clock() {
        let mut clock = ServiceClock::new(Time(0), 0);
        clock.change_made();
        for step in 1..=40 {
            clock.advance(step * STRETCH_MAX_US, true);
            clock.became_durable(true);
        }
        assert_eq!((clock.at(), clock.uncharged_us()), (Time(40 * STRETCH_MAX_US), 0));
    }

    #[test]
    fn what_lies_behind_a_standstill_has_no_time() {
        let mut clock = ServiceClock::new(Time(0), 0);
        assert_eq!(clock.mono_us_at(Time(7 * S)), Some(7 * S));
        clock.change_made();
        for (due_us, at) in [(STRETCH_MAX_US - 1, true), (STRETCH_MAX_US, true), (STRETCH_MAX_US + 1, false)] {
            assert_eq!(clock.mono_us_at(Time(due_us)), at.then_some(due_us), "{due_us}");
        }
    }

    #[test]
    fn while_nobody_holds_anything_sleeping_is_no_standstill() {
        let mut clock = ServiceClock::new(Time(0), 0);
        assert_eq!(clock.advance(3600 * S, false), Time(3600 * S));
    }

    #[test]
    fn a_clock_that_steps_back_stands_still() {
        let mut clock = ServiceClock::new(Time(9), 10 * S);
        assert_eq!(clock.advance(3 * S, true), Time(9));
        assert_eq!(clock.advance(10 * S + 1, true), Time(10));
    }
}
