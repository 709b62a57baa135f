//! The sequential model: one resource, its leases, and what may have happened to them unheard.

use std::collections::{BTreeMap, BTreeSet};

/// Clocks are not better than this.
const TOLERANCE_PER_MILLE: u64 = 2;

#[derive(Clone, Debug)]
pub(super) struct Lease {
    pub(super) slot: u32,
    pub(super) token: u64,
    /// It cannot have run out before this.
    pub(super) until_us: u64,
    /// A release, or a deletion, without an answer was sent at this time.
    pub(super) may_end_from_us: Option<u64>,
}

impl Lease {
    /// Whether it may have ended, unheard, by this time.
    pub(super) fn may_be_gone(&self, by_us: u64) -> bool {
        by_us >= self.until_us || self.may_end_from_us.is_some_and(|from_us| from_us <= by_us)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// What the capacity may be; `None` stands for "there is no such resource".
    pub(super) capacities: BTreeSet<Option<u32>>,
    /// Granted, and not known to have ended. No more than there are slots.
    pub(super) leases: BTreeMap<String, Lease>,
    pub(super) ended: BTreeSet<String>,
    /// Those that stand in line, by the position at which they were heard of first.
    pub(super) waiting: BTreeMap<String, u64>,
    pub(super) last_token: u64,
    /// Every token that was heard of.
    pub(super) tokens: BTreeSet<u64>,
    /// What each key led to.
    pub(super) keys: BTreeMap<String, String>,
    /// When calls of unknown outcome that ask for a slot were sent, in order.
    pub(super) unknown_acquires_us: Vec<u64>,
    /// Configurations and deletions without an answer: when, and what the capacity would be.
    pub(super) unknown_shapes: Vec<(u64, Option<u32>)>,
}

impl Row {
    /// What the capacity may be by this time.
    pub(super) fn possible(&self, by_us: u64) -> BTreeSet<Option<u32>> {
        let unheard = self.unknown_shapes.iter().filter(|(from_us, _)| *from_us <= by_us).map(|(_, shape)| *shape);
        self.capacities.iter().copied().chain(unheard).collect()
    }

    pub(super) fn capacity_max(&self, by_us: u64) -> u32 {
        self.possible(by_us).into_iter().map(|capacity| capacity.unwrap_or(0)).max().unwrap_or(0)
    }

    pub(super) fn capacity_min(&self, by_us: u64) -> u32 {
        self.possible(by_us).into_iter().map(|capacity| capacity.unwrap_or(0)).min().unwrap_or(0)
    }

    /// Leases that are held for certain.
    pub(super) fn certain(&self, by_us: u64) -> usize {
        self.leases.values().filter(|lease| !lease.may_be_gone(by_us)).count()
    }

    /// Leases that may be held, those included that nobody heard of.
    pub(super) fn possible_holders(&self, by_us: u64) -> usize {
        self.leases.len() + self.unknown_acquires_us.partition_point(|sent_us| *sent_us <= by_us)
    }

    pub(super) fn end(&mut self, lease: &str) {
        self.leases.remove(lease);
        self.ended.insert(lease.to_owned());
    }

    pub(super) fn end_all(&mut self) {
        self.ended.extend(std::mem::take(&mut self.leases).into_keys());
        self.waiting.clear();
    }
}

/// The earliest end of a lease that was asked for at `start_us`.
pub(super) fn until(start_us: u64, ttl_us: u64) -> u64 {
    start_us + ttl_us - ttl_us * TOLERANCE_PER_MILLE / 1000
}
