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
//! One transaction of appends is in flight at a time; followers read the store; the tail is read after every taking.

mod desk;
mod look;
mod seat;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use leasehold_engine::{ClaimId, Engine, Limits, Time, planted};
use leasehold_journal::{Clocks, Denial, Epoch, Partition, PartitionLimits, Position, Request, Told};

use crate::follower::Follower;
use crate::ids::NodeId;
use crate::map::{Map, Mark, NodeRecord, Reign};
use crate::message::{AskAnswer, Done, Message, Op, Out, PeerAddress};
use crate::relay::{Relay, RelayOut};
use crate::store::{Birth, Landing, SharedError};
use desk::{Desk, Served};
use look::Watched;
pub use seat::To;
use seat::{Phase, Seat};

/// A node that is told to end waits no longer than this for its callers' answers.
const DRAIN_US: u64 = 2_000_000;
/// The number of the way from a node to itself.
const HERE: u64 = u64::MAX;

/// What a node is told at its start.
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
    links: BTreeMap<PeerAddress, u64>,
    watched: BTreeMap<NodeId, Watched>,
    /// Calls to the store without a result, and the life they were made in.
    open: BTreeMap<u64, (Option<NodeId>, Op)>,
    next_op: u64,
    beat_due_us: u64,
    is_beating: bool,
    /// When a beat last succeeded.
    beaten_at_us: u64,
    look_due_us: u64,
    is_looking: bool,
    looked_at_us: Option<u64>,
    confirming: Option<(u64, Proofs)>,
    appending: Option<u64>,
    moved_at_us: u64,
    /// For each partition the owner that was told that all its calls were sent: epoch, link, our life.
    said: BTreeMap<u32, (Epoch, u64, NodeId)>,
    is_draining: bool,
    drained_at_us: Option<u64>,
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
        Node {
            config,
            draw,
            life: None,
            record,
            map: None,
            seats: Vec::new(),
            relay: Relay::new(first_ask),
            desk: Desk::default(),
            links: BTreeMap::new(),
            watched: BTreeMap::new(),
            open: BTreeMap::new(),
            next_op: 0,
            beat_due_us: 0,
            is_beating: false,
            beaten_at_us: 0,
            look_due_us: 0,
            is_looking: false,
            looked_at_us: None,
            confirming: None,
            appending: None,
            moved_at_us: 0,
            said: BTreeMap::new(),
            is_draining: false,
            drained_at_us: None,
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
        let mut out = Vec::new();
        self.relay.call(clocks.mono_us, caller, partition, request, &mut out);
        self.relayed(out);
        self.flush(clocks);
    }

    /// A caller left before its answer came.
    pub fn leave(&mut self, clocks: Clocks, caller: u64) {
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
        let before = match number {
            Some(number) => self.links.insert(peer.clone(), number),
            None => self.links.remove(peer),
        };
        if let Some(before) = before.filter(|before| Some(*before) != number) {
            self.desk.lose(peer, before, clocks.mono_us);
        }
        self.reroute(clocks);
        self.flush(clocks);
    }

    /// A message came by the link of this number.
    pub fn handle_message(&mut self, clocks: Clocks, peer: &PeerAddress, link: u64, message: Message) {
        if self.desk.hears(peer, link) {
            self.hear(clocks, peer, link, message);
        }
        self.flush(clocks);
    }

    fn hear(&mut self, clocks: Clocks, peer: &PeerAddress, link: u64, message: Message) {
        match message {
            Message::Ask { ask, sending, partition, epoch, request } => {
                self.serve(clocks, &To { peer: peer.clone(), ask, sending }, link, partition, epoch, request);
            }
            Message::Leave { ask } => {
                let Some(served) = self.desk.asks.remove(&(peer.clone(), ask)) else { return };
                self.end_served(clocks, &Served { untold: None, ..served });
            }
            Message::Answer { ask, sending, answer } => {
                let mut out = Vec::new();
                self.relay.answered(clocks.mono_us, ask, sending, answer, &mut out);
                self.relayed(out);
            }
            Message::Asked { partition, epoch, node } => {
                if let Some(seat) = self.seats.get_mut(partition as usize).filter(|seat| seat.epoch() == Some(epoch)) {
                    seat.asked.insert(node);
                }
            }
            Message::Look => self.look_due_us = 0,
        }
    }

    /// An ask is served by the owner it names, or it is told that the partition has moved: it is never passed on.
    fn serve(&mut self, clocks: Clocks, to: &To, link: u64, partition: u32, epoch: Epoch, request: Request) {
        let key = (to.peer.clone(), to.ask);
        let seat = self.seats.get_mut(partition as usize).filter(|seat| seat.serves(epoch));
        let Some((seat, owned)) = seat.and_then(|seat| Some((seat.partition, seat.owned.as_mut()?))) else {
            let answer = AskAnswer {
                answer: Err(Denial::Moved),
                epoch,
                position: Position::START,
                at: Time::default(),
                untold: None,
            };
            if planted!(AskPassedOn)
                && let Some(route) = self.route_of(partition).filter(|route| route.to != self.config.address)
            {
                let (ask, sending, epoch) = (to.ask, to.sending, route.epoch);
                self.post(&route.to, Message::Ask { ask, sending, partition, epoch, request });
                return;
            }
            self.send(to, answer);
            return;
        };
        let before = self.desk.asks.get(&key).cloned();
        if before.as_ref().is_some_and(|before| before.sending >= to.sending) {
            return;
        }
        let ticket = owned.submit(clocks, request, to.clone());
        if let Some(ticket) = before.filter(|before| before.partition == seat).and_then(|before| before.ticket) {
            owned.forget(ticket);
        }
        let served = Served {
            partition: seat,
            sending: to.sending,
            epoch,
            link,
            ticket,
            lost_at_us: None,
            untold: None,
            is_written: false,
        };
        self.desk.asks.insert(key, served);
    }

    /// The caller of an ask is gone for good.
    fn end_served(&mut self, clocks: Clocks, served: &Served) {
        let seat = self.seats.get_mut(served.partition as usize);
        let Some(owned) = seat.filter(|seat| seat.phase == Phase::Serving).and_then(|seat| seat.owned.as_mut()) else {
            return;
        };
        if let Some(ticket) = served.ticket {
            owned.leave(clocks, ticket);
        }
        if let Some(claim) = served.untold {
            owned.hand_back(clocks, claim);
        }
    }

    /// Time passed. Call it at least every 50 ms.
    pub fn tick(&mut self, clocks: Clocks) {
        self.join_if_due();
        self.beat_if_due(clocks);
        if clocks.mono_us >= self.look_due_us && !self.is_looking && self.life.is_some() {
            self.look_due_us = clocks.mono_us + self.config.look_us;
            self.is_looking = true;
            self.ask_store(Op::Map);
        }
        for served in self.desk.take_lost(clocks.mono_us) {
            self.end_served(clocks, &served);
        }
        for seat in &mut self.seats {
            if matches!(seat.phase, Phase::First | Phase::Serving)
                && let Some(owned) = &mut seat.owned
            {
                owned.tick(clocks);
            }
        }
        self.follow(clocks);
        self.end_orphans(clocks);
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
        self.record = NodeRecord::new(NodeId((self.draw.0)()), &self.config.address);
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
        let is_linked = |address: &str| *address == *self.config.address || self.links.contains_key(address);
        let living = self.map.iter().flat_map(Map::living);
        living.filter(|record| !is_linked(&record.address)).map(|record| record.node).collect()
    }

    fn follow(&mut self, clocks: Clocks) {
        let life = self.life;
        for n in 0..self.seats.len() {
            let seat = &mut self.seats[n];
            let is_due = seat.phase == Phase::Tail || clocks.mono_us >= seat.read_at_us;
            let Some(follower) = seat.follower.as_ref().filter(|_| is_due && !seat.is_reading && life.is_some()) else {
                continue;
            };
            let op = Op::Read(seat.partition, follower.cursor());
            seat.is_reading = true;
            seat.read_at_us = clocks.mono_us + self.config.look_us;
            self.ask_store(op);
        }
    }

    fn end_orphans(&mut self, clocks: Clocks) {
        let Some(map) = &self.map else { return };
        for seat in self.seats.iter_mut().filter(|seat| seat.phase == Phase::Serving) {
            let Some(owned) = seat.owned.as_mut().filter(|owned| owned.has_orphans()) else { continue };
            if map.living().all(|record| seat.asked.contains(&record.node)) {
                owned.end_orphans(clocks);
            }
        }
    }

    /// Every call that this node stands for is on its way to its owner: the owner may stop waiting for others.
    fn say_asked(&mut self) {
        let Some(life) = self.life else { return };
        for n in 0..self.seats.len() {
            let partition = self.seats[n].partition;
            let Some(route) = self.route_of(partition) else { continue };
            let Some(link) = route.link else { continue };
            let news = (route.epoch, link, life);
            if self.said.get(&partition) != Some(&news) && self.relay.is_asked(partition) {
                self.said.insert(partition, news);
                self.post(&route.to, Message::Asked { partition, epoch: route.epoch, node: life });
            }
        }
    }

    /// Everything that follows from what just happened, until nothing more does.
    fn flush(&mut self, clocks: Clocks) {
        loop {
            let mut out = Vec::new();
            self.relay.tick(clocks.mono_us, &mut out);
            self.relayed(out);
            self.say_asked();
            self.tell(clocks);
            let Some(message) = self.inbox.pop_front() else { break };
            let me = self.config.address.clone();
            self.hear(clocks, &me, HERE, message);
            while let Some(message) = self.inbox.pop_front() {
                self.hear(clocks, &me, HERE, message);
            }
        }
        self.let_go_if_closed(clocks);
        self.append(clocks);
        self.confirm();
        self.checkpoint(clocks);
    }

    /// Answers that may leave, to their relays.
    fn tell(&mut self, clocks: Clocks) {
        let mut told = Vec::new();
        for seat in &mut self.seats {
            if let Some(owned) = &mut seat.owned {
                owned.poll_told(&mut told);
                self.out.extend(seat.poll_news().map(Out::Happened));
            }
        }
        for told in told {
            self.tell_one(told, clocks);
        }
    }

    fn tell_one(&mut self, told: Told<To>, clocks: Clocks) {
        let Told { to, answer, epoch, position, untold, said_at: at } = told;
        let key = (to.peer.clone(), to.ask);
        let Some(served) = self.desk.asks.get_mut(&key).filter(|served| served.sending == to.sending) else {
            // It was asked again, or its caller left: its relay sees to it.
            return;
        };
        assert_eq!(served.epoch, epoch, "an ask is answered in the epoch it names");
        served.ticket = None;
        let is_here = to.peer == self.config.address;
        if served.lost_at_us.is_none() && (is_here || self.links.get(&to.peer) == Some(&served.link)) {
            if planted!(WrittenHandedBack) && !is_here {
                (served.is_written, served.untold) = (true, untold);
            } else {
                self.desk.asks.remove(&key);
            }
            self.send(&to, AskAnswer { answer, epoch, position, at, untold });
        } else {
            served.lost_at_us.get_or_insert(clocks.mono_us);
            served.untold = untold;
        }
    }

    fn send(&mut self, to: &To, answer: AskAnswer) {
        self.post(&to.peer, Message::Answer { ask: to.ask, sending: to.sending, answer });
    }

    fn post(&mut self, to: &PeerAddress, message: Message) {
        if *to == self.config.address {
            self.inbox.push_back(message);
        } else {
            self.out.push_back(Out::Send(to.clone(), message));
        }
    }

    fn relayed(&mut self, out: Vec<RelayOut>) {
        for out in out {
            match out {
                RelayOut::Send(to, message) => self.post(&to, message),
                RelayOut::Answer(caller, answer) => self.out.push_back(Out::Answer(caller, answer)),
            }
        }
    }

    /// All partitions of this node in one transaction, one at a time.
    fn append(&mut self, clocks: Clocks) {
        if self.appending.is_some() || self.life.is_none() {
            return;
        }
        let appends: Vec<_> = self.seats.iter_mut().filter_map(|seat| seat.take_append(clocks)).collect();
        if !appends.is_empty() {
            self.appending = Some(self.ask_store(Op::Append(appends)));
        }
    }

    /// One round trip proves for every partition that this node is not buried.
    fn confirm(&mut self) {
        let wants = |seat: &Seat| seat.owned.as_ref().is_some_and(Partition::wants_proof);
        if self.confirming.is_some() || self.life.is_none() || !self.seats.iter().any(wants) {
            return;
        }
        let mut proofs = Vec::new();
        for seat in &mut self.seats {
            if let (Some(reign), Some(owned)) = (seat.reign, &mut seat.owned) {
                proofs.push((seat.partition, reign.epoch(), owned.begin_proof()));
            }
        }
        let op = self.ask_store(Op::Confirm);
        self.confirming = Some((op, proofs));
    }

    fn checkpoint(&mut self, clocks: Clocks) {
        for n in 0..self.seats.len() {
            let seat = &mut self.seats[n];
            seat.checkpoint_if_due(self.config.checkpoint_every, clocks);
            let (Some(reign), Some(checkpoint)) = (seat.reign, &mut seat.checkpoint) else { continue };
            if seat.is_op_open || seat.phase != Phase::Serving {
                continue;
            }
            seat.is_op_open = true;
            let op = match checkpoint.chunks.front() {
                Some(chunk) => Op::PutChunk(reign, checkpoint.id, checkpoint.put, chunk.clone()),
                None if !checkpoint.is_finished => Op::FinishCheckpoint(reign, checkpoint.id, checkpoint.put),
                None => Op::Sweep(reign),
            };
            self.ask_store(op);
        }
    }

    fn let_go_if_closed(&mut self, clocks: Clocks) {
        for n in 0..self.seats.len() {
            let seat = &mut self.seats[n];
            let (Some(reign), Some(owned)) = (seat.reign, &mut seat.owned) else { continue };
            if seat.phase != Phase::Closing || seat.is_op_open {
                continue;
            }
            if planted!(GivenWithoutDrain) {
                owned.depose(false);
                seat.in_flight = None;
            } else if !owned.is_at_rest() || seat.in_flight.is_some() {
                continue;
            }
            seat.phase = Phase::LettingGo;
            seat.is_op_open = true;
            let at = if planted!(TimeOfGivingLost) { reign.owner.at } else { owned.service_time() };
            let op = Op::LetGo(reign, at);
            self.ask_store(op);
        }
        let is_late = self.drained_at_us.is_some_and(|at| clocks.mono_us >= at + DRAIN_US);
        let is_empty = self.seats.iter().all(|seat| seat.phase == Phase::Following);
        if self.is_draining && is_empty && (is_late || self.relay.len() == 0) {
            let mine = self.life.and_then(|life| self.map.as_ref()?.node(life).cloned());
            if let Some(mine) = mine.filter(|_| !self.open.values().any(|(_, op)| matches!(op, Op::Bury(_)))) {
                self.ask_store(Op::Bury(mine));
            }
        }
    }

    fn ask_store(&mut self, op: Op) -> u64 {
        self.next_op += 1;
        self.open.insert(self.next_op, (self.life, op.clone()));
        self.out.push_back(Out::Store(self.next_op, op));
        self.next_op
    }

    /// What a call to the store came to. An outcome that is unknown is `Away`.
    pub fn handle_store(&mut self, clocks: Clocks, op: u64, result: Result<Done, SharedError>) {
        let Some((life, asked)) = self.open.remove(&op) else { return };
        if life == self.life {
            self.stored(clocks, op, asked, result);
        }
        self.flush(clocks);
    }

    fn stored(&mut self, clocks: Clocks, op: u64, asked: Op, result: Result<Done, SharedError>) {
        match (asked, result) {
            (Op::Join(record, _), Ok(Done::Map(map))) => self.joined(clocks, &record, map),
            (Op::Join(..), Err(_)) => self.is_joining = false,
            (Op::Beat(_), Ok(_)) => {
                self.is_beating = false;
                self.beaten_at_us = clocks.mono_us;
                for owned in self.seats.iter_mut().filter_map(|seat| seat.owned.as_mut()) {
                    owned.beat_done(clocks);
                }
            }
            (Op::Beat(_) | Op::Confirm, Err(SharedError::Fenced(_))) => self.die(clocks),
            (Op::Beat(_), Err(_)) => (self.is_beating, self.beat_due_us) = (false, clocks.mono_us + 100_000),
            (Op::Confirm, Ok(_)) => self.proven(clocks, op),
            (Op::Confirm, Err(_)) => self.confirming = None,
            (Op::Map, Ok(Done::Map(map))) => {
                self.is_looking = false;
                self.look(clocks, map);
            }
            (Op::Map, _) => self.is_looking = false,
            (Op::Bury(seen), Ok(_)) if Some(seen.value.node) == self.life => self.die(clocks),
            (Op::Bury(_) | Op::Forget(_), _) => self.look_due_us = 0,
            (Op::Take(taking), Ok(Done::Reign(reign))) => self.taken(clocks, taking.partition, reign),
            (Op::Take(taking), _) => self.seats[taking.partition as usize].is_op_open = false,
            (Op::LetGo(reign, at), result) => self.let_go(clocks, reign, at, &result),
            (Op::Append(appends), Ok(Done::Landings(landings))) => {
                self.appending = None;
                for (append, landing) in appends.iter().zip(landings) {
                    self.landed(clocks, &append.reign, &landing);
                }
            }
            (Op::Append(_), _) => self.appending = None,
            (Op::Read(partition, _), Ok(Done::Page(page))) => self.read(clocks, partition, &page),
            (Op::Read(partition, _), Err(error)) => {
                let seat = &mut self.seats[partition as usize];
                seat.is_reading = false;
                if error == SharedError::Gone {
                    seat.follower = seat.follower.take().map(|_| Follower::new(self.config.limits.clone()));
                }
            }
            (Op::PutChunk(reign, ..) | Op::FinishCheckpoint(reign, ..) | Op::Sweep(reign), result) => {
                self.checkpointed(&reign, &result);
            }
            (Op::Join(..) | Op::Read(..), Ok(_)) => unreachable!("a store answers what it was asked"),
        }
    }

    fn joined(&mut self, clocks: Clocks, record: &NodeRecord, map: Map) {
        self.is_joining = false;
        self.life = Some(record.node);
        self.beaten_at_us = clocks.mono_us;
        if self.seats.is_empty() {
            self.seats = map.meta.partitions.all().map(|partition| Seat::new(partition, &self.config.limits)).collect();
        }
        self.looked_at_us = None;
        self.watched.clear();
        self.look(clocks, map);
    }

    /// This life is buried: everything it owned is thrown away, and the next life begins with a join.
    fn die(&mut self, clocks: Clocks) {
        if planted!(BuriedServesOn) {
            (self.is_beating, self.confirming) = (false, None);
            self.beat_due_us = clocks.mono_us + self.config.beat_us;
            return;
        }
        self.life = None;
        (self.is_beating, self.is_looking, self.confirming, self.appending) = (false, false, None, None);
        self.beat_due_us = 0;
        for n in 0..self.seats.len() {
            let is_unknown = self.seats[n].in_flight.is_some();
            self.depose(clocks, n, is_unknown);
            self.seats[n].is_reading = false;
        }
    }

    /// The partition is not ours: its callers are told to ask elsewhere.
    fn depose(&mut self, clocks: Clocks, n: usize, is_append_unknown: bool) {
        let Some(mut owned) = self.seats[n].reset(&self.config.limits) else { return };
        owned.depose(is_append_unknown);
        let mut told = Vec::new();
        owned.poll_told(&mut told);
        for told in told {
            self.tell_one(told, clocks);
        }
        self.desk.clear(self.seats[n].partition);
        self.look_due_us = 0;
    }

    fn proven(&mut self, clocks: Clocks, op: u64) {
        let Some((_, proofs)) = self.confirming.take_if(|(confirm, _)| *confirm == op) else { return };
        for (partition, epoch, proof) in proofs {
            let seat = &mut self.seats[partition as usize];
            if seat.epoch() == Some(epoch)
                && let Some(owned) = &mut seat.owned
            {
                owned.proof_done(clocks, proof);
            }
        }
    }

    fn taken(&mut self, clocks: Clocks, partition: u32, reign: Reign) {
        let seat = &mut self.seats[partition as usize];
        seat.is_op_open = false;
        if seat.phase == Phase::Following {
            seat.reign = Some(reign);
            seat.phase = Phase::Tail;
            // A page that was asked for before the taking is not the tail.
            seat.read_at_us = 0;
            let is_early = [planted!(ServedBeforeTail), planted!(TailReadBeforeTaking)].contains(&true);
            if is_early && seat.follower.as_ref().is_some_and(Follower::is_linked) {
                seat.begin(&self.config.partition_limits, clocks);
                seat.phase = if planted!(ServedBeforeTail) { Phase::Serving } else { seat.phase };
            }
        }
    }

    fn read(&mut self, clocks: Clocks, partition: u32, page: &crate::store::Page) {
        let limits = &self.config.partition_limits;
        let seat = &mut self.seats[partition as usize];
        seat.is_reading = false;
        let Some(follower) = &mut seat.follower else { return };
        let is_end = follower.take_page(page).unwrap_or_else(|_| {
            *follower = Follower::new(self.config.limits.clone());
            false
        });
        self.out.extend(seat.poll_news().map(Out::Happened));
        let Some(reign) = seat.reign.filter(|_| seat.phase == Phase::Tail) else { return };
        let is_ours = page.owner.value == reign.owner && page.owner.version == reign.version;
        if is_end && is_ours {
            seat.begin(limits, clocks);
        } else if page.owner.version > reign.version {
            seat.reset(&self.config.limits);
        }
    }

    fn landed(&mut self, clocks: Clocks, reign: &Reign, landing: &Landing) {
        let n = reign.partition as usize;
        if self.seats[n].reign.as_ref() != Some(reign) || self.seats[n].in_flight.is_none() {
            return;
        }
        match landing {
            Landing::Durable => self.seats[n].appended(clocks),
            Landing::Moved => self.depose(clocks, n, false),
            Landing::Lost | Landing::Behind => self.depose(clocks, n, true),
            // It is sent again.
            Landing::Full => {}
        }
    }

    /// Whatever is heard, nothing is decided in that epoch again.
    fn let_go(&mut self, clocks: Clocks, reign: Reign, at: Time, result: &Result<Done, SharedError>) {
        let n = reign.partition as usize;
        if self.seats[n].reign != Some(reign) || self.seats[n].phase != Phase::LettingGo {
            return;
        }
        if let Err(SharedError::Away(_) | SharedError::Full(_)) = result {
            if planted!(GiverResumes) {
                self.seats[n].phase = Phase::Following;
                self.seats[n].is_op_open = false;
                self.depose(clocks, n, false);
                self.adopt(n, reign);
                return;
            }
            self.ask_store(Op::LetGo(reign, at));
            return;
        }
        self.depose(clocks, n, false);
        let target = self.target_of(reign.partition);
        if let Some(target) = target.and_then(|target| self.map.as_ref()?.node(target)) {
            let address: PeerAddress = target.value.address.as_str().into();
            self.post(&address, Message::Look);
        }
    }

    fn checkpointed(&mut self, reign: &Reign, result: &Result<Done, SharedError>) {
        let seat = &mut self.seats[reign.partition as usize];
        if seat.reign.as_ref() != Some(reign) {
            return;
        }
        seat.is_op_open = false;
        let Some(checkpoint) = &mut seat.checkpoint else { return };
        match result {
            Ok(Done::More(true)) => {}
            Ok(Done::More(false)) | Err(SharedError::Refused(_) | SharedError::Fenced(_)) => seat.checkpoint = None,
            Ok(_) if checkpoint.chunks.pop_front().is_some() => checkpoint.put += 1,
            Ok(_) => checkpoint.is_finished = true,
            Err(_) => {}
        }
    }

    /// Gives everything away and ends: SIGTERM.
    pub fn drain(&mut self, clocks: Clocks) {
        self.is_draining = true;
        self.drained_at_us = Some(clocks.mono_us);
        self.beat_due_us = 0;
        for seat in &mut self.seats {
            close(seat, clocks);
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
        self.relay.len()
    }
}

/// Begins to give a partition away.
fn close(seat: &mut Seat, clocks: Clocks) {
    if seat.phase == Phase::Serving
        && let Some(owned) = &mut seat.owned
    {
        owned.close(clocks);
        seat.phase = Phase::Closing;
        seat.is_op_open = false;
        seat.checkpoint = None;
    }
}
