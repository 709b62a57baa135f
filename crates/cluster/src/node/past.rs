//! A store that went back: a snapshot was restored, or an asynchronous standby was promoted. Writes that it had
//! confirmed are gone, and no node can bring them back. A node that has seen more than the store shows notices.
//!
//! In what was lost, tokens were given out and owners came and went. So no partition goes on as it is: every owner of
//! an epoch before the *floor* stops and lets go, every taker begins at the floor or later, and the first batch of such
//! an epoch makes the tokens jump. The floor is in the record of every node that knows of it, so it outlives the node
//! that noticed. A taker knows that tokens have to jump by the distance between its epoch and that of the newest batch,
//! which is in the store: nothing is forgotten if it dies.

use leasehold_engine::{Wall, planted};
use leasehold_journal::{Clocks, Epoch, Position, first_epoch_after};

use super::Node;
use super::seat::Phase;
use crate::follower::{Broken, Follower};
use crate::ids::{NodeId, Sum};
use crate::map::{Map, NodeRecord, Owner, Reign, Seen};
use crate::message::{Bulletin, Op, Out};
use crate::store::{Cursor, Page, Piece};

/// The part of the store that a node has seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    revision: u64,
    owners: Vec<Seen<Owner>>,
}

impl Sight {
    pub(super) fn taken(&mut self, reign: &Reign) {
        if let Some(owner) = self.owners.get_mut(reign.partition as usize) {
            *owner = Seen { value: reign.owner, version: reign.version };
        }
    }

    /// Everything that a map shows is seen now.
    pub(super) fn looked(&mut self, map: &Map) {
        self.revision = map.revision;
        self.owners.clone_from(&map.owners);
    }

    /// Describes the first thing that was seen before this map was asked for and that the map does not show.
    fn missing(&self, map: &Map) -> Option<String> {
        if map.revision < self.revision {
            return Some(format!("it was at revision {}, and is at revision {}", self.revision, map.revision));
        }
        for (partition, (seen, shown)) in self.owners.iter().zip(&map.owners).enumerate() {
            let is_other = shown.value.epoch == seen.value.epoch && shown.value != seen.value;
            if shown.version < seen.version || shown.value.epoch < seen.value.epoch || is_other {
                return Some(format!("the owner of partition {partition} was {seen:?}, and is {shown:?}"));
            }
        }
        None
    }
}

impl Node {
    /// Compares a map with all that was seen before it was asked for, and with what other nodes say.
    pub(super) fn look_back(&mut self, clocks: Clocks, map: &Map) {
        if planted!(WentBackUnnoticed) {
            return;
        }
        let missing = self.sight_asked.missing(map);
        self.sight.looked(map);
        if let Some(what) = missing {
            self.went_back(clocks, map, what);
        } else if map.epoch_floor() > self.floor {
            self.raise_floor(clocks, map.epoch_floor(), "another node of the cluster noticed".to_owned());
        }
    }

    /// An owner that has nothing to append looks whether its newest batch is still there: an append would find out. So
    /// does one that is about to let go.
    pub(super) fn check_newest(&mut self, clocks: Clocks, n: usize) {
        let seat = &mut self.seats[n];
        let is_due = match seat.phase {
            Phase::Serving => clocks.mono_us >= seat.read_at_us,
            Phase::Closing => !seat.is_checked && clocks.mono_us >= seat.again_at_us,
            _ => false,
        };
        if !is_due || seat.in_flight.is_some() || seat.is_reading || self.life.is_none() {
            return;
        }
        seat.read_at_us = clocks.mono_us + self.config.beat_us;
        seat.is_reading = true;
        seat.checked = Some(seat.last);
        let op = Op::Read(seat.partition, Cursor::After(Position(seat.last.first.0.saturating_sub(1))));
        self.ask_store(op);
    }

