//! Counters by two labels whose values are few and known, found without a lock: `Family` alone takes one at every look.

use std::hash::Hash;
use std::sync::OnceLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// `R` by `C` counters. Each is shown from its first look on, so that combinations that never happen stay out of the
/// exposition. A family of which none was looked at is not shown at all, its name and type included.
#[derive(Debug)]
pub(super) struct Grid<L, const R: usize, const C: usize> {
    family: Family<L, Counter>,
    cells: [[OnceLock<Counter>; C]; R],
}

impl<L: Clone + Eq + Hash, const R: usize, const C: usize> Grid<L, R, C> {
    pub(super) fn new(family: Family<L, Counter>) -> Self {
        Grid { family, cells: std::array::from_fn(|_| std::array::from_fn(|_| OnceLock::new())) }
    }

    /// The counter of this row and column, which `labels` names. The same place always has the same labels.
    pub(super) fn at(&self, row: usize, column: usize, labels: impl FnOnce() -> L) -> &Counter {
        self.cells[row][column].get_or_init(|| self.family.get_or_create_owned(&labels()))
    }
}
