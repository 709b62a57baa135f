//! The seat of a node at one partition: following it, or on the way to owning it, or owning it, or giving it away.
//!
//! ```text
//! Following ─take─▶ Tail ─▶ First ─▶ Serving ─▶ Closing ─▶ LettingGo ─▶ Following
//!     ▲               │        │        │          │            │
//!     └───────────────┴────────┴─ fenced┴──────────┴────────────┘   the engine is thrown away and read again
//! ```

use std::collections::{BTreeSet, VecDeque};

use leasehold_engine::{Limits, planted};
use leasehold_journal::{Batch, ChunkWriter, Clocks, Epoch, Orphans, Partition, PartitionLimits, Position};

use crate::follower::Follower;
use crate::ids::{Link, NodeId};
use crate::map::Reign;
use crate::message::{Bulletin, PeerAddress};
use crate::store::{Append, CheckpointId};

/// Whom an answer is for: a relay, its call, and which sending of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct To {
    pub(crate) peer: PeerAddress,
    pub(crate) ask: u64,
    pub(crate) sending: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Following,
    /// Taken; the rest of the stream is being read.
    Tail,
    /// The first batch of the epoch is on its way.
    First,
    Serving,
    /// Nothing more is decided; what was decided is being appended and answered.
    Closing,
    /// The letting go was sent: nothing is ever decided in this epoch again.
    LettingGo,
}

#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) partition: u32,
    pub(crate) phase: Phase,
    pub(crate) follower: Option<Follower>,
    pub(crate) reign: Option<Reign>,
    pub(crate) owned: Option<Partition<To>>,
    /// The newest batch of the stream.
    pub(crate) last: Link,
    /// The batch on its way: it is sent again, as it is, until its fate is known.
    pub(crate) in_flight: Option<Append>,
    pub(crate) is_reading: bool,
    pub(crate) read_at_us: u64,
    pub(crate) is_op_open: bool,
    /// Since when the partition has been free for this node to see.
    pub(crate) free_since_us: Option<u64>,
    /// Nodes that have asked again for their callers.
    pub(crate) asked: BTreeSet<NodeId>,
    pub(crate) since_checkpoint: u64,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Observers were told of all changes up to here.
    pub(crate) told: Position,
}

/// A checkpoint on its way to the store.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub(crate) id: CheckpointId,
    pub(crate) chunks: VecDeque<Vec<u8>>,
    pub(crate) put: u32,
    pub(crate) is_finished: bool,
}

impl Seat {
    pub(crate) fn new(partition: u32, limits: &Limits) -> Self {
        Seat {
            partition,
            phase: Phase::Following,
            follower: Some(Follower::new(limits.clone())),
            reign: None,
            owned: None,
            last: Link::default(),
            in_flight: None,
            is_reading: false,
            read_at_us: 0,
            is_op_open: false,
            free_since_us: None,
            asked: BTreeSet::new(),
            since_checkpoint: 0,
            checkpoint: None,
            told: Position::START,
        }
    }

    /// What observers have not been told yet. An engine that was thrown away and read again tells of changes twice.
    pub(crate) fn poll_news(&mut self) -> Option<Bulletin> {
        let (mut gap, mut happened, is_owner) = (None, Vec::new(), self.owned.is_some());
        if let Some(owned) = &mut self.owned {
            owned.poll_effects(&mut happened);
        } else if let Some(follower) = &mut self.follower {
            let (restored, followed) = follower.poll_happened();
            (gap, happened) = (restored.filter(|upto| *upto > self.told), followed);
        }
        self.told = self.told.max(gap.unwrap_or_default());
        happened.retain(|happened| happened.position > self.told);
        self.told = happened.last().map_or(self.told, |last| last.position);
        let is_news = gap.is_some() || !happened.is_empty();
        is_news.then_some(Bulletin { partition: self.partition, gap, happened, is_owner })
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.reign.map(|reign| reign.epoch())
    }