    /// The newest batch of a partition that is owned here, as the store shows it.
    pub(super) fn newest_read(&mut self, clocks: Clocks, n: usize, page: &Page) {
        let seat = &mut self.seats[n];
        let Some(checked) = seat.checked.take().filter(|checked| *checked == seat.last) else { return };
        if seat.reign.is_none_or(|reign| page.owner.version > reign.version) {
            // It is another node's by now, which may have swept it.
            return;
        }
        if seat.in_flight.is_some() {
            // A later batch may be there by now, and this one swept.
            return;
        }
        let is_there = page.pieces.iter().any(|piece| match piece {
            Piece::Batch { record, .. } => Sum::of(record) == checked.sum,
            Piece::Chunk { .. } => false,
        });
        seat.is_checked = is_there && seat.phase == Phase::Closing;
        if !is_there && let Some(map) = self.map.clone().filter(|_| !planted!(WentBackUnnoticed)) {
            let what = format!("partition {n} has not the newest batch, at {}, any more", checked.first);
            self.went_back(clocks, &map, what);
        }
    }

    /// A stream shows less than was read from it.
    pub(super) fn stream_broken(&mut self, clocks: Clocks, partition: u32, broken: &Broken) {
        let what = match broken {
            Broken::Ahead { .. } | Broken::Forked { .. } => format!("partition {partition}: {broken}"),
            Broken::Gap { .. } | Broken::Damaged(_) => return,
        };
        if let Some(map) = self.map.clone().filter(|_| !planted!(WentBackUnnoticed)) {
            self.went_back(clocks, &map, what);
        }
    }

    pub(super) fn went_back(&mut self, clocks: Clocks, map: &Map, what: String) {
        let known = self.sight_asked.owners.iter().chain(&self.sight.owners).chain(&map.owners);
        let last = known.map(|owner| owner.value.epoch).max().unwrap_or_default().max(self.floor);
        // Another node may have noticed the same.
        let told = Some(map.epoch_floor()).filter(|floor| *floor > last);
        self.raise_floor(clocks, told.unwrap_or_else(|| first_epoch_after(last, clocks.wall)), what);
    }

    /// Everything that this node thinks of the streams is thrown away, and read again.
    fn raise_floor(&mut self, clocks: Clocks, floor: Epoch, what: String) {
        self.floor = floor;
        self.record.epoch_floor = floor;
        // Forget the lost past, so that it is missed only once.
        (self.sight, self.sight_asked) = (Sight::default(), Sight::default());
        self.beat_due_us = 0;
        self.out.push_back(Out::WentBack { what, epoch: floor });
        for n in 0..self.seats.len() {
            let is_unknown = self.seats[n].in_flight.is_some();
            let past = self.seats[n].owned.as_ref().map(|owned| (owned.epoch(), owned.service_time()));
            self.depose(clocks, n, is_unknown);
            let seat = &mut self.seats[n];
            seat.past = past.or(seat.past);
            seat.follower = Some(Follower::new(self.config.limits.clone()));
            seat.is_reading = false;
            // Observers begin anew as well.
            seat.told = Position::START;
            let (partition, gap) = (seat.partition, Some(Position::START));
            let news = Bulletin { partition, gap, happened: Vec::new(), is_owner: false };
            self.out.push_back(Out::Happened(news));
        }
        // A page that was asked for before may be of what was lost.
        self.reads_after = self.next_op;
    }

    /// An owner record of ours from before the floor: whatever it meant, it ends.
    pub(super) fn give_up_past(&mut self, n: usize, reign: Reign) {
        let mark =
            self.life.and_then(|life| self.map.as_ref()?.node(life)?.value.mark_of(reign.partition, reign.epoch()));
        let seat = &mut self.seats[n];
        seat.reign = Some(reign);
        seat.phase = Phase::LettingGo;
        let past = seat.past.filter(|(epoch, _)| *epoch == reign.epoch()).map(|(_, at)| at);
        seat.let_go_at = [mark, past].into_iter().flatten().chain([reign.owner.at]).max();
        self.closing.insert(n);
    }

    /// The epoch that every owner has to have reached, as far as this node knows: zero while no store went back.
    pub fn epoch_floor(&self) -> Epoch {
        self.floor
    }
}

/// The record by which an operator says that the store was restored while no node ran: joined with, and buried at once,
/// it tells the nodes that start afterwards. Without it no node can know.
pub fn restored(map: &Map, node: NodeId, wall: Wall) -> NodeRecord {
    let last = map.owners.iter().map(|owner| owner.value.epoch).max().unwrap_or_default().max(map.epoch_floor());
    NodeRecord { epoch_floor: first_epoch_after(last, wall), ..NodeRecord::new(node, "restored") }
}
