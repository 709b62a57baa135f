//! A store that goes back: a snapshot is restored, or an asynchronous standby is promoted. Changes that were durable
//! are gone, and with them answers that were given. The checks go on from what is left: tokens and epochs of what was
//! lost are not used again (S3, S10).

use std::collections::BTreeMap;

use leasehold_cluster::store::Shelf;
use leasehold_cluster::{Map, Node};
use leasehold_engine::ResourceKey;
use leasehold_journal::{Batch, EPOCHS_SKIPPED, Epoch};

use super::client::CallState;
use super::{ClusterWorld, Event, limits, tell};
use crate::Violation;
use crate::ledger::invariant::{Check, ensure};
use crate::ledger::{Ledger, When};

/// How often the state of the store is kept.
const KEEP_EVERY_US: u64 = 150_000;
/// So many are kept.
const KEPT: usize = 24;
/// Every node has looked at the map within this time.
const LOOKED: usize = 10;
/// A node that has seen more than the store shows notices within this time, if it lives.
const NOTICED_US: u64 = 2_500_000;

/// The earlier states that a store can go back to.
#[derive(Debug)]
pub(super) struct Past {
    kept: Vec<(u64, Shelf)>,
    went_back_us: u64,
    /// Every batch that was durable, for each partition.
    logs: Vec<Vec<(Batch, Vec<When>)>>,
    /// The highest epoch of each partition in what was lost.
    lost_epochs: Vec<u64>,
    /// Batches that were lost, and tokens that were given out in them: they count as soon as another batch lands.
    lost: Vec<Option<Lost>>,
}

#[derive(Debug)]
struct Lost {
    /// Those that were not sent again.
    batches: Vec<Batch>,
    has_epochs: bool,
    last_token: u64,
    tokens: BTreeMap<ResourceKey, u64>,
}

impl Past {
    pub(super) fn new(partitions: usize) -> Self {
        Past {
            kept: Vec::new(),
            went_back_us: 0,
            logs: vec![Vec::new(); partitions],
            lost_epochs: vec![0; partitions],
            lost: (0..partitions).map(|_| None).collect(),
        }
    }
}

impl ClusterWorld {
    pub(super) fn keep_shelf(&mut self) {
        if self.is_calm || self.counts.went_back > 0 {
            return;
        }
        if self.past.kept.len() == KEPT {
            self.past.kept.remove(0);
        }
        self.past.kept.push((self.now_us, self.shelf.clone()));
        let at_us = self.now_us + KEEP_EVERY_US;
        self.at(at_us, Event::Keep);
    }

