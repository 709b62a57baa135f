//! A store in memory: for tests, where clones share the data so that it survives a "restart", and for throw-away
//! servers, where it keeps nothing but the head.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_engine::planted;

use super::error::StoreError;
use super::verify::Verifier;
use super::{Opened, Opener, Recovered, Room, Sizes, Store};
use crate::ids::{Epoch, Position};
use crate::record::Batch;

/// Batches that one call of `maintain` drops.
const SWEEP_BATCHES: usize = 1024;

/// Its clones share the stored data.
#[derive(Clone, Debug)]
pub struct MemoryOpener {
    streams: Arc<Mutex<BTreeMap<u32, Stream>>>,
    keeps: bool,
}

/// The content that a disk would have.
#[derive(Debug, Default)]
struct Stream {
    epoch: Epoch,
    head: Position,
    /// The batch at the head, to recognise it when it is sent again.
    newest: Option<Batch>,
    /// By last position, oldest first. Empty when the store keeps nothing.
    batches: BTreeMap<Position, Arc<[u8]>>,
    checkpoint: Option<Checkpoint>,
}

#[derive(Clone, Debug)]
struct Checkpoint {
    upto: Position,
    chunks: Vec<Arc<[u8]>>,
}

impl MemoryOpener {
    /// Keeps everything as on a disk, as long as there is a clone of this.
    pub fn keeping() -> Self {
        MemoryOpener { streams: Arc::default(), keeps: true }
    }

    /// Keeps nothing but the head of the stream: the state lives in the engine alone and dies with it.
    pub fn forgetful() -> Self {
        MemoryOpener { streams: Arc::default(), keeps: false }
    }

    /// Spoils the batch that holds a position, for tests of damage.
    pub fn flip_bit(&self, partition: u32, position: Position) {
        let mut streams = lock(&self.streams);
        let batch = streams.get_mut(&partition).and_then(|stream| stream.batches.range_mut(position..).next());
        let (_, record) = batch.expect("only what is kept can be spoilt");
        let mut bytes = record.to_vec();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        *record = bytes.into();
    }
}

impl Opener for MemoryOpener {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        let (epoch, head, checkpoint, tail) = {
            let mut streams = lock(&self.streams);
            let stream = streams.entry(partition).or_default();
            if !planted!(EpochNotRaised) || stream.epoch == Epoch::default() {
                stream.epoch = stream.epoch.next();
            }
            let upto = stream.checkpoint.as_ref().map_or(Position::START, |checkpoint| checkpoint.upto);
            let tail: Vec<_> = stream.batches.range(upto.next()..).map(|(_, record)| Arc::clone(record)).collect();
            (stream.epoch, stream.head, stream.checkpoint.clone(), tail)
        };
        if self.keeps {
            let mut verifier = Verifier::new("the journal in memory", partition);
            if let Some(Checkpoint { upto, chunks }) = checkpoint {
                verifier.expect_checkpoint(upto, u32::try_from(chunks.len()).expect("chunks are counted in u32"));
                for chunk in chunks {
                    verifier.chunk(&chunk)?;
                    visit(Recovered::Chunk(&chunk))?;
                }
            }
            for record in tail {
                verifier.batch(&record)?;
                visit(Recovered::Batch(&record))?;
            }
            verifier.finish(epoch)?;
        }
        let store = MemoryStore { opener: self.clone(), partition, epoch, unfinished: None };
        Ok(Opened { store: Box::new(store), epoch, head, notes: Vec::new() })
    }
}

#[derive(Debug)]
struct MemoryStore {
    opener: MemoryOpener,
    partition: u32,
    epoch: Epoch,
    unfinished: Option<Checkpoint>,
}

impl MemoryStore {
    /// Changes the stream as its owner.
    fn own<T>(&self, act: impl FnOnce(&mut Stream) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut streams = lock(&self.opener.streams);
        let stream = streams.get_mut(&self.partition).expect("a stream that was opened is never removed");
        if stream.epoch == self.epoch || planted!(FencedOwnerWrites) {
            act(stream)
        } else {
            Err(StoreError::Fenced(format!("epoch {} owns the stream, this is epoch {}", stream.epoch, self.epoch)))
        }
    }
}

impl Store for MemoryStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.own(|stream| {
            if stream.newest.as_ref() == Some(batch) && !planted!(ResendWithoutPosition) {
                return Ok(());
            }
            if batch.epoch != stream.epoch && !planted!(FencedOwnerWrites) {
                let what = format!("the batch is of epoch {}, epoch {} owns the stream", batch.epoch, stream.epoch);
                return Err(StoreError::Fenced(what));
            }
            if batch.first != stream.head.next() && !planted!(ResendWithoutPosition) {
                let what = format!("the batch begins at {}, but the head is {}", batch.first, stream.head);
                return Err(StoreError::Fenced(what));
            }
            stream.head = batch.last;
            stream.newest = Some(batch.clone());
            if self.opener.keeps {
                stream.batches.insert(batch.last, batch.record.as_slice().into());
            }
            Ok(())
        })
    }

    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError> {
        self.own(|_| Ok(()))?;
        self.unfinished = Some(Checkpoint { upto, chunks: Vec::new() });
        Ok(())
    }

    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.own(|_| Ok(()))?;
        let unfinished = self.unfinished.as_mut().ok_or(StoreError::Misused("no checkpoint was begun"))?;
        if self.opener.keeps {
            unfinished.chunks.push(chunk.into());
        }
        Ok(())
    }

    fn finish_checkpoint(&mut self) -> Result<(), StoreError> {
        let unfinished = self.unfinished.as_ref().ok_or(StoreError::Misused("no checkpoint was begun"))?;
        self.own(|stream| {
            if unfinished.upto > stream.head {
                return Err(StoreError::NotYet { upto: unfinished.upto, head: stream.head });
            }
            stream.checkpoint = self.opener.keeps.then(|| unfinished.clone());
            Ok(())
        })?;
        self.unfinished = None;
        Ok(())
    }

    fn maintain(&mut self) -> Result<bool, StoreError> {
        self.own(|stream| {
            let upto = stream.checkpoint.as_ref().map_or(Position::START, |checkpoint| checkpoint.upto);
            for _ in 0..SWEEP_BATCHES {
                match stream.batches.first_entry() {
                    Some(oldest) if *oldest.key() <= upto => oldest.remove(),
                    _ => return Ok(false),
                };
            }
            Ok(true)
        })
    }

    fn room(&self) -> Room {
        Room::Enough
    }

    fn is_forgetful(&self) -> bool {
        !self.opener.keeps
    }

    fn sizes(&self) -> Sizes {
        let streams = lock(&self.opener.streams);
        let stream = &streams[&self.partition];
        let bytes = |record: &Arc<[u8]>| record.len() as u64;
        let upto = stream.checkpoint.as_ref().map_or(Position::START, |checkpoint| checkpoint.upto);
        let checkpoint_bytes = stream.checkpoint.iter().flat_map(|checkpoint| &checkpoint.chunks).map(bytes).sum();
        Sizes {
            tail_bytes: stream.batches.range(upto.next()..).map(|(_, record)| bytes(record)).sum(),
            checkpoint_bytes,
            file_bytes: stream.batches.values().map(bytes).sum::<u64>() + checkpoint_bytes,
        }
    }
}

/// A panic of another owner leaves nothing half done here, since every change of a stream is one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
