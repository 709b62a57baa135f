//! The seat of a node at one partition: following it, or on the way to owning it, or owning it, or giving it away.
//!
//! ```text
//! Following ─take─▶ Tail ─▶ First ─▶ Serving ─▶ Closing ─▶ LettingGo ─▶ Following
//!     ▲               │        │        │          │            │
//!     └───────────────┴────────┴─ fenced┴──────────┴────────────┘   the engine is thrown away and read again
//! ```

use std::collections::BTreeSet;

use leasehold_engine::{Limits, Time, planted};
use leasehold_journal::{Batch, Clocks, EPOCHS_SKIPPED, Epoch, Orphans, Partition, PartitionLimits, Position};

use super::checkpoint::Checkpoint;
use crate::follower::{Follower, Tail};
use crate::ids::{Link, NodeId, Peer};
use crate::map::Reign;
use crate::message::Bulletin;
use crate::store::Append;

/// A tail shorter than this is not worth a checkpoint.
const TAIL_MIN_BYTES: u64 = 4 << 20;

/// The addressee of an answer: a relay, its call, and which sending of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct To {
    pub(crate) peer: Peer,
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
#[expect(clippy::struct_excessive_bools, reason = "each says whether one thing is under way")]
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
    /// When the page that is on its way, or the last one, was asked for.
    pub(crate) read_asked_us: u64,
    /// When the page was asked for that last went to the end of the stream.
    pub(crate) whole_at_us: Option<u64>,
    /// The follower was asked to see its newest batch once more, after the taking.
    pub(crate) is_doubted: bool,
    /// The newest batch, when an owner looked whether it is still there.
    pub(crate) checked: Option<Link>,
    /// It was, when all was appended that a closed partition had.
    pub(crate) is_checked: bool,
    pub(crate) is_op_open: bool,
    /// A call to the store that came to nothing is not repeated before.
    pub(crate) again_at_us: u64,
    /// The epoch and the service time of an ownership that ended because the store went back.
    pub(crate) past: Option<(Epoch, Time)>,
    /// The service time that the letting go carries.
    pub(crate) let_go_at: Option<Time>,
    /// Since when the partition has been free for this node to see.
    pub(crate) free_since_us: Option<u64>,
    /// Nodes that have asked again for their callers.
    pub(crate) asked: BTreeSet<NodeId>,
    /// The part of the stream that a reader has to read after the last checkpoint.
    pub(crate) tail: Tail,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Observers were told of all changes up to here.
    pub(crate) told: Position,
    /// Something may have happened here since the node last looked.
    pub(crate) is_touched: bool,
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
            read_asked_us: 0,
            whole_at_us: None,
            is_doubted: false,
            checked: None,
            is_checked: false,
            is_op_open: false,
            again_at_us: 0,
            past: None,
            let_go_at: None,
            free_since_us: None,
            asked: BTreeSet::new(),
            tail: Tail::default(),
            checkpoint: None,
            told: Position::START,
            is_touched: false,
        }
    }

    /// Reads the stream again from its beginning.
    pub(crate) fn restart(&mut self, limits: &Limits) {
        self.follower = Some(Follower::new(limits.clone()));
        self.whole_at_us = None;
    }

    /// Takes the news that observers have not been told yet. An engine that was thrown away and read again tells of
    /// changes twice.
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
        let (head, mut at, tail) = (follower.head(), follower.at().max(reign.owner.at), follower.tail());
        if let Some(since_us) = self.free_since_us.filter(|_| planted!(OutageCharged)) {
            at = at.plus(clocks.mono_us.saturating_sub(since_us) + 3_000_000);
        }
        // Epochs jump only when a store went back: then tokens have to jump as well.
        let is_jump = reign.epoch().0 >= follower.epoch().0.saturating_add(EPOCHS_SKIPPED) && !planted!(JumpForgotten);
        let Some((engine, last)) = follower.into_parts() else { return };
        self.last = last;
        let (partition, epoch, limits) = (self.partition, reign.epoch(), limits.clone());
        let owned = Partition::taken(engine, partition, epoch, head, at, limits, clocks, Orphans::Await, is_jump);
        self.owned = Some(owned);
        self.asked.clear();
        self.tail = tail;
        self.phase = Phase::First;
    }

    /// Returns whether there is a batch to append, or to append again.
    pub(crate) fn has_append(&self) -> bool {
        self.in_flight.is_some() || self.owned.as_ref().is_some_and(Partition::has_batch)
    }

    /// The next batch to append, or the one that is on its way.
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
        self.tail.batches += 1;
        self.tail.bytes += append.batch.record.len() as u64;
        owned.append_done(clocks);
        if self.phase == Phase::First {
            self.phase = Phase::Serving;
        }
    }

    /// Reading the tail back must not take much longer than reading the checkpoint does, and a tail of many small
    /// batches is many keys of the store.
    pub(crate) fn is_checkpoint_due(&self, batches: u64) -> bool {
        let Tail { batches: tail, bytes, checkpoint_bytes } = self.tail;
        self.phase == Phase::Serving
            && self.checkpoint.is_none()
            && (bytes >= TAIL_MIN_BYTES.max(checkpoint_bytes / 2) || tail >= batches)
    }

    /// Starts a checkpoint, if all changes so far were taken by an append: it has to end where a batch ends.
    pub(crate) fn begin_checkpoint(&mut self, clocks: Clocks) -> bool {
        let Some(owned) = self.owned.as_mut().filter(|owned| owned.is_batch_empty()) else { return false };
        self.tail = Tail { batches: 0, bytes: 0, ..self.tail };
        self.checkpoint = Some(Checkpoint::begin(owned, clocks));
        true
    }

    /// Gives up on the checkpoint under way.
    pub(crate) fn drop_checkpoint(&mut self) {
        if self.checkpoint.take().is_some()
            && let Some(owned) = &mut self.owned
        {
            owned.drop_checkpoint();
        }
    }

    /// Back to following: what this node thought of the partition is thrown away.
    pub(crate) fn reset(&mut self, limits: &Limits) -> Option<Partition<To>> {
        let owned = self.owned.take();
        if owned.is_some() || self.follower.is_none() {
            self.restart(limits);
        }
        self.phase = Phase::Following;
        self.reign = None;
        self.in_flight = None;
        self.is_doubted = false;
        self.checked = None;
        self.is_checked = false;
        self.let_go_at = None;
        self.free_since_us = None;
        self.is_op_open = false;
        self.again_at_us = 0;
        self.checkpoint = None;
        self.tail = Tail::default();
        self.asked.clear();
        owned
    }
}
