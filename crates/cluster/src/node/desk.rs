//! The desk of an owner: the asks that it serves, each with the link it came by, and the peers that send them.
//!
//! An ask repeated under its number replaces the earlier one. An answer that was written to
//! a link counts as told. Callers whose answer could not be written, and those parked on a lost link, leave after two
//! seconds unless they are asked for again.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_engine::ClaimId;
use leasehold_journal::{Epoch, Ticket};

use crate::ids::Peer;
use crate::message::PeerAddress;

/// How long a lost link may take to come back.
pub(crate) const LOST_US: u64 = 2_000_000;

/// The nodes that this one has heard of, by numbers that stay: an ask carries the number instead of the address.
#[derive(Debug)]
pub(crate) struct Peers {
    numbers: BTreeMap<PeerAddress, Peer>,
    known: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    address: PeerAddress,
    /// The link to it, while there is one.
    link: Option<u64>,
    /// There was a link to it at some time.
    was_linked: bool,
    /// The newest link by which it has spoken.
    newest: u64,
}

impl Peers {
    pub(crate) fn new(me: &PeerAddress) -> Self {
        let mut peers = Peers { numbers: BTreeMap::new(), known: Vec::new() };
        assert_eq!(peers.number(me), Peer::ME, "the first number is this node's own");
        peers
    }

    pub(crate) fn number(&mut self, address: &PeerAddress) -> Peer {
        if let Some(peer) = self.numbers.get(address) {
            return *peer;
        }
        let peer = Peer(u32::try_from(self.known.len()).expect("addresses are few"));
        self.numbers.insert(address.clone(), peer);
        self.known.push(Known { address: address.clone(), link: None, was_linked: false, newest: 0 });
        peer
    }

    pub(crate) fn address(&self, peer: Peer) -> &PeerAddress {
        &self.known[peer.0 as usize].address
    }

    pub(crate) fn link(&self, peer: Peer) -> Option<u64> {
        self.known[peer.0 as usize].link
    }

    /// Returns whether there is a link to the node of this address, or it is this one.
    pub(crate) fn is_linked(&self, address: &str) -> bool {
        self.numbers.get(address).is_some_and(|peer| *peer == Peer::ME || self.link(*peer).is_some())
    }

    /// Returns whether there was a link to the node of this address, and there is none now. An address that never led
    /// anywhere says nothing of its node.
    pub(crate) fn is_lost(&self, address: &str) -> bool {
        let known = self.numbers.get(address).map(|peer| &self.known[peer.0 as usize]);
        known.is_some_and(|known| known.was_linked && known.link.is_none())
    }

    /// Returns the link before this one.
    pub(crate) fn set_link(&mut self, peer: Peer, link: Option<u64>) -> Option<u64> {
        let known = &mut self.known[peer.0 as usize];
        known.was_linked |= link.is_some();
        std::mem::replace(&mut known.link, link)
    }

    /// Returns whether a message that came by this link counts: once a newer one has spoken, older ones do not.
    pub(crate) fn hears(&mut self, peer: Peer, link: u64) -> bool {
        let newest = &mut self.known[peer.0 as usize].newest;
        if link < *newest {
            return false;
        }
        *newest = link.max(*newest);
        true
    }
}

/// A relay and its number of the call.
pub(crate) type Key = (Peer, u64);

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
}

#[derive(Debug, Default)]
pub(crate) struct Desk {
    asks: BTreeMap<Key, Served>,
    /// Those whose link is lost, by the time since which it has been.
    lost: BTreeSet<(u64, Key)>,
}

impl Desk {
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut Served> {
        self.asks.get_mut(&key)
    }

    /// Puts an ask down, in place of its earlier sending.
    pub(crate) fn insert(&mut self, key: Key, served: Served) {
        if let Some(at_us) = self.asks.insert(key, served).and_then(|before| before.lost_at_us) {
            self.lost.remove(&(at_us, key));
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<Served> {
        let served = self.asks.remove(&key)?;
        if let Some(at_us) = served.lost_at_us {
            self.lost.remove(&(at_us, key));
        }
        Some(served)
    }

    /// The answer to this ask could not be written.
    pub(crate) fn set_untold(&mut self, key: Key, now_us: u64, untold: Option<ClaimId>) {
        let Some(served) = self.asks.get_mut(&key) else { return };
        served.untold = untold;
        let at_us = *served.lost_at_us.get_or_insert(now_us);
        self.lost.insert((at_us, key));
    }

    /// The link of this number is lost.
    pub(crate) fn lose(&mut self, peer: Peer, link: u64, now_us: u64) {
        for (key, served) in self.asks.range_mut((peer, 0)..=(peer, u64::MAX)) {
            if served.link <= link && served.lost_at_us.is_none() {
                served.lost_at_us = Some(now_us);
                self.lost.insert((now_us, *key));
            }
        }
    }

    /// Takes one whose link has been lost for too long.
    pub(crate) fn take_lost(&mut self, now_us: u64) -> Option<Served> {
        let &(_, key) = self.lost.first().filter(|(at_us, _)| now_us >= at_us + LOST_US)?;
        self.remove(key)
    }

    /// The partition is not owned any more: its asks are answered by what deposing told.
    pub(crate) fn clear(&mut self, partition: u32) {
        self.asks.retain(|_, served| served.partition != partition);
        let asks = &self.asks;
        self.lost.retain(|(_, key)| asks.contains_key(key));
    }
}
