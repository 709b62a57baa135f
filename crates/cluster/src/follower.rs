//! A follower: an engine that applies what is durable in a stream, without gaps, once (rule C7). A node that takes a
//! partition reads the rest of the stream with it and goes on from there.

use leasehold_engine::{Engine, Limits, Retelling, Time, Wall, planted};
use leasehold_journal::record::{BatchReader, ChunkReader};
use leasehold_journal::{Epoch, Happened, Position};
use thiserror::Error;

use crate::ids::{Link, Sum};
use crate::store::{Cursor, Page, Piece};

/// Why a follower cannot go on: it is thrown away and reads the stream again from its beginning.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Broken {
    /// Batches are missing.
    #[error("a batch begins at {first}, and only {head} is here")]
    Gap {
        /// Where the batch begins.
        first: Position,
        /// The last change that was applied.
        head: Position,
    },
    /// The stream is not the one that was followed so far.
    #[error("the batch at {first} goes on from another batch than the one here")]
    Forked {
        /// Where the batch begins.
        first: Position,
    },
    /// The stream ends before the changes that were read from it.
    #[error("the stream has not the batch that ends at {head}, which was read from it before")]
    Ahead {
        /// The last change that was applied.
        head: Position,
    },
    /// A record cannot be read.
    #[error("{0}")]
    Damaged(String),
}

/// The part of a stream after its checkpoint that a reader has to read, as far as a follower has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) batches: u64,
    pub(crate) bytes: u64,
    /// The size of that checkpoint.
    pub(crate) checkpoint_bytes: u64,
}

/// An engine that follows the stream of a partition.
#[derive(Debug)]
pub struct Follower {
    engine: Engine,
    limits: Limits,
    head: Position,
    /// The newest batch, unless the head is that of a checkpoint.
    last: Option<Link>,
    at: Time,
    cursor: Cursor,
    is_restoring: bool,
    /// The effects of the changes that were applied since they were last asked for.
    happened: Vec<Happened>,
    /// The state was read from a checkpoint of this position since that was last asked for.
    restored: Option<Position>,
    tail: Tail,
    /// The epoch of the newest batch.
    epoch: Epoch,
    /// The newest batch is to be seen in the stream once more.
    is_doubted: bool,
}

/// Where a change was read.
#[derive(Clone, Copy, Debug)]
struct Read {
    epoch: Epoch,
    position: Position,
    wall: Wall,
}

impl Follower {
    /// At the beginning of a stream.
    pub fn new(limits: Limits) -> Self {
        Follower {
            engine: Engine::new(limits.clone()),
            limits,
            head: Position::START,
            last: Some(Link::default()),
            at: Time(0),
            cursor: Cursor::After(Position::START),
            is_restoring: false,
            happened: Vec::new(),
            restored: None,
            tail: Tail::default(),
            epoch: Epoch(0),
            is_doubted: false,
        }
    }

    /// The effects of what was applied since the last call, and the checkpoint that they go on from if one was read.
    pub(crate) fn poll_happened(&mut self) -> (Option<Position>, Vec<Happened>) {
        (self.restored.take(), std::mem::take(&mut self.happened))
    }

    /// Where to read on.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// The last change that is in the engine.
    pub fn head(&self) -> Position {
        self.head
    }

    /// Service time of that change.
    pub fn at(&self) -> Time {
        self.at
    }

    /// The engine, to look at.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Takes it apart: the engine, and the batch that the next one links to. `None` while that is not known.
    pub fn into_parts(self) -> Option<(Engine, Link)> {
        self.last.map(|last| (self.engine, last))
    }

    /// The epoch of the newest batch.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Reads the newest batch once more, to see that the stream still has it.
    pub(crate) fn doubt(&mut self) {
        if let (Cursor::After(after), true) = (self.cursor, self.head > Position::START && !planted!(FollowerSkipsGap))
            && after == self.head
        {
            self.cursor = Cursor::After(Position(self.head.0 - 1));
            self.is_doubted = true;
        }
    }

    /// The length of the stream after the checkpoint that it was begun from. A later checkpoint is not seen here, so it
    /// is rather too long.
    pub(crate) fn tail(&self) -> Tail {
        self.tail
    }

