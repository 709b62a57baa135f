//! From a stream back to an engine: the checkpoint's facts, then every change after it.

use leasehold_engine::{Engine, Limits, Time, planted};

use crate::record::{BatchReader, ChunkReader, RecordError};
use crate::store::{Opener, Recovered, Store, StoreError};
use crate::{Epoch, Position};

/// An engine that stands where the journal ends, and the store to go on with.
pub struct Recovery {
    pub partition: u32,
    pub engine: Engine,
    pub store: Box<dyn Store>,
    pub epoch: Epoch,
    pub head: Position,
    /// Service time to go on from.
    pub at: Time,
    /// Changes replayed after the checkpoint.
    pub replayed: u64,
    /// What is worth a line in the log.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("epoch", &self.epoch).field("head", &self.head).finish_non_exhaustive()
    }
}

/// Opens a stream, becomes its owner, and rebuilds the engine from it.
pub fn recover(opener: &dyn Opener, partition: u32, limits: Limits) -> Result<Recovery, StoreError> {
    let mut rebuild =
        Rebuild { engine: Engine::new(limits), upto: Position::START, at: Time(0), is_restoring: true, replayed: 0 };
    let stream = opener.open(partition, &mut |recovered| rebuild.take(recovered))?;
    rebuild.finish_restore();
    Ok(Recovery {
        partition,
        engine: rebuild.engine,
        store: stream.store,
        epoch: stream.epoch,
        head: stream.head,
        at: rebuild.at,
        replayed: rebuild.replayed,
        notes: stream.notes,
    })
}

struct Rebuild {
    engine: Engine,
    /// Everything up to here is in the engine.
    upto: Position,
    at: Time,
    is_restoring: bool,
    replayed: u64,
}

impl Rebuild {
    fn take(&mut self, recovered: Recovered<'_>) -> Result<(), StoreError> {
        match recovered {
            Recovered::Chunk(record) => self.chunk(record).map_err(|error| damaged("the checkpoint", &error)),
            Recovered::Batch(record) => {
                self.finish_restore();
                let place = format!("the journal after position {}", self.upto);
                self.batch(record).map_err(|error| damaged(&place, &error))
            }
        }
    }

    fn chunk(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let chunk = ChunkReader::open(record)?;
        self.upto = chunk.header().upto;
        self.at = chunk.header().moment.at;
        for fact in chunk {
            self.engine.restore(fact?);
        }
        Ok(())
    }

    fn batch(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let batch = BatchReader::open(record)?;
        let mut position = batch.header().first;
        for change in batch {
            let (moment, change) = change?;
            // The first batch may begin before the end of the checkpoint, which has those changes already.
            if position > self.upto {
                self.engine.apply(moment, &change);
                self.upto = position;
                self.at = if planted!(TimeFromCheckpoint) { self.at } else { moment.at };
                self.replayed += 1;
            }
            position = position.next();
        }
        Ok(())
    }

    fn finish_restore(&mut self) {
        if std::mem::take(&mut self.is_restoring) {
            self.engine.finish_restore(self.at);
        }
    }
}

fn damaged(place: &str, error: &RecordError) -> StoreError {
    StoreError::damaged(place, error.to_string())
}
