//! A checkpoint of a partition on its way to the store, in slices: a bounded number of facts at a time, at most one
//! chunk that waits for the store, and a pause after each, so that neither callers nor appends wait for it.

use std::collections::VecDeque;

use leasehold_engine::Fact;
use leasehold_journal::{ChunkWriter, Clocks, Partition};

use crate::map::Reign;
use crate::message::Op;
use crate::store::CheckpointId;

/// Facts that are walked in one go: about half a millisecond.
const FACTS_PER_STEP: usize = 2_048;
/// Facts that are asked of the engine at a time.
const FACTS_PER_SLICE: usize = 64;
/// Chunks go to the store at this rate, so that appends find room beside them.
const BYTES_PER_SECOND: u64 = 8 << 20;

#[derive(Debug)]
pub(crate) struct Checkpoint {
    id: CheckpointId,
    /// The chunk being filled; `None` when the whole state is in chunks.
    writer: Option<ChunkWriter>,
    /// Facts that are not in a chunk yet.
    facts: VecDeque<Fact>,
    /// The chunk that waits for the store.
    chunk: Option<Vec<u8>>,
    /// Chunks that are in the store.
    put: u32,
    bytes: u64,
    is_finished: bool,
    /// The walk does not go on before.
    step_at_us: u64,
}

impl Checkpoint {
    pub(crate) fn begin<R>(owned: &mut Partition<R>, clocks: Clocks) -> Self {
        let start = owned.begin_checkpoint(clocks);
        Checkpoint {
            id: CheckpointId { epoch: owned.epoch(), upto: start.upto },
            writer: Some(ChunkWriter::new(start.partition, start.upto, start.now)),
            facts: VecDeque::new(),
            chunk: None,
            put: 0,
            bytes: 0,
            is_finished: false,
            step_at_us: 0,
        }
    }

    /// One slice of the walk, until a chunk is full.
    pub(crate) fn step<R>(&mut self, owned: &mut Partition<R>, clocks: Clocks) {
        if self.chunk.is_some() || clocks.mono_us < self.step_at_us {
            return;
        }
        let Some(writer) = &mut self.writer else { return };
        let mut facts = Vec::new();
        let mut walked = 0;
        let mut are_more = true;
        while !writer.is_full() {
            if let Some(fact) = self.facts.pop_front() {
                writer.push(&fact);
                walked += 1;
            } else if !are_more || walked >= FACTS_PER_STEP {
                break;
            } else {
                are_more = owned.step_checkpoint(FACTS_PER_SLICE, &mut facts);
                self.facts.extend(facts.drain(..));
            }
        }
        let is_end = !are_more && self.facts.is_empty();
        if writer.is_full() || is_end {
            let chunk = writer.seal();
            self.step_at_us = clocks.mono_us + chunk.len() as u64 * 1_000_000 / BYTES_PER_SECOND;
            self.bytes += chunk.len() as u64;
            self.chunk = Some(chunk);
        }
        if is_end {
            self.writer = None;
        }
    }

    /// The next call to the store, if there is one: a chunk, then the end, as soon as its last change is durable, then
    /// the sweep.
    pub(crate) fn op<R>(&self, owned: &Partition<R>, reign: Reign) -> Option<Op> {
        match &self.chunk {
            Some(chunk) => Some(Op::PutChunk(reign, self.id, self.put, chunk.clone())),
            None if self.writer.is_some() => None,
            None if self.is_finished => Some(Op::Sweep(reign)),
            None if owned.durable() >= self.id.upto => Some(Op::FinishCheckpoint(reign, self.id, self.put)),
            None => None,
        }
    }

    /// That call succeeded.
    pub(crate) fn done(&mut self) {
        if self.chunk.take().is_some() {
            self.put += 1;
        } else {
            self.is_finished = true;
        }
    }

    /// The bytes in its chunks so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}
