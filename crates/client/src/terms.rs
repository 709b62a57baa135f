//! The arithmetic of a lease: every point in time follows from when its last answered request was sent and from the
//! length that was answered. No clock, no IO, no randomness: a caller passes in a factor from 0 to 1 where one is
//! drawn.
//!
//! ```text
//! sent ──── renew (a third) ──────────── at risk ─────────── kill ── deadline ─ ends at the service, or later
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Moment;

const SECOND: Duration = Duration::from_secs(1);

/// When a lease was last asked for, and for how long it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The lease clock before the request left.
    pub sent_at: Moment,
    /// `L`, as answered.
    pub length: Duration,
}

impl Terms {
    /// Terms that count from `sent_at`.
    pub fn new(sent_at: Moment, length: Duration) -> Terms {
        Terms { sent_at, length }
    }

    /// `D`: from here on the lease is lost. The margin covers the rates of two clocks, and scheduling.
    pub fn deadline(&self) -> Moment {
        let margin = (self.length / 50).max(Duration::from_millis(50));
        self.sent_at + self.length.saturating_sub(margin)
    }

    /// `R`: not renewed until here, the holder is told.
    pub fn at_risk(&self) -> Moment {
        self.deadline() - (self.length / 3).min(10 * SECOND)
    }

    /// `K`: the last moment to end by force the work that the lease protects. At most 5 s before the deadline, so that
    /// it never comes before `R`, which is at most 10 s before.
    pub fn kill(&self) -> Moment {
        self.deadline() - (self.length / 30).clamp(Duration::from_millis(250), 5 * SECOND)
    }

    /// When the first renewal is sent; `factor` from 0 to 1 is drawn for each.
    pub fn renew_at(&self, factor: f64) -> Moment {
        self.sent_at + (self.length / 3).mul_f64(0.85 + 0.15 * factor.clamp(0.0, 1.0))
    }

    /// `A`: how long an attempt to renew may take, connecting included.
    pub fn attempt_timeout(&self) -> Duration {
        (self.length / 10).clamp(Duration::from_millis(250), 5 * SECOND)
    }

    /// The pause after the `failures`-th failed attempt in a row, counted from 1.
    pub fn retry_pause(&self, failures: u32, factor: f64) -> Duration {
        let doubled = Duration::from_millis(100).saturating_mul(1 << failures.saturating_sub(1).min(20));
        (2 * SECOND).min(self.length / 20).min(doubled).mul_f64(factor.clamp(0.0, 1.0))
    }

    /// The longest that a refused renewal waits because the service said `Retry-After`.
    pub fn longest_obedience(&self, now: Moment) -> Duration {
        self.deadline().since(now) / 4
    }

    /// A grant whose answer took longer than this is confirmed by a renewal before the caller gets it.
    pub fn confirm_after(&self) -> Duration {
        self.length / 10
    }
}

/// The pause before an acquisition is sent again: `failures` in a row, counted from 1.
pub fn backoff(failures: u32, factor: f64) -> Duration {
    let doubled = Duration::from_millis(100).saturating_mul(1 << failures.saturating_sub(1).min(20));
    (5 * SECOND).min(doubled).mul_f64(factor.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_table_of_points() {
        // length; renew at least, at most; attempt; at risk; kill; deadline; all in milliseconds.
        for (length, renew_min, renew_max, attempt, at_risk, kill, deadline) in [
            (30_000, 8_500, 10_000, 3_000, 19_400, 28_400, 29_400),
            (60_000, 17_000, 20_000, 5_000, 48_800, 56_800, 58_800),
            (3_000, 850, 1_000, 300, 1_940, 2_690, 2_940),
            (2_500, 708, 833, 250, 1_616, 2_200, 2_450),
            (1_000, 283, 333, 250, 616, 700, 950),
            (86_400_000, 24_480_000, 28_800_000, 5_000, 84_662_000, 84_667_000, 84_672_000),
            // Shorter than its margin: lost before it began, never held for longer than it is.
            (40, 11, 13, 250, 0, 0, 0),
        ] {
            let terms = Terms::new(Moment::default(), ms(length));
            let at = |moment: Moment| u64::try_from(moment.since_start().as_millis()).unwrap();
            assert_eq!(at(terms.renew_at(0.0)), renew_min, "{length}");
            assert_eq!(at(terms.renew_at(1.0)), renew_max, "{length}");
            assert_eq!(terms.attempt_timeout(), ms(attempt), "{length}");
            assert_eq!(at(terms.at_risk()), at_risk, "{length}");
            assert_eq!(at(terms.kill()), kill, "{length}");
            assert_eq!(at(terms.deadline()), deadline, "{length}");
        }
    }

    #[test]
    fn points_count_from_the_sending() {
        let sent_at = Moment::from_start(ms(5_000));
        assert_eq!(Terms::new(sent_at, ms(30_000)).deadline(), sent_at + ms(29_400));
    }

    #[test]
    fn pauses_double_up_to_their_bounds() {
        let terms = Terms::new(Moment::default(), ms(30_000));
        let pauses: Vec<u64> = (1..8).map(|n| u64::try_from(terms.retry_pause(n, 1.0).as_millis()).unwrap()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1500, 1500, 1500]);
        assert_eq!(Terms::new(Moment::default(), ms(3_000)).retry_pause(9, 1.0), ms(150));
        assert_eq!(Terms::new(Moment::default(), ms(300_000)).retry_pause(90, 1.0), ms(2_000));
        assert_eq!(terms.retry_pause(5, 0.0), Duration::ZERO);
        assert_eq!((backoff(1, 1.0), backoff(6, 1.0), backoff(7, 1.0)), (ms(100), ms(3_200), ms(5_000)));
        assert_eq!(backoff(u32::MAX, 0.5), ms(2_500));
    }

    #[test]
    fn obedience_leaves_room_for_three_more_attempts() {
        let terms = Terms::new(Moment::default(), ms(30_000));
        assert_eq!(terms.longest_obedience(Moment::from_start(ms(9_400))), ms(5_000));
        assert_eq!(terms.longest_obedience(terms.deadline()), Duration::ZERO);
    }
}
