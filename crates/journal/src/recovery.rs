//! From a stream back to an engine: the checkpoint's facts, then every change after it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use leasehold_engine::{Change, ClaimId, Effect, Engine, Fact, Limits, Retelling, Time, Wall, planted};

use crate::partition::Happened;
use crate::record::{BatchReader, ChunkReader, RecordError};
use crate::store::{Opener, Recovered, Sizes, SqliteReader, Store, StoreError};
use crate::{Epoch, Position};

/// An engine at the end of the journal, and the store to go on with.
pub struct Recovery {
    /// The number of the partition.
    pub partition: u32,
    /// The engine, with every change of the stream applied.
    pub engine: Engine,
    /// The open store.
    pub store: Box<dyn Store>,
    /// The epoch of this owner.
    pub epoch: Epoch,
    /// The position of the last change.
    pub head: Position,
    /// Service time to go on from.
    pub at: Time,
    /// Changes replayed after the checkpoint.
    pub replayed: u64,
    /// Messages for the log.
    pub notes: Vec<String>,
    /// The latest effects.
    pub history: Retold,
}

/// The latest effects, retold from the tail of the journal.
#[derive(Debug, Default)]
pub struct Retold {
    /// Oldest first.
    pub events: VecDeque<Happened>,
    /// Every effect after this position is among them.
    pub complete_after: Position,
    /// Each epoch that appended a batch, and the position after which it did.
    pub reigns: Vec<(Epoch, Position)>,
}

impl std::fmt::Debug for Recovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recovery").field("epoch", &self.epoch).field("head", &self.head).finish_non_exhaustive()
    }
}

/// Opens a stream, becomes its owner, and rebuilds the engine from it.
pub fn recover(opener: &dyn Opener, partition: u32, limits: Limits) -> Result<Recovery, StoreError> {
    recover_with_history(opener, partition, limits, 0)
}

/// The same, and retells the last `events_max` effects since the checkpoint.
pub fn recover_with_history(
    opener: &dyn Opener,
    partition: u32,
    limits: Limits,
    events_max: usize,
) -> Result<Recovery, StoreError> {
    recover_lean(opener, partition, limits, events_max, Lean::default())
}

/// The same, but without the metadata that `lean` leaves out.
pub(crate) fn recover_lean(
    opener: &dyn Opener,
    partition: u32,
    limits: Limits,
    events_max: usize,
    lean: Lean,
) -> Result<Recovery, StoreError> {
    let mut rebuild = Rebuild { lean, ..Rebuild::new(limits, events_max) };
    let stream = opener.open(partition, &mut |recovered| rebuild.take(recovered))?;
    rebuild.finish_restore();
    rebuild.finish_history(stream.head);
    Ok(Recovery {
        partition,
        engine: rebuild.engine,
        store: stream.store,
        epoch: stream.epoch,
        head: stream.head,
        at: rebuild.at,
        replayed: rebuild.replayed,
        notes: stream.notes,
        history: rebuild.history,
    })
}

/// The findings of a look at a database, all of them verified.
#[derive(Debug)]
pub struct Examined {
    /// The engine, with every change of the stream applied.
    pub engine: Engine,
    /// The epoch of the last owner.
    pub epoch: Epoch,
    /// The position of the last change.
    pub head: Position,
    /// The service time of the last change, and the reading of the wall clock at that time.
    pub at: Time,
    /// The wall clock of the last change.
    pub wall: Wall,
    /// The checkpoint is of this position.
    pub checkpoint: Option<Position>,
    /// Batches after the checkpoint.
    pub tail_batches: u64,
    /// Changes in them.
    pub tail_changes: u64,
    /// The sizes of the stream on disk.
    pub sizes: Sizes,
}

/// Reads the whole stream, as a start would, and changes nothing.
pub fn examine(reader: &SqliteReader, limits: Limits) -> Result<Examined, StoreError> {
    examine_lean(reader, limits, Lean::default()).map(|(examined, _)| examined)
}

/// The same, but without the metadata that `lean` leaves out.
pub(crate) fn examine_lean(reader: &SqliteReader, limits: Limits, lean: Lean) -> Result<(Examined, Lean), StoreError> {
    let mut rebuild = Rebuild { lean, ..Rebuild::new(limits, 0) };
    let mut tail_batches = 0;
    let outline = reader.read(&mut |recovered| {
        tail_batches += u64::from(matches!(recovered, Recovered::Batch(_)));
        rebuild.take(recovered)
    })?;
    rebuild.finish_restore();
    let lean = rebuild.lean;
    let examined = Examined {
        engine: rebuild.engine,
        epoch: outline.epoch,
        head: outline.head,
        at: rebuild.at,
        wall: rebuild.wall,
        checkpoint: outline.checkpoint,
        tail_batches,
        tail_changes: rebuild.replayed,
        sizes: outline.sizes,
    };
    Ok((examined, lean))
}

