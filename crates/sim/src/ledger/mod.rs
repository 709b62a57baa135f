//! The state according to the durable bytes: every accepted batch, decoded and replayed by a model that shares no code
//! with the engine. Invariants of the journal are checked change by change on the way in.

mod entry;
pub(crate) mod invariant;
mod replay;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use leasehold_engine::{ClaimId, Engine, Kind, Limits, Moment, ResourceKey, Time};
use leasehold_journal::Batch;
use leasehold_journal::record::decode_batch;

pub(crate) use entry::{Entry, EntryState, Fit, Held, LeaseLog, Row};

use crate::sometimes::{Rare, RareCounts};
use invariant::{Check, Violation};

/// When something was decided, on every clock the world has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct When {
    pub(crate) world_us: u64,
    /// Service time may not have passed faster than this.
    pub(crate) fair_us: u64,
    /// Time in which nothing stood in the way of serving.
    pub(crate) served_us: u64,
    /// Outages so far.
    pub(crate) outages: u64,
    /// The disk was known to be nearly full.
    pub(crate) is_low: bool,
}

/// All requests so far, to find changes without a request.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    pub(crate) renewals: BTreeSet<ClaimId>,
    /// Claims that a caller asked about, or asked to change.
    pub(crate) questions: BTreeSet<ClaimId>,
    pub(crate) releases: BTreeSet<ClaimId>,
    pub(crate) revocations: BTreeSet<ClaimId>,
    pub(crate) locks: BTreeSet<(ResourceKey, Arc<str>)>,
    pub(crate) unlocks: BTreeSet<(ResourceKey, Arc<str>)>,
    /// Of one grant alone, by its token.
    pub(crate) unlocks_of: BTreeSet<(ResourceKey, Arc<str>, u64)>,
    pub(crate) deletions: BTreeSet<ResourceKey>,
    pub(crate) resumptions: BTreeSet<ResourceKey>,
    pub(crate) acquisitions: BTreeSet<ClaimId>,
    /// How often each key was used.
    pub(crate) keys: BTreeMap<(ResourceKey, Arc<str>), u32>,
    /// Claims whose callers got a definite refusal.
    pub(crate) refused: BTreeSet<ClaimId>,
    /// Claims whose callers were told that the store was late.
    pub(crate) given_up: BTreeSet<ClaimId>,
    /// Grants that a client has heard of, and the newest position of an answer that told of each.
    pub(crate) acknowledged: BTreeMap<ClaimId, u64>,
}

impl Asks {
    pub(crate) fn acknowledge(&mut self, claim: ClaimId, position: u64) {
        let newest = self.acknowledged.entry(claim).or_default();
        *newest = position.max(*newest);
    }
}

#[derive(Debug)]
pub(crate) struct Ledger {
    /// The last durable position.
    pub(crate) head: u64,
    /// The epoch of the process that opened the stream last.
    pub(crate) epoch: u64,
    /// Each epoch and where the stream ended when it began.
    pub(crate) reigns: Vec<(u64, u64)>,
    pub(crate) at: Time,
    pub(crate) newest: Option<Batch>,
    pub(crate) claims: BTreeMap<ClaimId, Entry>,
    /// Claims that ended and were asked for again by their relays, as they were.
    pub(crate) claimed_before: Vec<(ClaimId, Entry)>,
    /// Those that have not ended.
    pub(crate) live: BTreeSet<ClaimId>,
    pub(crate) rows: BTreeMap<ResourceKey, Row>,
    pub(crate) last_token: u64,
    /// How many due deadlines one step handles.
    pub(crate) due_per_step: usize,
    /// A standby: the real engine, fed from the durable bytes only.
    pub(crate) standby: Engine,
    pub(crate) rare: RareCounts,
    /// Callers may be connected to other nodes than the owner: their claims outlive an epoch.
    pub(crate) is_relayed: bool,
}

/// Effects of an accepted batch for the rest of the world.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Leases that ran out: the position, and when that was decided.
    pub(crate) expired: Vec<(ClaimId, u64, When)>,
    pub(crate) withdrawn: Vec<(ClaimId, When)>,
    /// Places that are kept from now on.
    pub(crate) kept: Vec<(ClaimId, When)>,
    /// Kept places that were handed back while they waited.
    pub(crate) forgotten: Vec<ClaimId>,
    pub(crate) claimed: Vec<(ClaimId, When)>,
}

