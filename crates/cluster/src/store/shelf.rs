//! A shared store as a value: what etcd or a database would hold, and the transactions on it. The store in memory puts
//! a lock around it; the simulation puts latency, lost replies and outages around it.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_engine::{Time, planted};
use leasehold_journal::{Batch, Position};

use super::{Append, Birth, CheckpointId, Cursor, Landing, Page, Piece, SharedError, Taking};
use crate::hash::Partitions;
use crate::ids::{Link, NodeId};
use crate::map::{Map, Meta, NodeRecord, Owner, Reign, Seen, Stage};

/// Pieces of one page.
const PAGE_PIECES: usize = 16;
/// Batches, and chunks, that one sweep removes.
const SWEEP_MAX: usize = 64;

/// One life of a node, as the store knows it: its id, and the version that its join wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Life {
    /// The node.
    pub node: NodeId,
    /// The version that made its record.
    pub created: u64,
}

/// Everything that a shared store holds.
#[derive(Clone, Debug, Default)]
pub struct Shelf {
    revision: u64,
    meta: Option<Meta>,
    nodes: BTreeMap<NodeId, Entry>,
    streams: Vec<Stream>,
    drained: BTreeSet<NodeId>,
    keyring: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Entry {
    created: u64,
    seen: Seen<NodeRecord>,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    owner: Seen<Owner>,
    head: Position,
    /// The newest batch.
    last: Link,
    /// By first position.
    batches: BTreeMap<Position, Kept>,
    checkpoint: Option<(CheckpointId, u32)>,
    chunks: BTreeMap<(CheckpointId, u32), Vec<u8>>,
}

#[derive(Clone, Debug)]
struct Kept {
    before: Link,
    batch: Batch,
}

impl Shelf {
    /// See [`super::SharedStore::join`]. The life that it returns stands for the connection.
    pub fn join(&mut self, me: &NodeRecord, birth: &Birth) -> Result<(Life, Map), SharedError> {
        if let Some(meta) = &self.meta {
            birth.check(meta, "this store")?;
        } else {
            let partitions = birth.partitions.unwrap_or(Partitions::DEFAULT);
            self.streams.resize_with(partitions.number() as usize, Stream::default);
            let stage = Stage::Serving;
            self.meta = Some(Meta { partitions, format: birth.format, secret: birth.secret, stage });
        }
        let created = match self.nodes.get(&me.node) {
            // Our own join, which was not heard.
            Some(entry) if entry.seen.value == *me => entry.created,
            Some(_) => return Err(SharedError::Refused(format!("there has been a {:?} before", me.node))),
            None => {
                let version = self.next_revision();
                self.nodes.insert(me.node, Entry { created: version, seen: Seen { value: me.clone(), version } });
                version
            }
        };
        Ok((Life { node: me.node, created }, self.map()?))
    }

    /// See [`super::SharedStore::beat`].
    pub fn beat(&mut self, life: Life, me: NodeRecord) -> Result<(), SharedError> {
        let entry = self.living(life)?;
        if me.beat < entry.seen.value.beat || me == entry.seen.value {
            // A beat of ours that was overtaken, or was not heard.
            return Ok(());
        }
        let version = self.next_revision();
        let entry = self.nodes.get_mut(&life.node).expect("it is alive");
        entry.seen = Seen { value: NodeRecord { is_buried: false, ..me }, version };
        Ok(())
    }

    /// See [`super::SharedStore::confirm`].
    pub fn confirm(&self, life: Life) -> Result<(), SharedError> {
        self.living(life).map(|_| ())
    }

    fn living(&self, life: Life) -> Result<&Entry, SharedError> {
        match self.nodes.get(&life.node) {
            Some(entry) if entry.seen.value.is_buried && !planted!(BeatOfTheBuried) => {
                Err(SharedError::Fenced(format!("{:?} is buried", life.node)))
            }
            Some(entry) if entry.created != life.created && !planted!(JoinRevives) => {
                Err(SharedError::Fenced(format!("{:?} is there by another join", life.node)))
            }
            Some(entry) => Ok(entry),
            None => Err(SharedError::Fenced(format!("{:?} is gone", life.node))),
        }
    }

