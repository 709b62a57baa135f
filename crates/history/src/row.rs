//! The sequential model: one resource, its leases, and the effects on them that may have gone unheard.

use std::collections::{BTreeMap, BTreeSet};

/// Clocks are not better than this.
const TOLERANCE_PER_MILLE: u64 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) slot: u32,
    pub(crate) token: u64,
    /// It cannot have run out before this.
    pub(crate) until_us: u64,
    /// A release, or a deletion, without an answer was sent at this time.
    pub(crate) may_end_from_us: Option<u64>,
}

impl Lease {
    /// Returns whether it may have ended, unheard, by this time.
    pub(crate) fn may_be_gone(&self, by_us: u64) -> bool {
        by_us >= self.until_us || self.may_end_from_us.is_some_and(|from_us| from_us <= by_us)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// The possible capacities; `None` stands for "there is no such resource".
    pub(crate) capacities: BTreeSet<Option<u32>>,
    /// Granted, and not known to have ended. Never more than there are slots.
    pub(crate) leases: BTreeMap<String, Lease>,
    pub(crate) ended: BTreeSet<String>,
    /// Those that stand in line, by the position at which they were heard of first.
    pub(crate) waiting: BTreeMap<String, u64>,
    pub(crate) last_token: u64,
    /// Every token that was heard of.
    pub(crate) tokens: BTreeSet<u64>,
    /// The claim that each key led to.
    pub(crate) keys: BTreeMap<String, String>,
    /// When calls of unknown outcome that ask for a slot were sent, in order.
    pub(crate) unknown_acquires_us: Vec<u64>,
    /// Configurations and deletions without an answer: the time and the resulting capacity.
    pub(crate) unknown_shapes: Vec<(u64, Option<u32>)>,
}

impl Row {
    /// The possible capacities by this time.
    pub(crate) fn possible(&self, by_us: u64) -> BTreeSet<Option<u32>> {
        let unheard = self.unknown_shapes.iter().filter(|(from_us, _)| *from_us <= by_us).map(|(_, shape)| *shape);
        self.capacities.iter().copied().chain(unheard).collect()
    }

    pub(crate) fn capacity_max(&self, by_us: u64) -> u32 {
        self.possible(by_us).into_iter().map(|capacity| capacity.unwrap_or(0)).max().unwrap_or(0)
    }

    pub(crate) fn capacity_min(&self, by_us: u64) -> u32 {
        self.possible(by_us).into_iter().map(|capacity| capacity.unwrap_or(0)).min().unwrap_or(0)
    }

    /// Leases that are held for certain.
    pub(crate) fn certain(&self, by_us: u64) -> usize {
        self.leases.values().filter(|lease| !lease.may_be_gone(by_us)).count()
    }

    /// Leases that may be held, including those that no client heard of.
    pub(crate) fn possible_holders(&self, by_us: u64) -> usize {
        self.leases.len() + self.unknown_acquires_us.partition_point(|sent_us| *sent_us <= by_us)
    }

    pub(crate) fn end(&mut self, lease: &str) {
        self.leases.remove(lease);
        self.ended.insert(lease.to_owned());
    }

    pub(crate) fn end_all(&mut self) {
        self.ended.extend(std::mem::take(&mut self.leases).into_keys());
        self.waiting.clear();
    }
}

/// The earliest end of a lease that was asked for at `start_us`.
pub(crate) fn until(start_us: u64, ttl_us: u64) -> u64 {
    start_us + ttl_us - ttl_us * TOLERANCE_PER_MILLE / 1000
}