impl Ledger {
    pub(crate) fn new(limits: Limits) -> Self {
        Ledger {
            head: 0,
            epoch: 0,
            reigns: Vec::new(),
            at: Time(0),
            newest: None,
            claims: BTreeMap::new(),
            claimed_before: Vec::new(),
            live: BTreeSet::new(),
            rows: BTreeMap::new(),
            last_token: 0,
            due_per_step: limits.due_per_step,
            standby: Engine::new(limits),
            rare: RareCounts::default(),
            is_relayed: false,
        }
    }

    /// A process opened the stream.
    pub(crate) fn opened(&mut self, epoch: u64) -> Check {
        invariant::s10_fencing::on_open(self.epoch, epoch)?;
        self.epoch = epoch;
        self.reigns.push((epoch, self.head));
        Ok(())
    }

    /// The store took a batch. `whens`: when each of its changes was decided.
    pub(crate) fn accept(&mut self, batch: &Batch, whens: &[When], asks: &Asks) -> Result<News, Violation> {
        let mut news = News::default();
        if self.newest.as_ref() == Some(batch) {
            return Ok(news);
        }
        invariant::s10_fencing::on_accept(self, batch)?;
        let decoded = decode_batch(&batch.record).map_err(|error| Violation {
            invariant: "S16",
            what: format!("a batch just written cannot be read: {error}"),
        })?;
        self.rare.hit_if(decoded.changes.len() >= 8, Rare::BatchOfManyChanges);
        for (n, (moment, change)) in decoded.changes.iter().enumerate() {
            let when = whens.get(n).copied().unwrap_or_default();
            self.head += 1;
            self.replay(*moment, change, when, asks, &mut news)?;
            self.standby.apply(*moment, change);
        }
        self.newest = Some(batch.clone());
        invariant::l1_settled::check(self)?;
        invariant::l3_expiry::on_batch(self)?;
        invariant::s18_attention::on_batch(self)?;
        Ok(news)
    }

    pub(crate) fn row(&mut self, key: &ResourceKey) -> &mut Row {
        self.rows.entry(key.clone()).or_insert_with(|| Row::new(key.kind()))
    }

    pub(crate) fn entry(&mut self, claim: ClaimId) -> Result<&mut Entry, Violation> {
        self.claims.get_mut(&claim).ok_or_else(|| Violation {
            invariant: "S15",
            what: format!("a change names {claim:?}, which the journal never claimed"),
        })
    }

    /// Claims that have not ended.
    pub(crate) fn living(&self) -> impl Iterator<Item = (&ClaimId, &Entry)> {
        self.live.iter().filter_map(|claim| self.claims.get_key_value(claim))
    }

    fn check_time(&mut self, moment: Moment) -> Check {
        invariant::ensure(moment.at >= self.at, "S15", || {
            format!("service time ran backwards: {:?} after {:?}", moment.at, self.at)
        })?;
        self.at = moment.at;
        Ok(())
    }

    /// The slots of a resource that were taken after the change at `position`.
    pub(crate) fn in_use_at(&self, key: &ResourceKey, position: u64) -> usize {
        self.claims.values().filter(|entry| entry.resource == *key && entry.held_at(position)).count()
    }

    pub(crate) fn waiting_at(&self, key: &ResourceKey, position: u64) -> usize {
        self.claims.values().filter(|entry| entry.resource == *key && entry.waited_at(position)).count()
    }

    /// The fittings after the change at `position`.
    pub(crate) fn fit_at(&self, key: &ResourceKey, position: u64) -> Fit {
        let fits = self.rows.get(key).map_or(&[][..], |row| &row.fits);
        fits.iter().rev().find(|(at, _)| *at <= position).map_or_else(Fit::default, |(_, fit)| fit.clone())
    }

    /// Returns whether a slot could be granted after the change at `position`.
    pub(crate) fn has_room_at(&self, key: &ResourceKey, position: u64) -> bool {
        let is_held = |entry: &&Entry| entry.resource == *key && entry.held_at(position);
        let held = self.claims.values().filter(is_held).filter_map(|entry| entry.granted).map(|held| held.slot);
        let fit = self.fit_at(key, position);
        let (capacity, _) = self.shape_at(key, position);
        fit.paused_until.is_none() && entry::has_room(capacity, &fit.out, &held.collect::<Vec<_>>())
    }

    /// Capacity and whether it was configured, after the change at `position`.
    pub(crate) fn shape_at(&self, key: &ResourceKey, position: u64) -> (u32, bool) {
        let default = (Row::default_capacity(key.kind()), false);
        self.rows.get(key).map_or(default, |row| {
            row.shapes.iter().rev().find(|(at, _)| *at <= position).map_or(default, |(_, shape)| *shape)
        })
    }
}

pub(crate) fn is_lock(key: &ResourceKey) -> bool {
    key.kind() == Kind::Lock
}
