//! Places in a stream: epochs and positions.

use std::fmt;

/// The reign of one owner over a stream. It rises, durably, each time a stream is opened, and fences off every append
/// of an earlier owner. The first owner has epoch 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of the next owner.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A place in a stream, counted in changes: the first change has position 1 and every change takes the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Position(pub u64);

impl Position {
    /// Before the first change: the head of an empty stream.
    pub const START: Position = Position(0);

    /// The position of the next change.
    #[must_use]
    pub fn next(self) -> Position {
        self.plus(1)
    }

    /// The position this many changes later.
    #[must_use]
    pub fn plus(self, changes: u64) -> Position {
        Position(self.0 + changes)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
