//! The only reader of clocks. Every other module is handed `now`.

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
    },
    /// Moved by hand, so that tests neither sleep nor guess.
    Manual {
        mono_us: AtomicU64,
        wall_start: Wall,
    },
}

impl Clock {
    pub fn system() -> Self {
        Clock(Source::System { started: Instant::now() })
    }

    /// A clock that stands still until `Handle::advance` moves it.
    pub fn manual(wall_start: Wall) -> Self {
        Clock(Source::Manual { mono_us: AtomicU64::new(0), wall_start })
    }

    pub(super) fn read(&self) -> Clocks {
        let mono_us = self.mono_us();
        let wall = match &self.0 {
            Source::System { .. } => {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Wall(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX))
            }
            Source::Manual { wall_start, .. } => wall_start.plus(mono_us),
        };
        Clocks { mono_us, wall }
    }

    pub(super) fn mono_us(&self) -> u64 {
        match &self.0 {
            Source::System { started } => {
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