    /// See [`super::SharedStore::raise_format`].
    pub fn raise_format(&mut self, format: u16) -> Result<(), SharedError> {
        let Some(meta) = &mut self.meta else {
            return Err(SharedError::Refused("there is no cluster yet".to_owned()));
        };
        if format > meta.format {
            meta.format = format;
            self.next_revision();
        }
        Ok(())
    }

    /// See [`super::SharedStore::map`].
    pub fn map(&self) -> Result<Map, SharedError> {
        let Some(meta) = self.meta.clone() else {
            return Err(SharedError::Refused("there is no cluster yet".to_owned()));
        };
        Ok(Map {
            revision: self.revision,
            meta,
            nodes: self.nodes.values().map(|entry| entry.seen.clone()).collect(),
            owners: self.streams.iter().map(|stream| stream.owner.clone()).collect(),
            drained: self.drained.iter().copied().collect(),
        })
    }

    /// It rises with every transaction that changes something.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// See [`super::SharedStore::bury`].
    pub fn bury(&mut self, seen: &Seen<NodeRecord>) -> Result<(), SharedError> {
        let node = seen.value.node;
        let Some(entry) = self.nodes.get(&node) else { return Ok(()) };
        if entry.seen.value.is_buried {
            return Ok(());
        }
        if entry.seen.version != seen.version && !planted!(BuriedWithoutCompare) {
            return Err(SharedError::Fenced(format!("{node:?} has beaten since it was seen")));
        }
        let version = self.next_revision();
        let entry = self.nodes.get_mut(&node).expect("it is there");
        entry.seen.version = version;
        entry.seen.value.is_buried = true;
        Ok(())
    }

    /// See [`super::SharedStore::forget`].
    pub fn forget(&mut self, seen: &Seen<NodeRecord>) -> Result<(), SharedError> {
        let node = seen.value.node;
        let Some(entry) = self.nodes.get(&node) else { return Ok(()) };
        if entry.seen.version != seen.version || !entry.seen.value.is_buried {
            return Err(SharedError::Fenced(format!("{node:?} is not as it was seen, or not buried")));
        }
        if self.streams.iter().any(|stream| stream.owner.value.node == Some(node)) {
            return Err(SharedError::Fenced(format!("a partition names {node:?}")));
        }
        self.next_revision();
        self.nodes.remove(&node);
        self.drained.remove(&node);
        Ok(())
    }

    /// See [`super::SharedStore::drain`].
    pub fn drain(&mut self, node: NodeId, is_draining: bool) -> Result<(), SharedError> {
        if !self.nodes.contains_key(&node) {
            return Err(SharedError::Refused(format!("there is no {node:?}")));
        }
        let is_new = if is_draining { self.drained.insert(node) } else { self.drained.remove(&node) };
        if is_new {
            self.next_revision();
        }
        Ok(())
    }

    /// See [`super::SharedStore::keyring`].
    pub fn keyring(&self) -> Option<Vec<u8>> {
        self.keyring.clone()
    }

    /// See [`super::SharedStore::replace_keyring`].
    pub fn replace_keyring(&mut self, before: Option<&[u8]>, after: Vec<u8>) -> bool {
        if self.keyring.as_deref() == before && before != Some(&*after) {
            self.keyring = Some(after);
            self.next_revision();
            return true;
        }
        self.keyring.as_ref() == Some(&after)
    }