    /// Returns whether the newest batch is known, so that a batch can be appended after it.
    pub fn is_linked(&self) -> bool {
        self.last.is_some()
    }

    /// Applies a page that was read at the cursor. Returns whether it was the last one.
    pub fn take_page(&mut self, page: &Page) -> Result<bool, Broken> {
        for piece in &page.pieces {
            match piece {
                Piece::Chunk { number, record, .. } => self.take_chunk(*number, record)?,
                Piece::Batch { before, record } => self.take_batch(*before, record)?,
            }
        }
        if let Some(Cursor::After(upto)) = page.next.filter(|_| self.is_restoring) {
            self.finish_restore(upto);
        }
        if let Some(next) = page.next {
            self.cursor = next;
            return Ok(false);
        }
        self.cursor = Cursor::After(if planted!(FollowerSkipsGap) { self.head.next() } else { self.head });
        if self.last.is_none() && self.head > Position::START {
            // The stream ends with the checkpoint. Its newest batch is there, and the next one has to link to it.
            self.cursor = Cursor::After(Position(self.head.0 - 1));
            return Ok(false);
        }
        if std::mem::take(&mut self.is_doubted) {
            return Err(Broken::Ahead { head: self.head });
        }
        Ok(true)
    }

    /// The stream is read from its beginning after all, or from a checkpoint.
    fn take_chunk(&mut self, number: u32, record: &[u8]) -> Result<(), Broken> {
        if number == 0 {
            *self = Follower { is_restoring: true, last: None, ..Follower::new(self.limits.clone()) };
        }
        let chunk = ChunkReader::open(record).map_err(|error| Broken::Damaged(error.to_string()))?;
        self.at = chunk.header().moment.at;
        self.tail.checkpoint_bytes += record.len() as u64;
        for fact in chunk {
            self.engine.restore(fact.map_err(|error| Broken::Damaged(error.to_string()))?);
        }
        Ok(())
    }

    fn finish_restore(&mut self, upto: Position) {
        self.is_restoring = false;
        self.engine.finish_restore(self.at);
        self.head = upto;
        self.happened.clear();
        self.restored = Some(upto);
    }

    fn take_batch(&mut self, before: Link, record: &[u8]) -> Result<(), Broken> {
        let batch = BatchReader::open(record).map_err(|error| Broken::Damaged(error.to_string()))?;
        let header = batch.header();
        let link = Link { first: header.first, sum: Sum::of(record) };
        if header.last() <= self.head {
            // It was applied before; if it is the newest, it has to be the one that was.
            if header.last() == self.head {
                if *self.last.get_or_insert(link) != link {
                    return Err(Broken::Forked { first: header.first });
                }
                self.is_doubted = false;
                self.epoch = header.epoch;
            }
            return Ok(());
        }
        if header.first <= self.head && !planted!(FollowerSkipsGap) {
            // Batches of one stream end where they ended before.
            return Err(Broken::Forked { first: header.first });
        }
        if header.first > self.head.next() && !planted!(FollowerSkipsGap) {
            return Err(Broken::Gap { first: header.first, head: self.head });
        }
        let is_next = header.first == self.head.next();
        if is_next && self.last.is_some_and(|last| last != before) && !planted!(FollowerSkipsGap) {
            return Err(Broken::Forked { first: header.first });
        }
        let (epoch, mut position) = (header.epoch, header.first);
        // A step is never split over batches, so all that a change leaves open is settled at the end of its batch.
        let mut retelling = Retelling::default();
        let happened = &mut self.happened;
        let mut told = |Read { epoch, position, wall }, effect| {
            happened.push(Happened { epoch, position, wall, effect });
        };
        for change in batch {
            let (moment, change) = change.map_err(|error| Broken::Damaged(error.to_string()))?;
            if position > self.head {
                let read = Read { epoch, position, wall: moment.wall };
                retelling.hear(&self.engine, moment, &change, read, &mut told);
                self.engine.apply(moment, &change);
                self.at = moment.at;
                self.head = position;
            }
            position = position.next();
        }
        retelling.finish(&self.engine, told);
        self.last = Some(link);
        self.epoch = header.epoch;
        self.tail.batches += 1;
        self.tail.bytes += record.len() as u64;
        Ok(())
    }
}
