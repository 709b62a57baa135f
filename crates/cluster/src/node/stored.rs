//! How a node goes on when the store has answered.

use leasehold_engine::planted;
use leasehold_journal::{Clocks, Epoch};

use super::seat::{Phase, Seat};
use super::{AGAIN_US, Node};
use crate::follower::Follower;
use crate::ids::NodeId;
use crate::map::{Map, NodeRecord, Reign};
use crate::message::{Done, Message, Op, Out, PeerAddress};
use crate::store::{Landing, Page, SharedError};

/// How long a checkpoint that found no room is put off.
const NO_ROOM_US: u64 = 10_000_000;

/// A call to the store without a result: as much of it as its result needs.
#[derive(Debug)]
pub(super) enum Asked {
    Join(NodeRecord),
    /// With the epoch floor that it carries.
    Beat(Epoch),
    Confirm,
    Map,
    Bury(NodeId),
    Forget,
    RaiseFormat,
    Take(u32),
    LetGo(Reign),
    Append(Vec<Reign>),
    Read(u32),
    Checkpoint(Reign),
}

impl Asked {
    pub(super) fn of(op: &Op) -> Asked {
        match op {
            Op::Join(record, _) => Asked::Join(record.clone()),
            Op::Beat(record) => Asked::Beat(record.epoch_floor),
            Op::Confirm => Asked::Confirm,
            Op::Map => Asked::Map,
            Op::Bury(seen) => Asked::Bury(seen.value.node),
            Op::Forget(_) => Asked::Forget,
            Op::RaiseFormat(_) => Asked::RaiseFormat,
            Op::Take(taking) => Asked::Take(taking.partition),
            Op::LetGo(reign, _) => Asked::LetGo(*reign),
            Op::Append(appends) => Asked::Append(appends.iter().map(|append| append.reign).collect()),
            Op::Read(partition, _) => Asked::Read(*partition),
            Op::PutChunk(reign, ..) | Op::FinishCheckpoint(reign, ..) | Op::Sweep(reign) => Asked::Checkpoint(*reign),
        }
    }
}

impl Node {
    pub(super) fn stored(&mut self, clocks: Clocks, op: u64, asked: Asked, result: Result<Done, SharedError>) {
        match (asked, result) {
            (Asked::Join(record), Ok(Done::Map(map))) => self.joined(clocks, &record, map),
            (Asked::Join(_), _) => self.is_joining = false,
            (Asked::Beat(floor), Ok(_)) => {
                self.floor_told = self.floor_told.max(floor);
                self.is_beating = false;
                self.beaten_at_us = clocks.mono_us;
                for owned in self.seats.iter_mut().filter_map(|seat| seat.owned.as_mut()) {
                    owned.beat_done(clocks);
                }
            }
            (Asked::Beat(_) | Asked::Confirm, Err(SharedError::Fenced(_))) => self.die(clocks),
            (Asked::Beat(_), Err(_)) => (self.is_beating, self.beat_due_us) = (false, clocks.mono_us + 100_000),
            (Asked::Confirm, Ok(_)) => self.proven(clocks, op),
            (Asked::Confirm, Err(_)) => {
                (self.confirming, self.wants_proof) = (None, true);
                self.confirm_at_us = clocks.mono_us + AGAIN_US;
            }
            (Asked::Map, Ok(Done::Map(map))) => {
                self.is_looking = false;
                self.look(clocks, map);
            }
            (Asked::Map, _) => self.is_looking = false,
            (Asked::Bury(node), Ok(_)) if Some(node) == self.life => self.die(clocks),
            (Asked::Bury(_) | Asked::Forget, _) => self.look_due_us = 0,
            (Asked::RaiseFormat, _) => {
                self.agreement.raised();
                self.look_due_us = 0;
            }
            (Asked::Take(partition), Ok(Done::Reign(reign))) => self.taken(clocks, partition, reign),
            (Asked::Take(partition), _) => self.seats[partition as usize].is_op_open = false,
            (Asked::LetGo(reign), result) => self.let_go(clocks, reign, &result),
            (Asked::Append(reigns), Ok(Done::Landings(landings))) => {
                self.appending = None;
                self.gathering.landed(clocks.mono_us, self.held());
                for (reign, landing) in reigns.iter().zip(landings) {
                    self.landed(clocks, reign, &landing);
                }
            }
            (Asked::Append(_), _) => {
                self.appending = None;
                self.append_at_us = clocks.mono_us + AGAIN_US;
            }
            // The store went back after this page was asked for.
            (Asked::Read(_), _) if op <= self.reads_after => {}
            (Asked::Read(partition), Ok(Done::Page(page))) => self.read(clocks, partition, &page),
            (Asked::Read(partition), result) => {
                let seat = &mut self.seats[partition as usize];
                seat.is_reading = false;
                if matches!(result, Err(SharedError::Gone)) && seat.follower.is_some() {
                    seat.restart(&self.config.limits);
                }
            }
            (Asked::Checkpoint(reign), result) => self.checkpointed(clocks, &reign, &result),
        }
    }