    /// See [`super::SharedStore::take`].
    pub fn take(&mut self, taking: &Taking) -> Result<Reign, SharedError> {
        let Taking { partition, seen, dead, node, epoch, at } = taking;
        let stream = self.stream(*partition)?;
        taking.check()?;
        let epoch = if planted!(EpochKeptOnTake) { seen.value.epoch } else { *epoch };
        let taken = Owner { epoch, node: Some(*node), at: *at };
        if stream.owner.value == taken {
            // Our own taking, which was not heard.
            return Ok(Reign { partition: *partition, owner: taken, version: stream.owner.version });
        }
        if stream.owner != *seen {
            return Err(SharedError::Fenced(format!("partition {partition} has another owner than was seen")));
        }
        if let Some(owner) = seen.value.node
            && !planted!(TakenWithoutBurial)
        {
            let now = self.nodes.get(&owner).map(|entry| &entry.seen);
            let is_dead = now.is_none_or(|now| now.value.is_buried);
            if !is_dead || now != dead.as_ref() {
                return Err(SharedError::Fenced(format!("partition {partition} belongs to {owner:?}")));
            }
        }
        let version = self.next_revision();
        self.streams[*partition as usize].owner = Seen { value: taken, version };
        Ok(Reign { partition: *partition, owner: taken, version })
    }

    /// See [`super::SharedStore::let_go`].
    pub fn let_go(&mut self, reign: &Reign, at: Time) -> Result<(), SharedError> {
        let stream = self.stream(reign.partition)?;
        let free = Owner { epoch: reign.epoch().next(), node: None, at: at.max(reign.owner.at) };
        if stream.owner.value == free {
            return Ok(());
        }
        Self::own(stream, reign)?;
        let version = self.next_revision();
        self.streams[reign.partition as usize].owner = Seen { value: free, version };
        Ok(())
    }

    /// See [`super::SharedStore::append`]. Several of them in one transaction are the same as one after another: each
    /// compares for itself.
    pub fn append(&mut self, append: &Append) -> Result<Landing, SharedError> {
        let Append { reign, before, batch } = append;
        let stream = self.stream(reign.partition)?;
        let there = stream.batches.get(&batch.first);
        let is_there = match there {
            Some(kept) if planted!(AlreadyThereByPosition) => kept.batch.last == batch.last,
            Some(kept) => kept.batch == *batch && kept.before == *before,
            None => false,
        };
        if is_there {
            return Ok(Landing::Durable);
        }
        if Self::own(stream, reign).is_err() && !planted!(AppendIgnoresOwner) {
            let is_swept = there.is_none() && batch.first <= stream.head && stream.is_swept(batch.first);
            return Ok(if is_swept { Landing::Lost } else { Landing::Moved });
        }
        if stream.head.next() != batch.first || stream.last != *before {
            return Ok(Landing::Behind);
        }
        self.next_revision();
        let stream = &mut self.streams[reign.partition as usize];
        stream.head = batch.last;
        stream.last = Link::to(batch);
        stream.batches.insert(batch.first, Kept { before: *before, batch: batch.clone() });
        Ok(Landing::Durable)
    }

    /// See [`super::SharedStore::read`].
    pub fn read(&self, partition: u32, from: Cursor) -> Result<Page, SharedError> {
        let stream = self.stream(partition)?;
        let owner = stream.owner.clone();
        match from {
            Cursor::Chunk(checkpoint, number) => stream.read_chunks(checkpoint, number, owner),
            Cursor::After(after) => match stream.checkpoint {
                Some((id, _)) if after < id.upto && (after == Position::START || stream.is_swept(after.next())) => {
                    stream.read_chunks(id, 0, owner)
                }
                _ => Ok(stream.read_batches(after, owner)),
            },
        }
    }

    /// See [`super::SharedStore::put_chunk`].
    pub fn put_chunk(
        &mut self,
        reign: &Reign,
        checkpoint: CheckpointId,
        number: u32,
        chunk: Vec<u8>,
    ) -> Result<(), SharedError> {
        Self::own(self.stream(reign.partition)?, reign)?;
        self.next_revision();
        self.streams[reign.partition as usize].chunks.insert((checkpoint, number), chunk);
        Ok(())
    }

