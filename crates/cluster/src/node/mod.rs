//! A node of a cluster, without IO: the driver hands in calls, messages, results of the store and readings of its
//! clocks, and carries out what [`Node::poll`] gives.
//!
//! ```text
//! callers ── call, leave ──▶ relay ──Ask──▶ desk of the owner ──▶ partition ──┬─ append ─▶ store
//!    ▲                         ▲               (here or over a link)          └─ confirm ▶
//!    └──────── Answer ─────────┴────────Answer──────────────────────── gate ◀─ durable and proven
//!
//! map ──▶ look: bury the silent, take what is free, let go what belongs elsewhere
//! ```
//!
//! One transaction of appends is in flight at a time; followers read the store; the tail is read after every taking. A
//! call, a message and a result of the store look only at the partitions that they touch: `tick` alone looks at all.

mod agreement;
mod checkpoint;
mod desk;
mod flush;
mod gather;
mod look;
mod moves;
mod past;
mod seat;
mod serve;
mod stored;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use leasehold_engine::{ClaimId, Engine, Limits, planted};
use leasehold_journal::{Clocks, Epoch, Partition, PartitionLimits, Position, Request};

use crate::follower::Follower;
use crate::format;
use crate::ids::NodeId;
use crate::map::{Map, Mark, NodeRecord};
use crate::message::{Done, Message, Op, Out, PeerAddress};
use crate::relay::Relay;
use crate::store::{Birth, SharedError};
use agreement::Agreement;
use desk::{Desk, Peers};
use gather::Gathering;
use look::Watched;
use moves::Moves;
pub use moves::{MoveCause, PartitionMove};
use past::Sight;
pub use past::restored;
pub use seat::To;
use seat::{Phase, Seat};
use stored::Asked;

/// A call to the store that came to nothing is not repeated before so long has passed.
const AGAIN_US: u64 = 20_000;
/// The map is not read more often than this, however many reasons there are.
const LOOK_MIN_US: u64 = 5_000;
/// The number of the way from a node to itself.
const HERE: u64 = u64::MAX;

/// The configuration of a node, given at its start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the other nodes reach it.
    pub address: PeerAddress,
    /// The cluster that it wants to join, or make.
    pub birth: Birth,
    /// Bounds of each engine.
    pub limits: Limits,
    /// Bounds of each partition.
    pub partition_limits: PartitionLimits,
    /// A node that has been silent for so long is buried.
    pub node_ttl_us: u64,
    /// A node is a target only after so long, except at a cold start.
    pub settle_us: u64,
    /// How often it beats.
    pub beat_us: u64,
    /// How often it reads the map, and followers their streams.
    pub look_us: u64,
    /// Batches between two checkpoints of a partition.
    pub checkpoint_every: u64,
    /// How long the record of a buried node is kept.
    pub forget_us: u64,
}

/// Randomness of the driver.
pub struct Draw(pub Box<dyn FnMut() -> u128 + Send>);

impl fmt::Debug for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Draw")
    }
}

/// A proof on its way: for each partition its epoch and the number of the proof.
type Proofs = Vec<(u32, Epoch, u64)>;

/// One node. See the module.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one call to the store is open, or how it ends")]
pub struct Node {
    config: Config,
    draw: Draw,
    /// This life, from its join until it is buried.
    life: Option<NodeId>,
    record: NodeRecord,
    map: Option<Map>,
    seats: Vec<Seat>,
    relay: Relay,
    desk: Desk,
    peers: Peers,
    watched: BTreeMap<NodeId, Watched>,
    moves: Moves,
    agreement: Agreement,
    /// Calls to the store without a result, and the life they were made in.
    open: BTreeMap<u64, (Option<NodeId>, Asked)>,
    next_op: u64,
    beat_due_us: u64,
    is_beating: bool,
    /// When a beat last succeeded.
    beaten_at_us: u64,
    look_due_us: u64,
    is_looking: bool,
    looked_at_us: Option<u64>,
    confirming: Option<(u64, Proofs)>,
    /// A confirm that came to nothing is not repeated before.
    confirm_at_us: u64,
    appending: Option<u64>,
    /// Appends that came to nothing are not repeated before.
    append_at_us: u64,
    gathering: Gathering,
    moved_at_us: u64,
    /// Seats where something may have happened since the last flush.
    touched: Vec<usize>,
    /// Seats with a batch to append, or one on its way.
    unsaved: BTreeSet<usize>,
    /// The seat whose batch goes first next time.
    next_append: usize,
    /// An answer somewhere waits for a proof and for nothing else.
    wants_proof: bool,
    /// Seats that are being given away.
    closing: BTreeSet<usize>,
    /// Seats whose checkpoint is due.
    due: BTreeSet<usize>,
    /// The seat whose checkpoint is under way: one at a time.
    checkpointing: Option<usize>,
    /// Partitions whose owner has not been told that all calls of this node were sent to it.
    unsaid: BTreeSet<u32>,
    sight: Sight,
    /// The `sight` of the moment when the map was asked for.
    sight_asked: Sight,
    /// Owners of an earlier epoch serve no more: the store went back.
    floor: Epoch,
    /// The floor that the store has in our record.
    floor_told: Epoch,
    /// Pages that were asked for up to this call to the store do not count.
    reads_after: u64,
    is_draining: bool,
    /// Since when it has no partition, and is draining.
    emptied_at_us: Option<u64>,
    is_joining: bool,
    is_ended: bool,
    inbox: VecDeque<Message>,
    out: VecDeque<Out>,
}

