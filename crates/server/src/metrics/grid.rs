//! Counters by two labels whose values are few and known, found without a lock: `Family` alone takes one at every look.

use std::hash::Hash;
use std::sync::OnceLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Rows of `C` counters. A counter is exposed from its first use on, so that combinations that never happen stay out of
/// the exposition. A family without a used counter is not exposed at all, its name and type included.
#[derive(Debug)]
pub(super) struct Grid<L, const C: usize> {
    family: Family<L, Counter>,
    cells: Box<[[OnceLock<Counter>; C]]>,
}

impl<L: Clone + Eq + Hash, const C: usize> Grid<L, C> {
    pub(super) fn new(family: Family<L, Counter>, rows: usize) -> Self {
        let row = || std::array::from_fn(|_| OnceLock::new());
        Grid { family, cells: std::iter::repeat_with(row).take(rows).collect() }
    }

    /// The counter of this row and column, which `labels` names. The same place always has the same labels.
    pub(super) fn at(&self, row: usize, column: usize, labels: impl FnOnce() -> L) -> &Counter {
        self.cells[row][column].get_or_init(|| self.family.get_or_create_owned(&labels()))
    }
}