    /// See [`super::SharedStore::finish_checkpoint`].
    pub fn finish_checkpoint(
        &mut self,
        reign: &Reign,
        checkpoint: CheckpointId,
        chunks: u32,
    ) -> Result<(), SharedError> {
        let stream = self.stream(reign.partition)?;
        if !planted!(CheckpointByFenced) {
            Self::own(stream, reign)?;
        }
        let there = (0..chunks).filter(|number| stream.chunks.contains_key(&(checkpoint, *number))).count();
        if there != chunks as usize {
            return Err(SharedError::Refused(format!("{there} of {chunks} chunks are there")));
        }
        if checkpoint.upto > stream.head && !planted!(CheckpointByFenced) {
            let (upto, head) = (checkpoint.upto, stream.head);
            return Err(SharedError::Refused(format!("the checkpoint is of {upto}, the stream ends at {head}")));
        }
        if stream.checkpoint.is_some_and(|(now, _)| now.upto >= checkpoint.upto) {
            return Ok(());
        }
        self.next_revision();
        self.streams[reign.partition as usize].checkpoint = Some((checkpoint, chunks));
        Ok(())
    }

    /// See [`super::SharedStore::sweep`].
    pub fn sweep(&mut self, reign: &Reign) -> Result<bool, SharedError> {
        let stream = self.stream(reign.partition)?;
        Self::own(stream, reign)?;
        let Some((checkpoint, _)) = stream.checkpoint else { return Ok(false) };
        let covered = if planted!(SweptPastCheckpoint) { checkpoint.upto.plus(3) } else { checkpoint.upto };
        let newest = stream.last.first;
        let old = stream.batches.values().map(|kept| &kept.batch).filter(|batch| batch.last <= covered);
        let old: Vec<Position> =
            old.map(|batch| batch.first).filter(|&first| first != newest || planted!(NewestSwept)).collect();
        let chunks: Vec<_> = stream.chunks.keys().filter(|(id, _)| id.upto < checkpoint.upto).copied().collect();
        if old.is_empty() && chunks.is_empty() {
            return Ok(false);
        }
        self.next_revision();
        let stream = &mut self.streams[reign.partition as usize];
        for first in old.iter().take(SWEEP_MAX) {
            stream.batches.remove(first);
        }
        for key in chunks.iter().take(SWEEP_MAX) {
            stream.chunks.remove(key);
        }
        Ok(old.len() > SWEEP_MAX || chunks.len() > SWEEP_MAX)
    }

    /// See [`super::SharedStore::found`].
    pub fn found(&mut self, meta: Meta) -> Result<(), SharedError> {
        match &self.meta {
            Some(there) if *there == meta => return Ok(()),
            Some(_) => return Err(SharedError::Refused("there is a cluster in this store already".to_owned())),
            None => {}
        }
        self.next_revision();
        self.streams.resize_with(meta.partitions.number() as usize, Stream::default);
        self.meta = Some(meta);
        Ok(())
    }

    /// See [`super::SharedStore::restate`].
    pub fn restate(&mut self, seen: &Meta, meta: Meta) -> Result<(), SharedError> {
        if self.meta.as_ref() == Some(&meta) {
            return Ok(());
        }
        self.facts_are(seen)?;
        self.next_revision();
        self.meta = Some(meta);
        Ok(())
    }

    /// See [`super::SharedStore::clear`].
    pub fn clear(&mut self, seen: &Meta) -> Result<(), SharedError> {
        // Cleared before, by a call that was not heard.
        if self.meta.is_none() {
            return Ok(());
        }
        self.facts_are(seen)?;
        let revision = self.next_revision();
        *self = Shelf { revision, ..Shelf::default() };
        Ok(())
    }

    fn facts_are(&self, seen: &Meta) -> Result<(), SharedError> {
        if self.meta.as_ref() == Some(seen) {
            return Ok(());
        }
        Err(SharedError::Fenced("the facts of the cluster are not as they were seen".to_owned()))
    }