    /// The store loses its last commits.
    pub(super) fn go_back(&mut self) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        let chosen = self.past.kept.iter().rev().take(1 + self.strike_rng.index(KEPT)).next_back();
        let Some((at_us, shelf)) = chosen.filter(|(at_us, shelf)| self.may_go_back(*at_us, shelf)).cloned() else {
            let at_us = self.now_us + 200_000;
            self.at(at_us, Event::GoBack);
            return Ok(());
        };
        self.counts.went_back += 1;
        self.past.went_back_us = self.now_us;
        tell!(self, "the store goes back to {at_us}, from revision {} to {}", self.shelf.revision(), shelf.revision());
        self.shelf = shelf;
        self.buried.clear();
        self.note_buried();
        self.told.clear();
        self.asks.acknowledged.clear();
        self.asks.refused.clear();
        for call in self.calls.values_mut() {
            (call.sent_epoch, call.sent_head) = (0, 0);
            if call.state != CallState::Open {
                // Its outcome may be lost.
                call.state = CallState::Answered;
            }
        }
        for partition in self.plan.partitions.all() {
            self.rewrite(partition)?;
        }
        self.store_goes_away(100_000);
        Ok(())
    }

    /// A node that slept cannot know, nor can one that has not looked; and where all that have seen what was lost are
    /// dead, no node can. Such losses are not in these worlds: the operator has to tell (`restored`).
    fn may_go_back(&self, at_us: u64, shelf: &Shelf) -> bool {
        let is_awake = |machine: &super::Machine| machine.paused_until_us.max(machine.cut_until_us) <= at_us;
        let looked = self.past.kept.iter().rev().nth(LOOKED).and_then(|(_, shelf)| shelf.map().ok());
        let (Some(looked), Ok(map)) = (looked, self.shelf.map()) else { return false };
        let lives = |owner: &leasehold_cluster::Owner| {
            let is_its = |machine: &super::Machine| machine.node.as_ref().and_then(Node::life) == owner.node;
            owner.node.is_some() && self.machines.iter().any(is_its)
        };
        let is_seen = |partition: u32| {
            let owner = &map.owners[partition as usize];
            let is_lost = shelf.head(partition) != self.shelf.head(partition);
            *owner == looked.owners[partition as usize] && (!is_lost || lives(&owner.value))
        };
        // One that is about to end may be gone before it looks again.
        let stays = |machine: &super::Machine| {
            let seen = machine.node.as_ref().and_then(Node::map).map(|seen| &seen.owners);
            !machine.is_draining && seen == Some(&map.owners)
        };
        self.now_us >= self.store_away_until_us + 1_500_000
            && self.machines.iter().all(is_awake)
            && self.machines.iter().any(stays)
            && self.plan.partitions.all().all(is_seen)
    }

    /// Returns whether the nodes are left alone, until one of them has noticed.
    pub(super) fn is_noticing(&self) -> bool {
        self.counts.went_back > 0 && self.now_us < self.noticed_us()
    }

    /// By then every node that knew of what was lost has noticed.
    pub(super) fn noticed_us(&self) -> u64 {
        self.past.went_back_us + NOTICED_US
    }

    /// The ledger of a partition as of the end of its stream.
    fn rewrite(&mut self, partition: u32) -> Result<(), Violation> {
        let n = partition as usize;
        let head = self.shelf.head(partition).0;
        let owner = self.owner(partition).value.epoch.0;
        let fresh = Ledger { is_relayed: true, ..Ledger::new(limits()) };
        let old = std::mem::replace(&mut self.ledgers[n], fresh);
        let ledger = &mut self.ledgers[n];
        let mut reigns = old.reigns.iter().filter(|(epoch, at)| *epoch <= owner && *at <= head).peekable();
        let is_kept = |(batch, _): &&(Batch, Vec<When>)| batch.last.0 <= head;
        let kept = self.past.logs[n].iter().take_while(is_kept).count();
        let lost = self.past.logs[n].split_off(kept);
        for (batch, whens) in &self.past.logs[n] {
            while let Some((epoch, _)) = reigns.next_if(|(_, at)| *at < batch.first.0) {
                ledger.opened(*epoch)?;
            }
            ledger.accept(batch, whens, &self.asks)?;
        }
        for (epoch, _) in reigns {
            ledger.opened(*epoch)?;
        }
        ensure(ledger.head == head, "S15", || format!("the stream ends at {head}, its batches at {}", ledger.head))?;
        let has_epochs = old.epoch > ledger.epoch;
        self.past.lost_epochs[n] = if has_epochs || !lost.is_empty() { old.epoch.max(owner) } else { 0 };
        let tokens = old.rows.iter().map(|(key, row)| (key.clone(), row.last_token)).collect();
        let batches = lost.into_iter().map(|(batch, _)| batch).collect();
        self.past.lost[n] = Some(Lost { batches, has_epochs, last_token: old.last_token, tokens });
        Ok(())
    }

    /// A batch is durable. One that was lost and is sent again is as it was; after any other, what was lost is lost.
    pub(super) fn remember_batch(&mut self, partition: u32, batch: &Batch, whens: &[When]) {
        let n = partition as usize;
        if self.plan.goes_back_us.is_none() {
            return;
        }
        self.past.logs[n].push((batch.clone(), whens.to_vec()));
        if let Some(lost) = self.past.lost[n].as_mut().filter(|lost| lost.batches.first() == Some(batch)) {
            lost.batches.remove(0);
            if lost.batches.is_empty() && !lost.has_epochs {
                // Nothing is lost after all.
                self.past.lost_epochs[n] = 0;
            }
            return;
        }
        let Some(lost) = self.past.lost[n].take() else { return };
        let ledger = &mut self.ledgers[n];
        ledger.last_token = ledger.last_token.max(lost.last_token);
        for (key, token) in lost.tokens {
            let row = ledger.row(&key);
            row.last_token = row.last_token.max(token);
        }
    }

    /// Returns whether this epoch of a partition may be one of those that were lost.
    pub(super) fn is_lost(&self, partition: u32, epoch: u64) -> bool {
        epoch <= self.past.lost_epochs[partition as usize]
    }

    /// Returns whether a node knows that the store went back, if it did.
    pub(super) fn knows_of_loss(&self, node: &Node) -> bool {
        self.counts.went_back == 0 || self.past.lost_epochs.iter().all(|lost| node.epoch_floor().0 > *lost)
    }

    /// A node told its operator that the store went back.
    pub(super) fn noticed(&mut self, n: usize, what: &str, epoch: Epoch) -> Check {
        self.counts.noticed += 1;
        tell!(self, "m{n} noticed that the store went back: {what}; epochs go on at {epoch}");
        let went_back = self.counts.went_back > 0;
        ensure(went_back, "C3", || format!("m{n} noticed that the store went back, and it did not: {what}"))
    }

    /// At rest every partition has jumped.
    pub(super) fn check_jumps(&mut self, map: &Map) -> Check {
        if self.counts.went_back == 0 {
            return Ok(());
        }
        for (owner, lost) in map.owners.iter().zip(&self.past.lost_epochs).filter(|(_, lost)| **lost > 0) {
            let epoch = owner.value.epoch.0;
            ensure(epoch >= lost + EPOCHS_SKIPPED / 2, "S10", || {
                format!("epoch {epoch} is too near to epoch {lost}, which was lost")
            })?;
            self.counts.jumps += 1;
        }
        Ok(())
    }
}
