//! The lease clock: it counts while the machine sleeps, and it is the only clock that decides. `std::time::Instant` and
//! the timers of tokio stop during suspend on Linux, so they are used to wake up and never to judge whether a lease is
//! held.

use std::ops::{Add, Sub};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A reading of the lease clock, comparable between the processes of one machine until it is booted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment(Duration);

impl Moment {
    /// A moment so long after the clock's start.
    pub fn from_start(elapsed: Duration) -> Moment {
        Moment(elapsed)
    }

    /// The time since the clock's start, which is when the machine was booted on Linux.
    pub fn since_start(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero when it is before.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    /// Never before the clock's start.
    fn sub(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(span))
    }
}

/// A clock that counts while the machine sleeps. Clones are one clock.
#[derive(Clone, Debug, Default)]
pub struct LeaseClock {
    /// Time that was added by hand, in microseconds.
    added_us: Arc<AtomicU64>,
}

impl LeaseClock {
    /// The clock of this machine.
    pub fn system() -> LeaseClock {
        LeaseClock::default()
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        Moment(read() + Duration::from_micros(self.added_us.load(Ordering::SeqCst)))
    }

    /// Moves it ahead, as a suspended machine would: timers notice nothing. For tests.
    pub fn advance(&self, by: Duration) {
        self.added_us.fetch_add(u64::try_from(by.as_micros()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

#[cfg(unix)]
fn read() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    // On Apple's systems this clock goes on while the machine sleeps; on Linux only CLOCK_BOOTTIME does.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
fn read() -> Duration {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_one_clock_and_a_jump_is_seen_at_once() {
        let clock = LeaseClock::system();
        let clone = clock.clone();
        let before = clock.now();
        clone.advance(Duration::from_hours(1));
        assert!(clock.now().since(before) >= Duration::from_hours(1));
        assert!(LeaseClock::system().now() < clock.now());
    }

    #[test]
    fn moments_neither_overflow_nor_go_below_the_start() {
        let start = Moment::default();
        assert_eq!(start - Duration::from_secs(1), start);
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!((start + Duration::MAX) + Duration::MAX, Moment::from_start(Duration::MAX));
    }
}