    /// See [`super::SharedStore::begin_stream`].
    pub fn begin_stream(
        &mut self,
        reign: &Reign,
        checkpoint: CheckpointId,
        chunks: u32,
        batch: Batch,
    ) -> Result<(), SharedError> {
        let stream = self.stream(reign.partition)?;
        Self::own(stream, reign)?;
        let before = Link::default();
        if stream.batches.get(&batch.first).is_some_and(|kept| kept.batch == batch && kept.before == before) {
            return Ok(());
        }
        if stream.head > Position::START {
            return Err(SharedError::Refused(format!("partition {} has changes already", reign.partition)));
        }
        let there = (0..chunks).filter(|number| stream.chunks.contains_key(&(checkpoint, *number))).count();
        if there != chunks as usize {
            return Err(SharedError::Refused(format!("{there} of {chunks} chunks are there")));
        }
        self.next_revision();
        let stream = &mut self.streams[reign.partition as usize];
        (stream.head, stream.last) = (batch.last, Link::to(&batch));
        stream.checkpoint = Some((checkpoint, chunks));
        stream.batches.insert(batch.first, Kept { before, batch });
        Ok(())
    }

    /// The last change of a stream, for checks.
    pub fn head(&self, partition: u32) -> Position {
        self.streams.get(partition as usize).map_or(Position::START, |stream| stream.head)
    }

    /// The batches that are in a stream, for checks.
    pub fn batches(&self, partition: u32) -> impl Iterator<Item = &Batch> {
        self.streams[partition as usize].batches.values().map(|kept| &kept.batch)
    }

    fn stream(&self, partition: u32) -> Result<&Stream, SharedError> {
        let there = self.streams.get(partition as usize);
        there.ok_or_else(|| SharedError::Refused(format!("there is no partition {partition}")))
    }

    fn own(stream: &Stream, reign: &Reign) -> Result<(), SharedError> {
        if stream.owner.value == reign.owner && stream.owner.version == reign.version {
            Ok(())
        } else {
            Err(SharedError::Fenced(format!("partition {} has another owner", reign.partition)))
        }
    }

    fn next_revision(&mut self) -> u64 {
        self.revision += 1;
        self.revision
    }
}

impl Stream {
    /// Returns whether the batch with this position was removed.
    fn is_swept(&self, position: Position) -> bool {
        position <= self.head && self.batches.keys().next().is_none_or(|&first| first > position)
    }

    fn read_batches(&self, after: Position, owner: Seen<Owner>) -> Page {
        let mut pieces = Vec::new();
        let mut next = None;
        for kept in self.batches.values().filter(|kept| kept.batch.last > after) {
            if pieces.len() == PAGE_PIECES {
                next = Some(Cursor::After(Position(kept.batch.first.0 - 1)));
                break;
            }
            pieces.push(Piece::Batch { before: kept.before, record: kept.batch.record.clone() });
        }
        Page { owner, pieces, next }
    }

    fn read_chunks(&self, of: CheckpointId, number: u32, owner: Seen<Owner>) -> Result<Page, SharedError> {
        let Some((_, chunks)) = self.checkpoint.filter(|&(id, _)| id == of) else { return Err(SharedError::Gone) };
        let page = u32::try_from(PAGE_PIECES).expect("small");
        let end = chunks.min(number.saturating_add(page));
        let mut pieces = Vec::new();
        for number in number..end {
            let Some(record) = self.chunks.get(&(of, number)) else { return Err(SharedError::Gone) };
            pieces.push(Piece::Chunk { of, number, is_last: number + 1 == chunks, record: record.clone() });
        }
        let next = if end < chunks { Cursor::Chunk(of, end) } else { Cursor::After(of.upto) };
        Ok(Page { owner, pieces, next: Some(next) })
    }
}