    /// Returns whether asks of this epoch are served here.
    pub(crate) fn serves(&self, epoch: Epoch) -> bool {
        let is_open = match self.phase {
            Phase::Serving => true,
            Phase::Closing | Phase::LettingGo => planted!(GiverServesOn),
            Phase::Following | Phase::Tail | Phase::First => false,
        };
        is_open && self.owned.is_some() && (self.epoch() == Some(epoch) || planted!(AskOfAnotherEpoch))
    }

    /// The stream is read to its end, together with our reign: from here on only this node can append to it.
    pub(crate) fn begin(&mut self, limits: &PartitionLimits, clocks: Clocks) {
        let (Some(follower), Some(reign)) = (self.follower.take(), self.reign) else { return };
        let (head, mut at) = (follower.head(), follower.at().max(reign.owner.at));
        if let Some(since_us) = self.free_since_us.filter(|_| planted!(OutageCharged)) {
            at = at.plus(clocks.mono_us.saturating_sub(since_us) + 3_000_000);
        }
        let Some((engine, last)) = follower.into_parts() else { return };
        self.last = last;
        let (partition, epoch) = (self.partition, reign.epoch());
        let owned = Partition::taken(engine, partition, epoch, head, at, limits.clone(), clocks, Orphans::Await);
        self.owned = Some(owned);
        self.asked.clear();
        self.phase = Phase::First;
    }

    /// The next batch to append, if none is on its way.
    pub(crate) fn take_append(&mut self, clocks: Clocks) -> Option<Append> {
        if self.in_flight.is_some() {
            return self.in_flight.clone();
        }
        let reign = self.reign?;
        let batch: Batch = self.owned.as_mut()?.take_batch(clocks)?;
        let append = Append { reign, before: self.last, batch };
        self.in_flight = Some(append.clone());
        Some(append)
    }

    /// The batch on its way is durable.
    pub(crate) fn appended(&mut self, clocks: Clocks) {
        let (Some(append), Some(owned)) = (self.in_flight.take(), self.owned.as_mut()) else { return };
        self.last = Link::to(&append.batch);
        self.since_checkpoint += 1;
        owned.append_done(clocks);
        if self.phase == Phase::First {
            self.phase = Phase::Serving;
        }
    }

    /// Starts a checkpoint if one is due and the batch is empty. Small states only, in one go.
    pub(crate) fn checkpoint_if_due(&mut self, every: u64, clocks: Clocks) {
        let Some(owned) = self.owned.as_mut().filter(|owned| !owned.has_batch()) else { return };
        if self.phase != Phase::Serving
            || self.since_checkpoint < every
            || self.checkpoint.is_some()
            || self.in_flight.is_some()
        {
            return;
        }
        self.since_checkpoint = 0;
        let start = owned.begin_checkpoint(clocks);
        let mut writer = ChunkWriter::new(start.partition, start.upto, start.now);
        let mut chunks = VecDeque::new();
        let mut facts = Vec::new();
        loop {
            let are_more = owned.step_checkpoint(64, &mut facts);
            for fact in facts.drain(..) {
                writer.push(&fact);
            }
            if writer.is_full() || !are_more {
                chunks.push_back(writer.seal());
            }
            if !are_more {
                break;
            }
        }
        let id = CheckpointId { epoch: owned.epoch(), upto: start.upto };
        self.checkpoint = Some(Checkpoint { id, chunks, put: 0, is_finished: false });
    }

    /// Back to following: what this node thought of the partition is thrown away.
    pub(crate) fn reset(&mut self, limits: &Limits) -> Option<Partition<To>> {
        let owned = self.owned.take();
        if owned.is_some() || self.follower.is_none() {
            self.follower = Some(Follower::new(limits.clone()));
        }
        self.phase = Phase::Following;
        self.reign = None;
        self.in_flight = None;
        self.free_since_us = None;
        self.is_op_open = false;
        self.checkpoint = None;
        self.since_checkpoint = 0;
        self.asked.clear();
        owned
    }
}