impl Node {
    /// A node that has not joined yet.
    pub fn new(config: Config, mut draw: Draw) -> Self {
        let first_ask = u64::try_from((draw.0)() >> 65).expect("63 bits");
        let record = NodeRecord::new(NodeId(0), &config.address);
        let peers = Peers::new(&config.address);
        Node {
            config,
            draw,
            life: None,
            record,
            map: None,
            seats: Vec::new(),
            relay: Relay::new(first_ask),
            desk: Desk::default(),
            peers,
            watched: BTreeMap::new(),
            moves: Moves::default(),
            agreement: Agreement::default(),
            open: BTreeMap::new(),
            next_op: 0,
            beat_due_us: 0,
            is_beating: false,
            beaten_at_us: 0,
            look_due_us: 0,
            is_looking: false,
            looked_at_us: None,
            confirming: None,
            confirm_at_us: 0,
            appending: None,
            append_at_us: 0,
            gathering: Gathering::default(),
            moved_at_us: 0,
            touched: Vec::new(),
            unsaved: BTreeSet::new(),
            next_append: 0,
            wants_proof: false,
            closing: BTreeSet::new(),
            due: BTreeSet::new(),
            checkpointing: None,
            unsaid: BTreeSet::new(),
            sight: Sight::default(),
            sight_asked: Sight::default(),
            floor: Epoch(0),
            floor_told: Epoch(0),
            reads_after: 0,
            is_draining: false,
            emptied_at_us: None,
            is_joining: false,
            is_ended: false,
            inbox: VecDeque::new(),
            out: VecDeque::new(),
        }
    }

    /// The next thing that the node wants.
    pub fn poll(&mut self) -> Option<Out> {
        self.out.pop_front()
    }

    /// A caller's command. Its answer comes as [`Out::Answer`] with the caller's number.
    pub fn call(&mut self, clocks: Clocks, caller: u64, partition: u32, request: Request) {
        let needed = format::needed(&request.command);
        // Every cluster uses the first format.
        if needed > 1 && needed > self.agreed_format() {
            self.hold(clocks, caller, partition, request, needed);
        } else {
            self.relay_call(clocks, caller, partition, request);
        }
        self.flush(clocks);
    }

    fn relay_call(&mut self, clocks: Clocks, caller: u64, partition: u32, request: Request) {
        let mut out = Vec::new();
        self.relay.call(clocks.mono_us, caller, partition, request, &mut out);
        self.relayed(out);
    }

    /// A caller left before its answer came.
    pub fn leave(&mut self, clocks: Clocks, caller: u64) {
        if self.release_held(caller) {
            return;
        }
        let mut out = Vec::new();
        self.relay.leave(clocks.mono_us, caller, &mut out);
        self.relayed(out);
        self.flush(clocks);
    }

    /// An answer could not be delivered: the claim that it told of is handed back.
    pub fn undelivered(&mut self, clocks: Clocks, partition: u32, claim: ClaimId) {
        self.relay.hand_back(clocks.mono_us, partition, claim);
        self.flush(clocks);
    }

    /// A link to a peer is there, under a number that is higher than that of every earlier one; or it is lost.
    pub fn handle_link(&mut self, clocks: Clocks, peer: &PeerAddress, number: Option<u64>) {
        let peer = self.peers.number(peer);
        let before = self.peers.set_link(peer, number);
        if let Some(before) = before.filter(|before| Some(*before) != number) {
            self.desk.lose(peer, before, clocks.mono_us);
        }
        self.reroute(clocks);
        self.flush(clocks);
    }

