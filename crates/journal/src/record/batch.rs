//! A batch: consecutive changes that become durable together. Changes are written one by one as they happen, since
//! every request takes this path, and read back as an iterator.

use leasehold_engine::{Change, ClaimId, Moment, Time, Wall};

use super::bytes::{Reader, put_varint, unzigzag, zigzag};
use super::change;
use super::error::{Flaw, RecordError};
use super::frame;
use super::numbers::change::{FIRST_OF_VERSION_5, MASK, SAME_CLAIM, TIME_PASSED, WALL_DRIFTED};
use super::parts;
use crate::ids::{Epoch, Position};

const MAGIC: [u8; frame::MAGIC_BYTES] = *b"LHB\n";
/// The offset of the number of changes: after magic, version, partition, epoch and first position.
const COUNT_OFFSET: usize = 4 + 2 + 4 + 8 + 8;

/// A sealed batch on its way to a store. It covers `first..=last` and is never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The epoch of the owner that made it.
    pub epoch: Epoch,
    /// The position of its first change.
    pub first: Position,
    /// The position of its last change.
    pub last: Position,
    /// Its bytes, as a store keeps them.
    pub record: Vec<u8>,
}

/// Puts changes into batches, positions going on from one to the next.
#[derive(Debug)]
pub struct BatchWriter {
    partition: u32,
    epoch: Epoch,
    /// The position of the first change of the batch that is being filled.
    first: Position,
    changes: u32,
    /// When the previous change happened, and the last claim that was named: the next change is written relative to
    /// them.
    before: Moment,
    claim: Option<ClaimId>,
    buffer: Vec<u8>,
}

impl BatchWriter {
    /// A writer whose first change will have the position `first`.
    pub fn new(partition: u32, epoch: Epoch, first: Position) -> Self {
        assert!(first > Position::START, "positions count from 1");
        BatchWriter { partition, epoch, first, changes: 0, before: Moment::default(), claim: None, buffer: Vec::new() }
    }

    /// Adds a change and returns its position.
    pub fn push(&mut self, moment: Moment, change: &Change) -> Position {
        // Replaying a batch must see time as the engine saw it, and the engine never saw it run backwards.
        assert!(moment.at >= self.before.at, "service time ran backwards: {:?} after {:?}", moment.at, self.before.at);
        if self.changes == 0 {
            self.begin(moment);
        }
        let passed_us = moment.at.since(self.before.at);
        let drift_us = moment.wall.0.wrapping_sub(self.before.wall.0).wrapping_sub(passed_us).cast_signed();
        let claim = change::claim_of(change);
        let same_claim = claim.is_some() && claim == self.claim;

        let tag_offset = self.buffer.len();
        let mut tag = change::number(change);
        if tag >= FIRST_OF_VERSION_5 {
            frame::raise_version(&mut self.buffer);
        }
        self.buffer.push(tag);
        if passed_us != 0 {
            tag |= TIME_PASSED;
            put_varint(&mut self.buffer, passed_us);
        }
        if drift_us != 0 {
            tag |= WALL_DRIFTED;
            put_varint(&mut self.buffer, zigzag(drift_us));
        }
        match claim {
            Some(_) if same_claim => tag |= SAME_CLAIM,
            Some(claim) => {
                parts::put_claim_id(&mut self.buffer, claim);
                self.claim = Some(claim);
            }
            None => {}
        }
        self.buffer[tag_offset] = tag;
        change::put_fields(&mut self.buffer, change, moment.at);

        let position = self.next_position();
        self.before = moment;
        self.changes = self.changes.checked_add(1).expect("a batch is sealed long before four billion changes");
        position
    }

    /// The position that the next change will have.
    pub fn next_position(&self) -> Position {
        self.first.plus(u64::from(self.changes))
    }

    /// Returns whether the batch has no change yet.
    pub fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// The number of changes in the batch so far.
    pub fn len(&self) -> usize {
        self.changes as usize
    }

    /// The size of the batch so far, without what `seal` adds to it.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Ends the batch and starts the next one. A batch is never empty, so there must have been a change.
    pub fn seal(&mut self) -> Batch {
        assert!(!self.is_empty(), "an empty batch has no positions");
        let first = self.first;
        let next = self.next_position();
        let record = frame::seal(&mut self.buffer, COUNT_OFFSET, self.changes);
        self.first = next;
        self.changes = 0;
        Batch { epoch: self.epoch, first, last: Position(next.0 - 1), record }
    }

