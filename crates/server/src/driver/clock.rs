//! The only reader of the clocks that decide about leases: partitions and nodes are handed `now`. Other modules read a
//! steady clock for timeouts of their own, such as those of sockets, streams and lookouts, and to measure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use leasehold_engine::Wall;
use leasehold_journal::Clocks;

/// The driver's source of time.
#[derive(Debug)]
pub struct Clock(Source);

#[derive(Debug)]
enum Source {
    System {
        started: Instant,
        wall: WallReading,
    },
    /// Moved by hand, so that tests neither sleep nor guess.
    Manual {
        mono_us: AtomicU64,
        wall_start: Wall,
    },
}

/// The wall clock, which decides nothing about leases: a reading is good for a millisecond, by the steady clock.
#[derive(Debug)]
struct WallReading {
    /// When it was read, by the steady clock.
    read_at_us: AtomicU64,
    /// How far the wall clock was ahead of the steady one.
    ahead_us: AtomicU64,
}

/// How long a reading of the wall clock is good for.
const WALL_FRESH_US: u64 = 1_000;

/// Far from every time of a process, in both directions.
const NEVER_US: u64 = u64::MAX / 2;

impl Default for WallReading {
    fn default() -> Self {
        WallReading { read_at_us: AtomicU64::new(NEVER_US), ahead_us: AtomicU64::new(0) }
    }
}

impl WallReading {
    fn at(&self, mono_us: u64) -> Wall {
        // Neither for a time before it, of a thread that looked at the steady clock a moment earlier.
        if mono_us.wrapping_sub(self.read_at_us.load(Ordering::Acquire)) < WALL_FRESH_US {
            return Wall(mono_us.saturating_add(self.ahead_us.load(Ordering::Relaxed)));
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_us = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
        // Seen by all that see the time of the reading.
        self.ahead_us.store(wall_us.saturating_sub(mono_us), Ordering::Relaxed);
        self.read_at_us.store(mono_us, Ordering::Release);
        Wall(wall_us)
    }
}

impl Clock {
    pub fn system() -> Self {
        Clock(Source::System { started: Instant::now(), wall: WallReading::default() })
    }

    /// A clock that stands still until `Handle::advance` moves it.
    pub fn manual(wall_start: Wall) -> Self {
        Clock(Source::Manual { mono_us: AtomicU64::new(0), wall_start })
    }

    pub(super) fn read(&self) -> Clocks {
        let mono_us = self.mono_us();
        let wall = match &self.0 {
            Source::System { wall, .. } => wall.at(mono_us),
            Source::Manual { wall_start, .. } => wall_start.plus(mono_us),
        };
        Clocks { mono_us, wall }
    }

    pub(super) fn mono_us(&self) -> u64 {
        match &self.0 {
            Source::System { started, .. } => {
                u64::try_from(started.elapsed().as_micros()).expect("a process lives less than 580 000 years")
            }
            Source::Manual { mono_us, .. } => mono_us.load(Ordering::SeqCst),
        }
    }

    /// Moves a manual clock; a system clock moves by itself.
    pub(super) fn advance(&self, by_us: u64) {
        match &self.0 {
            Source::System { .. } => panic!("a system clock is not moved by hand"),
            Source::Manual { mono_us, .. } => {
                mono_us.fetch_add(by_us, Ordering::SeqCst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system_us() -> u64 {
        u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
    }

    #[test]
    fn a_reading_of_the_wall_clock_is_good_for_a_millisecond() {
        let reading = WallReading::default();
        let before_us = system_us();
        let Wall(first_us) = reading.at(0);
        assert!((before_us..=system_us()).contains(&first_us), "read, also right after the start");
        assert_eq!(reading.at(WALL_FRESH_US - 1), Wall(first_us + WALL_FRESH_US - 1), "counted on by the steady clock");
        // As if the wall clock had been set back by an hour.
        reading.ahead_us.fetch_add(3_600_000_000, Ordering::Relaxed);
        assert!(reading.at(1).0 > system_us() + 3_599_000_000);
        let before_us = system_us();
        let Wall(again_us) = reading.at(WALL_FRESH_US);
        assert!((before_us..=system_us()).contains(&again_us), "read anew");
        let before_us = system_us();
        let Wall(earlier_us) = reading.at(WALL_FRESH_US - 1);
        assert!((before_us..=system_us()).contains(&earlier_us), "a time before the reading");
    }
}