    /// A message came by the link of this number.
    pub fn handle_message(&mut self, clocks: Clocks, peer: &PeerAddress, link: u64, message: Message) {
        self.handle_messages(clocks, peer, link, [message]);
    }

    /// Messages came together by the link of this number.
    pub fn handle_messages(
        &mut self,
        clocks: Clocks,
        peer: &PeerAddress,
        link: u64,
        messages: impl IntoIterator<Item = Message>,
    ) {
        let peer = self.peers.number(peer);
        for message in messages {
            if self.peers.hears(peer, link) {
                self.hear(clocks, peer, link, message);
            }
        }
        self.flush(clocks);
    }

    /// Until when the next transaction waits for callers. Call [`Node::wake`] then.
    pub fn gathers_until_us(&self) -> Option<u64> {
        self.gathering.until_us()
    }

    /// Callers have been waited for long enough.
    pub fn wake(&mut self, clocks: Clocks) {
        self.flush(clocks);
    }

    /// Time passed. Call it at least every 50 ms.
    pub fn tick(&mut self, clocks: Clocks) {
        self.join_if_due();
        self.beat_if_due(clocks);
        while let Some(served) = self.desk.take_lost(clocks.mono_us) {
            self.end_served(clocks, &served);
        }
        for n in 0..self.seats.len() {
            let seat = &mut self.seats[n];
            if matches!(seat.phase, Phase::First | Phase::Serving)
                && let Some(owned) = &mut seat.owned
            {
                owned.tick(clocks);
                self.touch(n);
            }
            self.follow(clocks, n);
        }
        self.end_orphans(clocks);
        self.step_checkpoint(clocks);
        self.flush(clocks);
    }

    fn join_if_due(&mut self) {
        if self.is_draining && self.life.is_none() && !self.is_ended {
            self.is_ended = true;
            self.out.push_back(Out::Ended);
        }
        if self.life.is_some() || self.is_joining || self.is_draining {
            return;
        }
        if self.record.beat > 0 && planted!(BuriedStaysOut) {
            return;
        }
        self.is_joining = true;
        let record = NodeRecord::new(NodeId((self.draw.0)()), &self.config.address);
        let speaks = (1, self.config.birth.format);
        self.record = NodeRecord { epoch_floor: self.floor, speaks, ..record };
        self.sight_asked = self.sight.clone();
        self.ask_store(Op::Join(self.record.clone(), self.config.birth.clone()));
    }

    /// One beat carries life and the time of all partitions.
    fn beat_if_due(&mut self, clocks: Clocks) {
        if self.life.is_none() || self.is_beating || clocks.mono_us < self.beat_due_us {
            return;
        }
        self.beat_due_us = clocks.mono_us + self.config.beat_us;
        self.is_beating = true;
        self.record.beat += 1;
        self.record.is_draining = self.is_draining;
        self.record.unreachable = self.unlinked();
        self.record.marks.clear();
        for seat in &mut self.seats {
            let (Some(reign), Some(owned)) = (seat.reign, &mut seat.owned) else { continue };
            if matches!(seat.phase, Phase::First | Phase::Serving) {
                let at = owned.begin_beat(clocks);
                self.record.marks.push(Mark { partition: seat.partition, epoch: reign.epoch(), at });
            }
        }
        self.ask_store(Op::Beat(self.record.clone()));
    }

    /// Living nodes without a link to this one, for the operator.
    fn unlinked(&self) -> Vec<NodeId> {
        let living = self.map.iter().flat_map(Map::living);
        living.filter(|record| !self.peers.is_linked(&record.address)).map(|record| record.node).collect()
    }

    /// Reads on in a stream, if it is time.
    fn follow(&mut self, clocks: Clocks, n: usize) {
        if self.seats[n].owned.is_some() {
            self.check_newest(clocks, n);
            return;
        }
        let seat = &mut self.seats[n];
        let is_due = seat.phase == Phase::Tail || clocks.mono_us >= seat.read_at_us;
        let is_doubted = seat.phase != Phase::Tail || seat.is_reading || std::mem::replace(&mut seat.is_doubted, true);
        if let Some(follower) = seat.follower.as_mut().filter(|_| !is_doubted) {
            follower.doubt();
        }
        let Some(follower) = seat.follower.as_ref().filter(|_| is_due && !seat.is_reading && self.life.is_some())
        else {
            return;
        };
        let op = Op::Read(seat.partition, follower.cursor());
        seat.is_reading = true;
        seat.read_asked_us = clocks.mono_us;
        seat.read_at_us = clocks.mono_us + self.config.look_us;
        self.ask_store(op);
    }

