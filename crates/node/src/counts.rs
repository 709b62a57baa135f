//! Things that a node counts for the operator.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only rises.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn one_more(&self) {
        self.add(1);
    }

    /// The number so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// All counts of a node since its process began.
#[derive(Debug, Default)]
pub struct NodeCounts {
    /// Partitions taken from nodes that were buried.
    pub taken_from_dead: Count,
    /// Partitions taken that had no owner.
    pub taken_free: Count,
    /// Partitions let go.
    pub let_go: Count,
    /// Nodes that this one buried.
    pub buried: Count,
    /// Lives of this node.
    pub joined: Count,
    /// Proofs by a call of their own, not by an append.
    pub proofs: Count,
    /// Transactions of appends.
    pub appends: Count,
    /// Asks that went over a link for the first time.
    pub asked: Count,
    /// Asks that were sent again.
    pub asked_again: Count,
    /// Calls to the store without an answer.
    pub store_away: Count,
    /// How often the store showed less than before.
    pub went_back: Count,
    /// Links that were lost.
    pub links_lost: Count,
}