/// Which metadata not to keep. Metadata is most of a state that grew too large, and metadata of claims to be removed
/// need not be held.
#[derive(Debug, Default)]
pub(crate) enum Lean {
    #[default]
    Nothing,
    /// None of it: only its length.
    Everything { lengths: HashMap<ClaimId, usize> },
    /// That of these claims.
    Of(HashSet<ClaimId>),
}

impl Lean {
    fn thin(&mut self, claim: ClaimId, metadata: &mut Option<Arc<str>>) {
        match self {
            Lean::Nothing => {}
            Lean::Everything { lengths } => {
                if let Some(metadata) = metadata.take() {
                    lengths.insert(claim, metadata.len());
                }
            }
            Lean::Of(claims) => {
                if claims.contains(&claim) {
                    *metadata = None;
                }
            }
        }
    }

    fn thin_fact(&mut self, mut fact: Fact) -> Fact {
        if let Fact::Claim(fact) = &mut fact {
            self.thin(fact.claim, &mut fact.metadata);
        }
        fact
    }

    fn thin_change(&mut self, mut change: Change) -> Change {
        if let Change::Claimed(claimed) = &mut change {
            self.thin(claimed.claim, &mut claimed.metadata);
        }
        change
    }
}

/// Where a change was read.
#[derive(Clone, Copy)]
struct EffectPlace {
    epoch: Epoch,
    position: Position,
    wall: Wall,
}

struct Rebuild {
    engine: Engine,
    /// Everything up to here is in the engine.
    upto: Position,
    at: Time,
    wall: Wall,
    is_restoring: bool,
    replayed: u64,
    retelling: Retelling<EffectPlace>,
    history: Retold,
    events_max: usize,
    lean: Lean,
}

impl Rebuild {
    fn new(limits: Limits, events_max: usize) -> Self {
        Rebuild {
            engine: Engine::new(limits),
            upto: Position::START,
            at: Time(0),
            wall: Wall(0),
            is_restoring: true,
            replayed: 0,
            retelling: Retelling::default(),
            history: Retold::default(),
            events_max,
            lean: Lean::Nothing,
        }
    }

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
        self.wall = chunk.header().moment.wall;
        for fact in chunk {
            self.engine.restore(self.lean.thin_fact(fact?));
        }
        Ok(())
    }

    fn batch(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let batch = BatchReader::open(record)?;
        let (epoch, mut position) = (batch.header().epoch, batch.header().first);
        if self.history.reigns.last().is_none_or(|&(last, _)| last != epoch) {
            self.history.reigns.push((epoch, Position(position.0 - 1)));
        }
        for change in batch {
            let (moment, change) = change?;
            let change = self.lean.thin_change(change);
            // The first batch may begin before the end of the checkpoint, which has those changes already.
            if position > self.upto {
                if self.events_max > 0 {
                    let place = EffectPlace { epoch, position, wall: moment.wall };
                    let (history, events_max) = (&mut self.history, self.events_max);
                    let told = |place, effect| history.push(place, effect, events_max);
                    self.retelling.hear(&self.engine, moment, &change, place, told);
                }
                self.engine.apply(moment, &change);
                self.upto = position;
                self.at = if planted!(TimeFromCheckpoint) { self.at } else { moment.at };
                self.wall = moment.wall;
                self.replayed += 1;
            }
            position = position.next();
        }
        Ok(())
    }

    fn finish_restore(&mut self) {
        if std::mem::take(&mut self.is_restoring) {
            self.engine.finish_restore(self.at);
            self.history.complete_after = self.upto;
        }
    }

    fn finish_history(&mut self, head: Position) {
        let (history, events_max) = (&mut self.history, self.events_max);
        let told = |place, effect| history.push(place, effect, events_max);
        std::mem::take(&mut self.retelling).finish(&self.engine, told);
        if events_max == 0 {
            history.complete_after = head;
        }
    }
}

impl Retold {
    fn push(&mut self, place: EffectPlace, effect: Effect, events_max: usize) {
        let EffectPlace { epoch, position, wall } = place;
        if self.events.len() == events_max
            && let Some(oldest) = self.events.pop_front()
        {
            self.complete_after = oldest.position;
        }
        self.events.push_back(Happened { epoch, position, wall, effect });
    }
}

fn damaged(place: &str, error: &RecordError) -> StoreError {
    StoreError::damaged(place, error.to_string())
}