    fn joined(&mut self, clocks: Clocks, record: &NodeRecord, map: Map) {
        self.is_joining = false;
        self.life = Some(record.node);
        self.beaten_at_us = clocks.mono_us;
        if self.seats.is_empty() {
            self.seats = map.meta.partitions.all().map(|partition| Seat::new(partition, &self.config.limits)).collect();
        }
        self.unsaid.extend(map.meta.partitions.all());
        self.looked_at_us = None;
        self.watched.clear();
        self.look(clocks, map);
    }

    /// This life is buried: everything it owned is thrown away, and the next life begins with a join.
    pub(super) fn die(&mut self, clocks: Clocks) {
        if planted!(BuriedServesOn) {
            (self.is_beating, self.confirming) = (false, None);
            self.beat_due_us = clocks.mono_us + self.config.beat_us;
            return;
        }
        self.life = None;
        self.agreement.raised();
        (self.is_beating, self.is_looking, self.confirming, self.appending) = (false, false, None, None);
        self.beat_due_us = 0;
        for n in 0..self.seats.len() {
            let is_unknown = self.seats[n].in_flight.is_some();
            self.depose(clocks, n, is_unknown);
            self.seats[n].is_reading = false;
        }
    }

    /// The partition is not ours: its callers are told to ask elsewhere.
    pub(super) fn depose(&mut self, clocks: Clocks, n: usize, is_append_unknown: bool) {
        self.unsaved.remove(&n);
        self.look_due_us = 0;
        let Some(mut owned) = self.seats[n].reset(&self.config.limits) else { return };
        owned.depose(is_append_unknown);
        let mut told = Vec::new();
        owned.poll_told(&mut told);
        for told in told {
            self.tell_one(told, clocks);
        }
        self.desk.clear(self.seats[n].partition);
    }

    fn proven(&mut self, clocks: Clocks, op: u64) {
        let Some((_, proofs)) = self.confirming.take_if(|(confirm, _)| *confirm == op) else { return };
        for (partition, epoch, proof) in proofs {
            let n = partition as usize;
            let seat = &mut self.seats[n];
            if seat.epoch() == Some(epoch)
                && let Some(owned) = &mut seat.owned
            {
                owned.proof_done(clocks, proof);
                self.touch(n);
            }
        }
    }

    fn taken(&mut self, clocks: Clocks, partition: u32, reign: Reign) {
        let n = partition as usize;
        let seat = &mut self.seats[n];
        seat.is_op_open = false;
        if seat.phase == Phase::Following && reign.epoch() >= self.floor {
            self.sight.taken(&reign);
            seat.reign = Some(reign);
            seat.phase = Phase::Tail;
            let is_early = [planted!(ServedBeforeTail), planted!(TailReadBeforeTaking)].contains(&true);
            if is_early && seat.follower.as_ref().is_some_and(Follower::is_linked) {
                seat.begin(&self.config.partition_limits, clocks);
                seat.phase = if planted!(ServedBeforeTail) { Phase::Serving } else { seat.phase };
                self.touch(n);
            }
            // A page that was asked for before the taking is not the tail.
            self.follow(clocks, n);
        }
    }

    fn read(&mut self, clocks: Clocks, partition: u32, page: &Page) {
        let n = partition as usize;
        let limits = &self.config.partition_limits;
        let seat = &mut self.seats[n];
        seat.is_reading = false;
        if seat.owned.is_some() {
            self.newest_read(clocks, n, page);
            return;
        }
        let Some(follower) = &mut seat.follower else { return };
        let is_end = match follower.take_page(page) {
            Ok(is_end) => is_end,
            Err(broken) => {
                // The next tick reads from the beginning: a stream that stays broken is not read in a circle.
                seat.restart(&self.config.limits);
                self.stream_broken(clocks, partition, &broken);
                return;
            }
        };
        if is_end {
            seat.whole_at_us = Some(seat.read_asked_us);
        }
        self.out.extend(seat.poll_news().map(Out::Happened));
        if let Some(reign) = seat.reign.filter(|_| seat.phase == Phase::Tail) {
            let is_ours = page.owner.value == reign.owner && page.owner.version == reign.version;
            if is_end && is_ours {
                seat.begin(limits, clocks);
                self.touch(n);
            } else if page.owner.version > reign.version {
                seat.reset(&self.config.limits);
            }
        }
        if !is_end {
            self.seats[n].read_at_us = 0;
        }
        if !is_end || self.seats[n].phase == Phase::Tail {
            self.follow(clocks, n);
        }
    }

