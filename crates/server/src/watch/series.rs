//! The last ten minutes, second by second, for charts: the events of each, how long callers waited, and how much was
//! held. A fixed number of buckets, each with a small histogram of waits.

use leasehold_engine::{Ending, Kind, Totals, Wall, What};
use leasehold_journal::Happened;

use crate::limits::SERIES_SECONDS;

pub(crate) const STEP_S: u64 = 1;
const S_US: u64 = 1_000_000;

/// Waits are counted by magnitude: four steps to a doubling, so a percentile is at most a fifth too high.
const STEPS_PER_DOUBLING: u32 = 4;
const MAGNITUDES: usize = 41 * STEPS_PER_DOUBLING as usize;

/// One second.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    /// Which second this is about, since 1970.
    pub(crate) second: u64,
    pub(crate) grants: u32,
    pub(crate) waits: u32,
    pub(crate) renewals: u32,
    pub(crate) expiries: u32,
    pub(crate) ended: u32,
    /// As of the last event in it.
    pub(crate) holders: u32,
    pub(crate) waiters: u32,
    /// The difference to the number before it, as far as the events tell.
    pub(crate) holders_more: i32,
    pub(crate) waiters_more: i32,
    /// How many grants had waited for how long; empty while none had.
    pub(crate) waited: Vec<u32>,
}

impl Bucket {
    fn new(second: u64, holders: u32, waiters: u32) -> Self {
        Bucket {
            second,
            grants: 0,
            waits: 0,
            renewals: 0,
            expiries: 0,
            ended: 0,
            holders,
            waiters,
            holders_more: 0,
            waiters_more: 0,
            waited: Vec::new(),
        }
    }

    fn take(&mut self, what: &What) {
        match what {
            What::Granted { waited_us, .. } => {
                self.grants += 1;
                self.holders_more += 1;
                self.waiters_more -= i32::from(*waited_us > 0);
                if self.waited.is_empty() {
                    self.waited = vec![0; MAGNITUDES];
                }
                self.waited[magnitude(*waited_us)] += 1;
            }
            What::Queued => {
                self.waits += 1;
                self.waiters_more += 1;
            }
            What::Renewed { .. } => self.renewals += 1,
            What::GraceBegan { .. } => self.expiries += 1,
            What::Ended { how, held_us, .. } => {
                self.ended += 1;
                match held_us {
                    Some(_) => self.holders_more -= 1,
                    None => self.waiters_more -= 1,
                }
                self.expiries += u32::from(*how == Ending::Expired);
            }
            What::Configured { .. }
            | What::Unconfigured
            | What::Paused { .. }
            | What::Resumed { .. }
            | What::SlotServed { .. }
            | What::GraceOver => {}
        }
    }

    /// The holders and waiters before it.
    fn before(&self) -> (u32, u32) {
        let before = |count: u32, more: i32| count.saturating_add_signed(more.saturating_neg());
        (before(self.holders, self.holders_more), before(self.waiters, self.waiters_more))
    }

    /// The wait that `part` percent of the grants did not exceed; `None` without a grant.
    pub(crate) fn percentile_us(&self, part: u64) -> Option<u64> {
        let count: u64 = self.waited.iter().map(|&count| u64::from(count)).sum();
        let rank = (count * part).div_ceil(100).max(1);
        let mut seen = 0;
        let at = self.waited.iter().position(|&count| {
            seen += u64::from(count);
            seen >= rank
        });
        at.map(upper_end_us)
    }
}

/// Which of the counts a wait belongs to. The first is for grants that did not wait.
fn magnitude(waited_us: u64) -> usize {
    if waited_us == 0 {
        return 0;
    }
    let doubling = waited_us.ilog2();
    // The two bits below the highest one.
    let step = if doubling >= 2 { (waited_us >> (doubling - 2)) & 0b11 } else { (waited_us << (2 - doubling)) & 0b11 };
    let nth = 1 + doubling * STEPS_PER_DOUBLING + u32::try_from(step).expect("two bits");
    (nth as usize).min(MAGNITUDES - 1)
}

/// The longest wait that belongs there.
fn upper_end_us(magnitude: usize) -> u64 {
    let Some(nth) = magnitude.checked_sub(1) else { return 0 };
    let (doubling, step) = (nth / STEPS_PER_DOUBLING as usize, nth % STEPS_PER_DOUBLING as usize);
    ((5 + step as u64) << doubling) / 4
}

#[derive(Debug)]
pub(crate) struct Series {
    /// By second modulo their number. One that is about another second is out of date.
    buckets: Vec<Option<Bucket>>,
}

impl Series {
    pub(crate) fn new() -> Self {
        Series { buckets: vec![None; SERIES_SECONDS] }
    }

    pub(crate) fn push(&mut self, happened: &[Happened], totals: &Totals) {
        let (holders, waiters) = counts(totals);
        for Happened { wall, effect, .. } in happened {
            let second = wall.0 / S_US;
            let bucket = &mut self.buckets[index(second)];
            let bucket = match bucket {
                Some(bucket) if bucket.second == second => bucket,
                // A clock that was set back far would bring old seconds back. They are not worth it.
                Some(newer) if newer.second > second => continue,
                stale => stale.insert(Bucket::new(second, holders, waiters)),
            };
            bucket.take(&effect.what);
            (bucket.holders, bucket.waiters) = (holders, waiters);
        }
    }