    fn begin(&mut self, start: Moment) {
        frame::begin(&mut self.buffer, MAGIC);
        self.buffer.extend_from_slice(&self.partition.to_le_bytes());
        self.buffer.extend_from_slice(&self.epoch.0.to_le_bytes());
        self.buffer.extend_from_slice(&self.first.0.to_le_bytes());
        debug_assert_eq!(self.buffer.len(), COUNT_OFFSET);
        self.buffer.extend_from_slice(&0_u32.to_le_bytes());
        self.buffer.extend_from_slice(&start.at.0.to_le_bytes());
        self.buffer.extend_from_slice(&start.wall.0.to_le_bytes());
        self.before = start;
        self.claim = None;
    }
}

/// The fields at the start of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The number of the partition.
    pub partition: u32,
    /// The epoch of the owner that made it.
    pub epoch: Epoch,
    /// The position of its first change.
    pub first: Position,
    /// The number of its changes.
    pub changes: u32,
    /// The moment of its first change.
    pub start: Moment,
}

impl BatchHeader {
    /// The position of its last change.
    pub fn last(&self) -> Position {
        Position(self.first.0 + u64::from(self.changes) - 1)
    }
}

/// Reads a batch change by change. The checksum was compared before there is a reader; an error after that means that
/// the writer was wrong, and ends the iteration.
#[derive(Clone, Debug)]
pub struct BatchReader<'a> {
    header: BatchHeader,
    reader: Reader<'a>,
    left: u32,
    before: Moment,
    claim: Option<ClaimId>,
}

impl<'a> BatchReader<'a> {
    /// Checks frame and checksum, and reads the header.
    pub fn open(record: &'a [u8]) -> Result<Self, RecordError> {
        let mut reader = frame::open(record, MAGIC)?;
        let partition = reader.u32("partition")?;
        let epoch = Epoch(reader.u64("epoch")?);
        let first = Position(reader.u64("first position")?);
        let changes = reader.u32("number of changes")?;
        let start = Moment { at: Time(reader.u64("service time")?), wall: Wall(reader.u64("wall clock")?) };
        if changes == 0 || first == Position::START || first.0.checked_add(u64::from(changes)).is_none() {
            return Err(reader.error("number of changes", Flaw::Range));
        }
        let header = BatchHeader { partition, epoch, first, changes, start };
        Ok(BatchReader { header, reader, left: changes, before: start, claim: None })
    }

    /// The header.
    pub fn header(&self) -> BatchHeader {
        self.header
    }

    fn change(&mut self) -> Result<(Moment, Change), RecordError> {
        let reader = &mut self.reader;
        let tag = reader.u8("change")?;
        let passed_us = if tag & TIME_PASSED == 0 { 0 } else { reader.varint("time passed")? };
        let drift_us = if tag & WALL_DRIFTED == 0 { 0 } else { unzigzag(reader.varint("wall clock drift")?) };
        let Some(at) = self.before.at.0.checked_add(passed_us).map(Time) else {
            return Err(reader.error("time passed", Flaw::Range));
        };
        let wall = Wall(self.before.wall.0.wrapping_add(passed_us).wrapping_add_signed(drift_us));
        let claim = match (change::names_claim(tag & MASK), tag & SAME_CLAIM != 0, self.claim) {
            (true, true, Some(claim)) => Some(claim),
            (true, false, _) => Some(parts::claim_id(reader)?),
            (false, false, _) => None,
            (true, true, None) | (false, true, _) => return Err(reader.error("change", Flaw::Unknown(tag))),
        };
        let change = change::fields(reader, tag & MASK, claim, at)?;
        let moment = Moment { at, wall };
        self.before = moment;
        self.claim = claim.or(self.claim);
        Ok((moment, change))
    }
}

impl Iterator for BatchReader<'_> {
    type Item = Result<(Moment, Change), RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let change = match self.change() {
            Ok(change) if self.left == 0 => self.reader.end("end of the batch").map(|()| change),
            change => change,
        };
        if change.is_err() {
            self.left = 0;
        }
        Some(change)
    }
}

/// A batch, read in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedBatch {
    /// The header.
    pub header: BatchHeader,
    /// The changes in order, each with its moment.
    pub changes: Vec<(Moment, Change)>,
}

/// Reads a whole batch at once: for tests and tools.
pub fn decode_batch(record: &[u8]) -> Result<DecodedBatch, RecordError> {
    let reader = BatchReader::open(record)?;
    Ok(DecodedBatch { header: reader.header(), changes: reader.collect::<Result<_, _>>()? })
}
