//! When to take a checkpoint, and taking it in slices between appends, so that no append waits for long.

use leasehold_engine::Fact;
use leasehold_journal::{Batch, CheckpointStart, ChunkWriter, Store, StoreError};

use super::Shared;

/// A tail shorter than this is not worth a checkpoint.
const TAIL_MIN_BYTES: u64 = 64 * 1024 * 1024;
/// Facts copied out under the lock in one go: about half a millisecond.
const FACTS_PER_STEP: usize = 2_048;

#[derive(Debug)]
pub(super) struct Checkpointing {
    state: Phase,
    /// Bytes of batches since the last checkpoint.
    tail_bytes: u64,
    last_checkpoint_bytes: u64,
    facts: Vec<Fact>,
}

#[derive(Debug)]
enum Phase {
    Resting,
    /// Facts are being written.
    Writing {
        chunk: ChunkWriter,
        bytes: u64,
    },
}

impl Checkpointing {
    pub(super) fn new(store: &dyn Store) -> Self {
        let sizes = store.sizes();
        Checkpointing {
            state: Phase::Resting,
            tail_bytes: sizes.tail_bytes,
            last_checkpoint_bytes: sizes.checkpoint_bytes,
            facts: Vec::new(),
        }
    }

    pub(super) fn appended(&mut self, batch: &Batch, store: &dyn Store) {
        self.tail_bytes += batch.record.len() as u64;
        if self.is_due() {
            // A store that keeps nothing has no tail to shorten.
            self.tail_bytes = store.sizes().tail_bytes;
        }
    }

    /// Reading the tail back must not take longer than reading the checkpoint does, and writing checkpoints must not
    /// cost more than writing the tail did.
    pub(super) fn is_due(&self) -> bool {
        matches!(self.state, Phase::Resting) && self.tail_bytes >= TAIL_MIN_BYTES.max(self.last_checkpoint_bytes)
    }

    pub(super) fn is_under_way(&self) -> bool {
        !matches!(self.state, Phase::Resting)
    }

    pub(super) fn begin(&mut self, start: CheckpointStart, store: &mut dyn Store) -> Result<(), StoreError> {
        store.begin_checkpoint(start.upto)?;
        self.tail_bytes = 0;
        self.state = Phase::Writing { chunk: ChunkWriter::new(start.partition, start.upto, start.now), bytes: 0 };
        tracing::debug!(upto = start.upto.0, "checkpoint begun");
        Ok(())
    }

    /// One slice of the checkpoint under way.
    pub(super) fn step(&mut self, shared: &Shared, store: &mut dyn Store) -> Result<(), StoreError> {
        match self.state {
            Phase::Resting => Ok(()),
            Phase::Writing { .. } => match self.write_slice(shared, store) {
                Err(StoreError::Full { place }) => {
                    // The store dropped the checkpoint and goes on appending. The tail is as long as it was.
                    tracing::error!(place, "no room for a checkpoint");
                    shared.lock().partition.drop_checkpoint();
                    self.facts.clear();
                    self.state = Phase::Resting;
                    Ok(())
                }
                outcome => outcome,
            },
        }
    }

    fn write_slice(&mut self, shared: &Shared, store: &mut dyn Store) -> Result<(), StoreError> {
        let Phase::Writing { chunk, bytes } = &mut self.state else { return Ok(()) };
        let more = shared.lock().partition.step_checkpoint(FACTS_PER_STEP, &mut self.facts);
        for fact in self.facts.drain(..) {
            chunk.push(&fact);
            if chunk.is_full() {
                *bytes += put(chunk, store)?;
            }
        }
        if !more {
            *bytes += put(chunk, store)?;
            store.finish_checkpoint()?;
            tracing::info!(bytes, "checkpoint written");
            shared.witness.checkpointed();
            self.last_checkpoint_bytes = *bytes;
            self.state = Phase::Resting;
        }
        Ok(())
    }
}

fn put(chunk: &mut ChunkWriter, store: &mut dyn Store) -> Result<u64, StoreError> {
    let sealed = chunk.seal();
    store.put_chunk(&sealed)?;
    Ok(sealed.len() as u64)
}