    fn end_orphans(&mut self, clocks: Clocks) {
        let Some(map) = &self.map else { return };
        for seat in self.seats.iter_mut().filter(|seat| seat.phase == Phase::Serving) {
            let Some(owned) = seat.owned.as_mut().filter(|owned| owned.has_orphans()) else { continue };
            // The tick has touched it.
            if map.living().all(|record| seat.asked.contains(&record.node)) {
                owned.end_orphans(clocks);
            }
        }
    }

    /// Takes in the result of a call to the store. An outcome that is unknown is `Away`.
    pub fn handle_store(&mut self, clocks: Clocks, op: u64, result: Result<Done, SharedError>) {
        let Some((life, asked)) = self.open.remove(&op) else { return };
        if life == self.life {
            self.stored(clocks, op, asked, result);
        }
        self.flush(clocks);
    }

    /// Gives everything away and ends: SIGTERM.
    pub fn drain(&mut self, clocks: Clocks) {
        self.is_draining = true;
        self.beat_due_us = 0;
        for n in 0..self.seats.len() {
            self.close(clocks, n);
        }
        self.flush(clocks);
    }

    /// The partition as its owner here sees it.
    pub fn owned(&self, partition: u32) -> Option<&Partition<To>> {
        self.seats.get(partition as usize)?.owned.as_ref()
    }

    /// Returns whether this node serves the partition.
    pub fn is_serving(&self, partition: u32) -> bool {
        self.seats.get(partition as usize).is_some_and(|seat| seat.phase == Phase::Serving)
    }

    /// The state of a partition as this node knows it: as its owner, or as a follower.
    pub fn engine(&self, partition: u32) -> Option<&Engine> {
        let seat = self.seats.get(partition as usize)?;
        seat.owned.as_ref().map(Partition::engine).or_else(|| seat.follower.as_ref().map(Follower::engine))
    }

    /// The end of a partition's stream as this node knows it: what is durable and told.
    pub fn head(&self, partition: u32) -> Option<(Epoch, Position)> {
        let seat = self.seats.get(partition as usize)?;
        let epoch = self.map.as_ref()?.owners.get(partition as usize)?.value.epoch;
        let head = seat.owned.as_ref().map(Partition::durable).or_else(|| seat.follower.as_ref().map(Follower::head));
        head.map(|head| (epoch, head))
    }

    /// How long ago a beat of this life succeeded; `None` while there is no life.
    pub fn beat_age_us(&self, clocks: Clocks) -> Option<u64> {
        self.life.map(|_| clocks.mono_us.saturating_sub(self.beaten_at_us))
    }

    /// The operator or a signal told it to give everything away.
    pub fn is_draining(&self) -> bool {
        let drains = |life| self.map.as_ref().is_some_and(|map| map.drained.contains(&life));
        self.is_draining || self.life.is_some_and(drains)
    }

    /// The store says that the map may have changed: it is read at the next tick.
    pub fn handle_changed(&mut self) {
        self.look_due_us = 0;
    }

    /// The follower of a partition, unless this node owns it.
    pub fn follower(&self, partition: u32) -> Option<&Follower> {
        self.seats.get(partition as usize)?.follower.as_ref()
    }

    /// How long ago what this node knows of a partition was all that its stream had; nothing while it has never been.
    pub fn behind_us(&self, clocks: Clocks, partition: u32) -> Option<u64> {
        let seat = self.seats.get(partition as usize)?;
        if seat.owned.is_some() { Some(0) } else { seat.whole_at_us.map(|at| clocks.mono_us.saturating_sub(at)) }
    }

    /// The last moves of partitions that this node saw, newest first.
    pub fn moves(&self) -> impl Iterator<Item = &PartitionMove> {
        self.moves.newest_first()
    }

    /// This life, if there is one.
    pub fn life(&self) -> Option<NodeId> {
        self.life
    }

    /// The map as it was last read.
    pub fn map(&self) -> Option<&Map> {
        self.map.as_ref()
    }

    /// Calls without an answer and hand-backs that are not acknowledged.
    pub fn open_calls(&self) -> usize {
        self.relay.len() + self.agreement.held()
    }
}
