//! Points in time. The engine compares only service time; the wall clock is carried along to be shown to people.

use std::fmt;

/// A point in service time: microseconds that belong to the data, not to a machine. Starts at zero with the data and
/// only advances while the partition can serve.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(pub u64);

impl Time {
    /// Later than every point that can be reached: "no deadline".
    pub const NEVER: Time = Time(u64::MAX);

    /// The point `duration_us` after this one, or `NEVER`.
    #[must_use]
    pub fn plus(self, duration_us: u64) -> Time {
        Time(self.0.saturating_add(duration_us))
    }

    /// Microseconds from `earlier` to here; zero when `earlier` is not earlier.
    pub fn since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Time::NEVER { f.write_str("never") } else { write!(f, "{}us", self.0) }
    }
}

/// A reading of the wall clock: microseconds since 1970 in UTC. Shown, never compared with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Wall(pub u64);

impl Wall {
    /// The reading `duration_us` after this one.
    #[must_use]
    pub fn plus(self, duration_us: u64) -> Wall {
        Wall(self.0.saturating_add(duration_us))
    }
}

/// When a command is handled: service time to decide by, and the wall clock to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Moment {
    /// Service time.
    pub at: Time,
    /// The wall clock.
    pub wall: Wall,
}

impl Moment {
    /// The wall clock's expected reading when service time reaches `later`.
    pub fn wall_at(self, later: Time) -> Wall {
        if later >= self.at {
            self.wall.plus(later.since(self.at))
        } else {
            Wall(self.wall.0.saturating_sub(self.at.since(later)))
        }
    }
}
