//! The desk of an owner: the asks that it serves, each with the link it came by.
//!
//! An ask repeated under its number replaces the earlier one. What was written to a link counts as told; what could not
//! be written, and callers parked on a lost link, leave after two seconds unless they are asked for again.

use std::collections::BTreeMap;

use leasehold_engine::ClaimId;
use leasehold_journal::{Epoch, Ticket};

use crate::message::PeerAddress;

/// How long a lost link may take to come back.
pub(crate) const LOST_US: u64 = 2_000_000;

#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) partition: u32,
    pub(crate) sending: u64,
    /// The epoch that it is for.
    pub(crate) epoch: Epoch,
    pub(crate) link: u64,
    pub(crate) ticket: Option<Ticket>,
    /// Since when its link has been lost.
    pub(crate) lost_at_us: Option<u64>,
    /// Its answer could not be written, and told of this claim.
    pub(crate) untold: Option<ClaimId>,
    /// Its answer was written. Kept by a planted bug only.
    pub(crate) is_written: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Desk {
    pub(crate) asks: BTreeMap<(PeerAddress, u64), Served>,
    /// The newest link that has spoken, for each peer.
    newest: BTreeMap<PeerAddress, u64>,
}

impl Desk {
    /// Returns whether a message that came by this link counts: once a newer one has spoken, older ones do not.
    pub(crate) fn hears(&mut self, peer: &PeerAddress, link: u64) -> bool {
        let newest = self.newest.entry(peer.clone()).or_default();
        if link < *newest {
            return false;
        }
        *newest = link.max(*newest);
        true
    }

    /// The link of this number is lost.
    pub(crate) fn lose(&mut self, peer: &PeerAddress, link: u64, now_us: u64) {
        for ((of, _), served) in &mut self.asks {
            if of == peer && served.link <= link && served.lost_at_us.is_none() {
                served.lost_at_us = Some(now_us);
            }
        }
    }

    /// Takes those whose link has been lost for too long.
    pub(crate) fn take_lost(&mut self, now_us: u64) -> Vec<Served> {
        let is_over = |served: &Served| served.lost_at_us.is_some_and(|at| now_us >= at + LOST_US);
        let keys: Vec<_> = self.asks.iter().filter(|(_, served)| is_over(served)).map(|(key, _)| key.clone()).collect();
        keys.iter().filter_map(|key| self.asks.remove(key)).collect()
    }

    /// The partition is not owned any more: its asks are answered by what deposing told.
    pub(crate) fn clear(&mut self, partition: u32) {
        self.asks.retain(|_, served| served.partition != partition);
    }
}
