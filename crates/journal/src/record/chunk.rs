//! A chunk: a part of a checkpoint, as many facts as fit into a bounded record, so that appends go on between two of
//! them.

use leasehold_engine::{Fact, Moment, Time, Wall};

use super::bytes::Reader;
use super::error::{Flaw, RecordError};
use super::fact;
use super::frame;
use crate::ids::Position;

const MAGIC: [u8; frame::MAGIC_BYTES] = *b"LHC\n";
/// The offset of the number of facts: after magic, version, partition, upto, two times and the chunk's number.
const COUNT_OFFSET: usize = 4 + 2 + 4 + 8 + 8 + 8 + 4;

/// A chunk is full when it has at least this many bytes; the last fact may reach beyond.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Puts the facts of one checkpoint into chunks.
#[derive(Debug)]
pub struct ChunkWriter {
    partition: u32,
    upto: Position,
    moment: Moment,
    number: u32,
    facts: u32,
    buffer: Vec<u8>,
}

impl ChunkWriter {
    /// A checkpoint of the state after the change at `upto`, when service time was `moment`.
    pub fn new(partition: u32, upto: Position, moment: Moment) -> Self {
        let mut writer = ChunkWriter { partition, upto, moment, number: 0, facts: 0, buffer: Vec::new() };
        writer.begin();
        writer
    }

    /// Adds a fact to the chunk.
    pub fn push(&mut self, fact: &Fact) {
        if fact::is_of_version_5(fact) {
            frame::raise_version(&mut self.buffer);
        }
        fact::put(&mut self.buffer, fact, self.moment);
        self.facts = self.facts.checked_add(1).expect("a chunk is sealed long before four billion facts");
    }

    /// Time to seal.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= CHUNK_BYTES
    }

    /// Returns whether the chunk has no fact yet.
    pub fn is_empty(&self) -> bool {
        self.facts == 0
    }

    /// The size of the chunk so far.
    pub fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Ends the chunk and starts the next one.
    pub fn seal(&mut self) -> Vec<u8> {
        let record = frame::seal(&mut self.buffer, COUNT_OFFSET, self.facts);
        self.number += 1;
        self.facts = 0;
        self.begin();
        record
    }

    fn begin(&mut self) {
        frame::begin(&mut self.buffer, MAGIC);
        self.buffer.extend_from_slice(&self.partition.to_le_bytes());
        self.buffer.extend_from_slice(&self.upto.0.to_le_bytes());
        self.buffer.extend_from_slice(&self.moment.at.0.to_le_bytes());
        self.buffer.extend_from_slice(&self.moment.wall.0.to_le_bytes());
        self.buffer.extend_from_slice(&self.number.to_le_bytes());
        debug_assert_eq!(self.buffer.len(), COUNT_OFFSET);
        self.buffer.extend_from_slice(&0_u32.to_le_bytes());
    }
}

/// The fields at the start of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// The number of the partition.
    pub partition: u32,
    /// The checkpoint is the state after the change at this position …
    pub upto: Position,
    /// … when service time was this.
    pub moment: Moment,
    /// Counted from 0 within the checkpoint.
    pub number: u32,
    /// The number of its facts.
    pub facts: u32,
}

/// Reads a chunk fact by fact. The checksum was compared before there is a reader.
#[derive(Clone, Debug)]
pub struct ChunkReader<'a> {
    header: ChunkHeader,
    reader: Reader<'a>,
    left: u32,
}

impl<'a> ChunkReader<'a> {
    /// Checks frame and checksum, and reads the header.
    pub fn open(record: &'a [u8]) -> Result<Self, RecordError> {
        let mut reader = frame::open(record, MAGIC)?;
        let partition = reader.u32("partition")?;
        let upto = Position(reader.u64("checkpoint position")?);
        let moment = Moment { at: Time(reader.u64("service time")?), wall: Wall(reader.u64("wall clock")?) };
        let number = reader.u32("chunk number")?;
        let facts = reader.u32("number of facts")?;
        if facts == 0 && reader.left() > 0 {
            return Err(reader.error("end of the chunk", Flaw::Trailing { left: reader.left() }));
        }
        let header = ChunkHeader { partition, upto, moment, number, facts };
        Ok(ChunkReader { header, reader, left: facts })
    }

    /// The header.
    pub fn header(&self) -> ChunkHeader {
        self.header
    }
}

impl Iterator for ChunkReader<'_> {
    type Item = Result<Fact, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let fact = match fact::get(&mut self.reader, self.header.moment) {
            Ok(fact) if self.left == 0 => self.reader.end("end of the chunk").map(|()| fact),
            fact => fact,
        };
        if fact.is_err() {
            self.left = 0;
        }
        Some(fact)
    }
}

/// A chunk, read in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedChunk {
    /// The header.
    pub header: ChunkHeader,
    /// The facts, in no particular order.
    pub facts: Vec<Fact>,
}

/// Reads a whole chunk at once: for tests and tools.
pub fn decode_chunk(record: &[u8]) -> Result<DecodedChunk, RecordError> {
    let reader = ChunkReader::open(record)?;
    Ok(DecodedChunk { header: reader.header(), facts: reader.collect::<Result<_, _>>()? })
}