    /// The last ten minutes, oldest first, the present second included. In a second without an event the numbers stayed
    /// as they were.
    pub(crate) fn window(&self, now: Wall, totals: &Totals) -> Window {
        let last = now.0 / S_US;
        let seconds = last.saturating_sub(SERIES_SECONDS as u64 - 1)..=last;
        let known = |second| self.buckets[index(second)].as_ref().filter(|bucket| bucket.second == second);
        // Before the first known event, the numbers were as they had been until it.
        let first_known = seconds.clone().find_map(known);
        let (mut holders, mut waiters) = first_known.map_or(counts(totals), Bucket::before);
        let buckets = seconds.map(|second| {
            let bucket = known(second).cloned().unwrap_or_else(|| Bucket::new(second, holders, waiters));
            (holders, waiters) = (bucket.holders, bucket.waiters);
            bucket
        });
        Window(buckets.collect())
    }
}

/// Consecutive seconds.
#[derive(Debug)]
pub(crate) struct Window(pub(crate) Vec<Bucket>);

fn index(second: u64) -> usize {
    usize::try_from(second % SERIES_SECONDS as u64).expect("it is small")
}

/// The numbers of holders and waiters.
fn counts(totals: &Totals) -> (u32, u32) {
    let narrow = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let holding = Kind::ALL.into_iter().map(|kind| totals.of(kind).holding).sum();
    (narrow(holding), narrow(totals.waiting))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use leasehold_engine::{Effect, ResourceKey};
    use leasehold_journal::{Epoch, Position};

    use super::*;

    fn at(second: u64, what: What) -> Happened {
        let resource = ResourceKey::Lock(Arc::from("x"));
        let effect = Effect { resource, claim: None, client: None, names: None, grant: None, what, nth: 1 };
        Happened { epoch: Epoch(1), position: Position(second), wall: Wall(second * S_US), effect }
    }

    fn granted(waited_us: u64) -> What {
        What::Granted { waited_us, ttl_us: 1, from: None }
    }

    fn totals(holding: usize, waiting: usize) -> Totals {
        let mut totals = Totals { waiting, ..Totals::default() };
        totals.kinds[Kind::Lock as usize].holding = holding;
        totals
    }

    #[test]
    fn magnitudes_hold_what_belongs_to_them_and_little_more() {
        assert_eq!(upper_end_us(magnitude(0)), 0);
        for waited_us in (1..5_000).chain([S_US, 90 * S_US, 3_600 * S_US, 86_400 * S_US]) {
            let upper_us = upper_end_us(magnitude(waited_us));
            assert!(upper_us >= waited_us, "{waited_us} is over {upper_us}");
            assert!(upper_us <= waited_us + waited_us / 4 + 1, "{waited_us} is far below {upper_us}");
        }
        assert_eq!(magnitude(u64::MAX), MAGNITUDES - 1);
    }

    #[test]
    fn seconds_are_counted_apart_and_carry_on() {
        let mut series = Series::new();
        series.push(&[at(1_000, granted(0)), at(1_000, What::Queued)], &totals(1, 1));
        series.push(&[at(1_003, granted(8_000_000))], &totals(2, 0));
        let Window(window) = series.window(Wall(1_005 * S_US), &totals(2, 0));
        assert_eq!(window.len(), SERIES_SECONDS);
        assert_eq!(window.last().map(|bucket| bucket.second), Some(1_005));
        assert_eq!((window[0].holders, window[0].waiters), (0, 0), "no lease was held before");
        let recent: Vec<_> = window[SERIES_SECONDS - 6..]
            .iter()
            .map(|bucket| (bucket.grants, bucket.waits, bucket.holders, bucket.waiters, bucket.percentile_us(99)))
            .collect();
        let p99_us = upper_end_us(magnitude(8_000_000));
        assert_eq!(
            recent,
            [
                (1, 1, 1, 1, Some(0)),
                (0, 0, 1, 1, None),
                (0, 0, 1, 1, None),
                (1, 0, 2, 0, Some(p99_us)),
                (0, 0, 2, 0, None),
                (0, 0, 2, 0, None),
            ]
        );
    }

    #[test]
    fn what_is_older_than_the_window_makes_room() {
        let mut series = Series::new();
        series.push(&[at(1_000, granted(0))], &totals(1, 0));
        series.push(&[at(1_000 + SERIES_SECONDS as u64, granted(0))], &totals(2, 0));
        // The clock was set back: that second has gone.
        series.push(&[at(1_000, granted(0))], &totals(3, 0));
        let Window(window) = series.window(Wall((1_000 + SERIES_SECONDS as u64) * S_US), &totals(3, 0));
        assert_eq!(window.iter().map(|bucket| bucket.grants).sum::<u32>(), 1);
    }

    #[test]
    fn what_was_held_before_anything_happened_is_what_was_held_until_then() {
        let ended = |held_us| What::Ended { how: Ending::Released, held_us, late_us: 0 };
        let mut series = Series::new();
        series.push(&[at(1_000, ended(Some(5))), at(1_000, granted(7)), at(1_000, ended(None))], &totals(4, 2));
        let Window(window) = series.window(Wall(1_001 * S_US), &totals(4, 2));
        let shown: Vec<_> =
            window[SERIES_SECONDS - 3..].iter().map(|bucket| (bucket.holders, bucket.waiters)).collect();
        assert_eq!(shown, [(4, 4), (4, 2), (4, 2)], "one left the queue with the slot, one without");
    }

    #[test]
    fn percentiles_are_of_all_who_were_granted() {
        let mut bucket = Bucket::new(0, 0, 0);
        assert_eq!(bucket.percentile_us(50), None);
        for waited_us in [0, 0, 0, 1_000_000] {
            bucket.take(&granted(waited_us));
        }
        assert_eq!(bucket.percentile_us(50), Some(0));
        assert_eq!(bucket.percentile_us(99), Some(upper_end_us(magnitude(1_000_000))));
    }
}
