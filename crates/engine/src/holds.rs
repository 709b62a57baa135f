//! How long the slots of a resource were held: a mean of the past, from which waiters learn how long they may have to
//! wait. It is an estimate, not a promise.

/// Past holds beyond this number weigh less and less, so that the mean follows a change of habit.
const WEIGHED_MAX: u32 = 16;
/// Below this number of holds there is no estimate.
const KNOWN_FROM: u32 = 5;
/// A holder that has its slot for longer than usual is expected to need this part of the mean more.
const OVERDUE_PART: u64 = 8;
/// Up to so many holders are looked at one by one, each time a waiter is told when it may expect a slot.
pub(crate) const LOOKED_AT_MAX: u32 = 64;

/// A mean of past holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holds {
    /// How many holds the mean is of; not counted beyond those that weigh in full.
    pub count: u32,
    /// The mean.
    pub mean_us: u64,
}

impl Holds {
    /// The same with one more hold that is over.
    #[must_use]
    pub(crate) fn with(mut self, held_us: u64) -> Self {
        self.count = (self.count + 1).min(WEIGHED_MAX);
        let weight = u64::from(self.count);
        if held_us >= self.mean_us {
            self.mean_us += (held_us - self.mean_us) / weight;
        } else {
            self.mean_us -= (self.mean_us - held_us) / weight;
        }
        self
    }

    /// The mean, once there are enough of them.
    pub(crate) fn known(self) -> Option<u64> {
        (self.count >= KNOWN_FROM).then_some(self.mean_us)
    }
}

/// The rest of a hold that has lasted for `held_us`.
pub(crate) fn rest_us(mean_us: u64, held_us: u64) -> u64 {
    mean_us.saturating_sub(held_us).max(mean_us / OVERDUE_PART)
}

/// When the slots of a resource become free, as far as the past tells.
#[derive(Clone, Debug)]
pub(crate) struct Outlook {
    mean_us: u64,
    capacity: u64,
    /// When the present holders are expected to let go, soonest first, without those above a lowered capacity. Empty
    /// where there are too many to look at: they are then taken to be spread evenly.
    rests_us: Vec<u64>,
}

impl Outlook {
    /// `rests_us`: of each holder, in any order; `None` where there are too many to look at.
    pub(crate) fn new(mean_us: u64, capacity: u32, rests_us: Option<Vec<u64>>) -> Option<Self> {
        if capacity == 0 {
            return None;
        }
        let mut rests_us = rests_us.unwrap_or_default();
        rests_us.sort_unstable();
        rests_us.drain(..rests_us.len().saturating_sub(capacity as usize));
        Some(Outlook { mean_us, capacity: u64::from(capacity), rests_us })
    }

    /// When the waiter at this place in the queue gets a slot; 1 is next.
    pub(crate) fn eta_us(&self, position: u32) -> u64 {
        let ahead = u64::from(position.saturating_sub(1));
        if self.rests_us.is_empty() {
            return self.mean_us.saturating_mul(ahead + 1) / self.capacity;
        }
        // Every claim is held for the mean time, so that slots come free in turn, round after round.
        let slots = self.rests_us.len() as u64;
        let rest_us = usize::try_from(ahead % slots).map_or(0, |nth| self.rests_us[nth]);
        rest_us.saturating_add(self.mean_us.saturating_mul(ahead / slots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_and_is_unknown_at_first() {
        let mut holds = Holds::default();
        for nth in 1..5 {
            holds = holds.with(2_000);
            assert_eq!((holds.known(), holds.count), (None, nth));
        }
        holds = holds.with(2_000);
        assert_eq!(holds.known(), Some(2_000));
        (0..1_000).for_each(|_| holds = holds.with(9_000));
        assert!(holds.count == 16 && holds.mean_us > 8_900, "{holds:?}");
        (0..1_000).for_each(|_| holds = holds.with(0));
        assert!(holds.mean_us < 16, "{holds:?}");
        (0..100).for_each(|_| holds = holds.with(u64::MAX));
        assert!(holds.mean_us > u64::MAX / 2, "no overflow");
    }

    #[test]
    fn slots_come_free_in_turn() {
        let outlook = Outlook::new(100, 2, Some(vec![70, 20])).unwrap();
        let etas: Vec<u64> = (1..=5).map(|position| outlook.eta_us(position)).collect();
        assert_eq!(etas, [20, 70, 120, 170, 220]);
        let lowered = Outlook::new(100, 1, Some(vec![70, 20])).unwrap();
        assert_eq!(
            (lowered.eta_us(1), lowered.eta_us(2)),
            (70, 170),
            "the first slot that comes free is not given out"
        );
        assert!(Outlook::new(100, 0, Some(vec![1])).is_none(), "a paused resource");
        let many = Outlook::new(100, 50, None).unwrap();
        assert_eq!((many.eta_us(1), many.eta_us(50), many.eta_us(u32::MAX)), (2, 100, 8_589_934_590));
        assert_eq!(Outlook::new(u64::MAX, 1, None).unwrap().eta_us(u32::MAX), u64::MAX);
        assert_eq!((rest_us(80, 30), rest_us(80, 75), rest_us(80, 1_000)), (50, 10, 10));
    }
}