    fn landed(&mut self, clocks: Clocks, reign: &Reign, landing: &Landing) {
        let n = reign.partition as usize;
        if self.seats[n].reign.as_ref() != Some(reign) || self.seats[n].in_flight.is_none() {
            return;
        }
        match landing {
            Landing::Durable => {
                let was_first = self.seats[n].phase == Phase::First;
                self.seats[n].appended(clocks);
                if was_first && self.seats[n].phase == Phase::Serving {
                    self.announce();
                }
                if self.seats[n].is_checkpoint_due(self.config.checkpoint_every) {
                    self.due.insert(n);
                }
                self.touch(n);
            }
            Landing::Moved => self.depose(clocks, n, false),
            Landing::Lost => self.depose(clocks, n, true),
            Landing::Behind => {
                self.depose(clocks, n, true);
                if let Some(map) = self.map.clone().filter(|_| !planted!(WentBackUnnoticed)) {
                    let what = format!("partition {n} ends elsewhere than where its owner left it");
                    self.went_back(clocks, &map, what);
                }
            }
            // It is sent again, after a while.
            Landing::Full => self.append_at_us = clocks.mono_us + AGAIN_US,
        }
    }

    /// A partition is served here now. Calls for it wait at the others until they know; a store that is polled would
    /// tell them later.
    fn announce(&mut self) {
        let Some((map, life)) = self.map.as_ref().zip(self.life) else { return };
        let others = map.living().filter(|record| record.node != life);
        let addresses: Vec<PeerAddress> = others.map(|record| record.address.as_str().into()).collect();
        for address in addresses {
            let peer = self.peers.number(&address);
            self.post(peer, Message::Look);
        }
    }

    /// Ends this reign: whatever the result says, this node decides nothing in that epoch again.
    fn let_go(&mut self, clocks: Clocks, reign: Reign, result: &Result<Done, SharedError>) {
        let n = reign.partition as usize;
        if self.seats[n].reign != Some(reign) || self.seats[n].phase != Phase::LettingGo {
            return;
        }
        if let Err(SharedError::Away(_) | SharedError::Full(_)) = result {
            if planted!(GiverResumes) {
                self.seats[n].phase = Phase::Following;
                self.seats[n].is_op_open = false;
                self.depose(clocks, n, false);
                self.adopt(clocks, n, reign);
                return;
            }
            self.seats[n].is_op_open = false;
            self.seats[n].again_at_us = clocks.mono_us + AGAIN_US;
            return;
        }
        self.depose(clocks, n, false);
        let target = self.target_of(reign.partition);
        if let Some(target) = target.and_then(|target| self.map.as_ref()?.node(target)) {
            let address: PeerAddress = target.value.address.as_str().into();
            let peer = self.peers.number(&address);
            self.post(peer, Message::Look);
        }
    }

    fn checkpointed(&mut self, clocks: Clocks, reign: &Reign, result: &Result<Done, SharedError>) {
        let seat = &mut self.seats[reign.partition as usize];
        if seat.reign.as_ref() != Some(reign) {
            return;
        }
        seat.is_op_open = false;
        let Some(checkpoint) = &mut seat.checkpoint else { return };
        match result {
            Ok(Done::More(true)) => {}
            Ok(Done::More(false)) => {
                seat.tail.checkpoint_bytes = checkpoint.bytes();
                seat.checkpoint = None;
            }
            Ok(_) => checkpoint.done(),
            // It is sent again, after a while.
            Err(SharedError::Away(_)) => seat.again_at_us = clocks.mono_us + AGAIN_US,
            // The tail stays as long as it is; another checkpoint begins when it has grown, or when there may be room.
            Err(_) => {
                seat.drop_checkpoint();
                seat.tail.batches = self.config.checkpoint_every;
                seat.again_at_us = clocks.mono_us + NO_ROOM_US;
                self.due.insert(reign.partition as usize);
            }
        }
    }
}
