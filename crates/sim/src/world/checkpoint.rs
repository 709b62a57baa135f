//! Checkpoints, in slices between appends, as the committer takes them.

use leasehold_journal::{CheckpointStart, ChunkWriter, STRETCH_MAX_US, StoreError};

use super::bodies::Checkpoint;
use super::node::End;
use super::{Event, World, tell};
use crate::fault::Fault;
use crate::ledger::invariant::Check;
use crate::sometimes::Rare;

impl World {
    pub(super) fn begin_checkpoint(&mut self, node: usize, incarnation: u64, start: CheckpointStart) {
        let Some(process) = &mut self.nodes[node].process else { return };
        if self.stores[process.store].begin_checkpoint(start.upto).is_err() {
            self.end_process(node, End::Exit);
            return;
        }
        process.appended = 0;
        let chunk = ChunkWriter::new(start.partition, start.upto, start.now);
        process.checkpoint = Some(Checkpoint { chunk, chunks: 0, changed: false });
        tell!(self, "checkpoint of {} begun", start.upto);
        self.after(500, Event::Checkpoint { node, incarnation });
    }

    pub(super) fn step_checkpoint(&mut self, node: usize, incarnation: u64) {
        if self.nodes[node].incarnation != incarnation {
            return;
        }
        if self.is_deferred(node, || Event::Checkpoint { node, incarnation }) || !self.is_certain(node) {
            return;
        }
        self.maybe_hang(node, incarnation);
        match self.write_slice(node) {
            Ok(true) => {
                let pause_us = self.store_rng.range(300, 20_000);
                self.after(pause_us, Event::Checkpoint { node, incarnation });
            }
            Ok(false) => {}
            Err(StoreError::Full { .. }) => {
                if let Some(process) = &mut self.nodes[node].process {
                    process.partition.drop_checkpoint();
                    process.checkpoint = None;
                }
            }
            Err(error) => {
                tell!(self, "checkpoint: {error}");
                self.end_process(node, End::Exit);
            }
        }
    }

    /// The committer waits long for the store, though nothing is appended.
    fn maybe_hang(&mut self, node: usize, incarnation: u64) {
        if !self.is_idle(node) || !self.fails_at(Fault::UpkeepHangs, 2 * self.plan.rate) {
            return;
        }
        let takes_us = self.store_rng.range(20_000, 1_800_000);
        self.rare.hit_if(takes_us > STRETCH_MAX_US, Rare::UpkeepLongerThanStretch);
        tell!(self, "node {node}: the store keeps the committer for {takes_us} us");
        if let Some(process) = &mut self.nodes[node].process {
            process.is_keeping_up = true;
        }
        self.after(takes_us, Event::KeptUp { node, incarnation });
    }

    /// Returns whether its committer is idle.
    fn is_idle(&self, node: usize) -> bool {
        let process = self.nodes[node].process.as_ref();
        process.is_some_and(|process| process.in_flight.is_none() && !process.is_keeping_up)
    }

    pub(super) fn kept_up(&mut self, node: usize, incarnation: u64) -> Check {
        if self.nodes[node].incarnation != incarnation || self.is_deferred(node, || Event::KeptUp { node, incarnation })
        {
            return Ok(());
        }
        if let Some(process) = &mut self.nodes[node].process {
            process.is_keeping_up = false;
        }
        self.log_time(node);
        self.deliver(node)?;
        self.pump(node);
        Ok(())
    }

    /// `true` while there is more.
    fn write_slice(&mut self, node: usize) -> Result<bool, StoreError> {
        let budget = 1 + self.store_rng.index(3);
        let seals = self.store_rng.chance(300);
        let Some(process) = &mut self.nodes[node].process else { return Ok(false) };
        let store = &mut self.stores[process.store];
        let Some(checkpoint) = &mut process.checkpoint else { return Ok(false) };
        let mut facts = Vec::new();
        let more = process.partition.step_checkpoint(budget, &mut facts);
        for fact in &facts {
            checkpoint.chunk.push(fact);
        }
        if !more || seals {
            store.put_chunk(&checkpoint.chunk.seal())?;
            checkpoint.chunks += 1;
        }
        if more {
            return Ok(true);
        }
        store.finish_checkpoint()?;
        store.maintain()?;
        let (chunks, changed) = (checkpoint.chunks, checkpoint.changed);
        process.checkpoint = None;
        tell!(self, "checkpoint written in {chunks} chunks");
        self.hit(Rare::CheckpointWritten);
        self.rare.hit_if(chunks > 1, Rare::CheckpointOfManyChunks);
        self.rare.hit_if(changed, Rare::ChangedDuringCheckpoint);
        Ok(false)
    }

    pub(super) fn look_at_room(&mut self, node: usize, incarnation: u64) {
        if self.nodes[node].incarnation != incarnation
            || self.is_deferred(node, || Event::LookAtRoom { node, incarnation })
        {
            return;
        }
        self.maybe_hang(node, incarnation);
        let Some(process) = &mut self.nodes[node].process else { return };
        let is_low = matches!(self.stores[process.store].room(), leasehold_journal::Room::Low { .. });
        if is_low != process.is_low {
            process.is_low = is_low;
            process.partition.set_store_full(is_low);
            tell!(self, "the disk is {}", if is_low { "nearly full" } else { "roomy again" });
        }
        self.after(250_000, Event::LookAtRoom { node, incarnation });
    }
}
