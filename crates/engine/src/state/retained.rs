//! Claims that ended and can still be read, and locks that lapsed: which of them go first. The oldest go first once
//! they are too old. When too many are retained, those without an idempotency key go first, so that calls without a key
//! never make the service forget that another call's key was spent.

use std::collections::BTreeSet;

use super::Cix;
use crate::time::Time;

/// When it ended, its order of creation, and its index.
pub(crate) type Entry = (Time, u64, Cix);

#[derive(Debug, Default)]
pub(crate) struct Retained {
    plain: BTreeSet<Entry>,
    /// Those that an idempotency key leads to.
    keyed: BTreeSet<Entry>,
}

impl Retained {
    pub(crate) fn len(&self) -> usize {
        self.plain.len() + self.keyed.len()
    }

    pub(crate) fn insert(&mut self, entry: Entry, is_keyed: bool) {
        self.of(is_keyed).insert(entry);
    }

    /// Returns whether the entry was there.
    pub(crate) fn remove(&mut self, entry: &Entry, is_keyed: bool) -> bool {
        self.of(is_keyed).remove(entry)
    }

    pub(crate) fn contains(&self, entry: &Entry, is_keyed: bool) -> bool {
        if is_keyed { self.keyed.contains(entry) } else { self.plain.contains(entry) }
    }

    pub(crate) fn oldest(&self) -> Option<&Entry> {
        self.plain.first().into_iter().chain(self.keyed.first()).min()
    }

    /// The entry to drop first when too many are retained.
    pub(crate) fn least_missed(&self) -> Option<&Entry> {
        self.plain.first().or_else(|| self.oldest())
    }

    fn of(&mut self, is_keyed: bool) -> &mut BTreeSet<Entry> {
        if is_keyed { &mut self.keyed } else { &mut self.plain }
    }
}
