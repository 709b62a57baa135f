//! The contract of a shared store: where several nodes keep who is alive, who owns what, and the streams.
//!
//! ```text
//! meta                     the number of partitions, the secret; made by the first join
//! node records             one for each life of a node; written by its beats, buried by any node, for ever
//! owner records            one for each partition: epoch, node, service time; changed by take and let_go
//! keyring                  the keys of proofs, opaque here; replaced whole
//! streams                  one for each partition: batches, each with a link to the one before, and a checkpoint
//! ```
//!
//! Every call is one transaction or behaves like one, and calls are linearizable: each takes effect at one instant
//! between its beginning and its end. A call that ends with [`SharedError::Away`] may have taken effect, and may still
//! do so later, once. Every call may be repeated: it recognises what it did before.
//!
//! A value of this trait is the connection of one node; [`SharedStore::join`] says which life of it.

mod error;
mod memory;
mod shelf;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;

use leasehold_engine::Time;
use leasehold_journal::{Batch, Epoch, Position, Room};

pub use error::SharedError;
pub use memory::MemoryStore;
pub use shelf::{Life, Shelf};

use crate::hash::Partitions;
use crate::ids::{Link, NodeId};
use crate::map::{Map, Meta, NodeRecord, Owner, Reign, Seen};

/// The result of a call, later.
pub type Fut<'a, T> = Pin<Box<dyn Future<Output = Result<T, SharedError>> + Send + 'a>>;

/// A store that several nodes share. See the module for the contract.
pub trait SharedStore: Send + Sync {
    /// Makes the cluster's facts, or checks that they are those of `birth`, and writes the record of this life. From
    /// here on this value speaks for it. `Refused` when the facts differ, and for a node whose record was there
    /// before, unless it is this very call repeated.
    fn join(&self, me: NodeRecord, birth: Birth) -> Fut<'_, Map>;

    /// Replaces the record of this life, whose number of the beat is higher than before. `Fenced` when it is buried or
    /// gone. On a connection of its own, so that load does not delay it.
    fn beat(&self, me: NodeRecord) -> Fut<'_, ()>;

    /// A proof: returns `Ok` only if this life was not buried at an instant after the call began. `Fenced` when it is
    /// buried, gone, or there by another join than ours.
    fn confirm(&self) -> Fut<'_, ()>;

    /// Everything about ownership, linearizable. Works without a join, and so do [`SharedStore::read`], `take` and the
    /// writes of an owner after it.
    fn map(&self) -> Fut<'_, Map>;

    /// Returns when the map may have changed since the call before this one; it may also return for no reason. A
    /// wake-up and nothing else: every decision reads the map afresh.
    fn changed(&self) -> Fut<'_, ()>;

    /// Buries a node, if its record is as it was seen; then or if it was buried before, `Ok`. `Fenced` when the record
    /// has changed meanwhile. A record that is gone counts as buried.
    fn bury(&self, seen: Seen<NodeRecord>) -> Fut<'_, ()>;

    /// Removes the record of a buried node, once it is as it was seen and no owner record names it.
    fn forget(&self, seen: Seen<NodeRecord>) -> Fut<'_, ()>;

    /// The operator's word: this node gives its partitions away and gets none, or may have some again.
    fn drain(&self, node: NodeId, is_draining: bool) -> Fut<'_, ()>;

    /// Raises the format of the cluster to this one. A later one stays.
    fn raise_format(&self, format: u16) -> Fut<'_, ()>;

    /// Takes a partition; see [`Taking`]. `Fenced` when the owner record or the record of its node is not as it was
    /// seen.
    fn take(&self, taking: Taking) -> Fut<'_, Reign>;

    /// Ends an ownership in an orderly way: the owner record becomes `{epoch + 1, nobody, at}`. `Fenced` when it is
    /// not that of the reign.
    fn let_go(&self, reign: Reign, at: Time) -> Fut<'_, ()>;

    /// Appends batches to streams, at most one to each, in as few transactions as possible. They come back in the same
    /// order. `Away` only when the store cannot be reached, and then the outcome of each is unknown.
    fn append(&self, appends: Vec<Append>) -> Fut<'_, Vec<Landing>>;

    /// Reads a page of a stream, together with its owner record, in one snapshot.
    fn read(&self, partition: u32, from: Cursor) -> Fut<'_, Page>;

    /// Writes a chunk of a checkpoint. `Fenced` when the owner record is not that of the reign.
    fn put_chunk(&self, reign: Reign, checkpoint: CheckpointId, number: u32, chunk: Vec<u8>) -> Fut<'_, ()>;

    /// Makes it the checkpoint of the stream, with the number of its chunks. `Fenced` as above; `Refused` while its
    /// last change is not in the stream, or one of its chunks is not there.
    fn finish_checkpoint(&self, reign: Reign, checkpoint: CheckpointId, chunks: u32) -> Fut<'_, ()>;

    /// Removes a bounded number of batches that the checkpoint covers, never the newest batch, and chunks of other
    /// checkpoints. Returns whether there is more. `Fenced` as above.
    fn sweep(&self, reign: Reign) -> Fut<'_, bool>;

    /// Makes the facts of a cluster that is moved in, in a store with nothing in it. `Refused` when there is something;
    /// facts that are these are `Ok`.
    fn found(&self, meta: Meta) -> Fut<'_, ()>;

    /// Replaces the facts of a cluster, if they are as they were seen. `Fenced` when they are others.
    fn restate(&self, seen: Meta, meta: Meta) -> Fut<'_, ()>;

    /// Removes everything of a cluster whose facts are these: of a move that did not come to its end. `Fenced` when
    /// they are others.
    fn clear(&self, seen: Meta) -> Fut<'_, ()>;

    /// Begins a stream that has no change yet with a checkpoint, whose chunks are there, and with the batch after it,
    /// which may have any position. `Fenced` when the owner record is not that of the reign, `Refused` when the stream
    /// has begun or a chunk is missing.
    fn begin_stream(&self, reign: Reign, checkpoint: CheckpointId, chunks: u32, batch: Batch) -> Fut<'_, ()>;

    /// The record with the keys of proofs, which is opaque here and small, if there is one.
    fn keyring(&self) -> Fut<'_, Option<Vec<u8>>>;

    /// Replaces that record if it is `before`. Returns whether it is `after` now.
    fn replace_keyring(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> Fut<'_, bool>;

    /// Tells whether there is room to go on, from what is known already: no call is made.
    fn room(&self) -> Room;
}

/// The facts of a cluster as its first node wants them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The number of partitions that the operator asked for; without one, the default at birth and any later.
    pub partitions: Option<Partitions>,
    /// The highest format that this node understands: that of a cluster that it makes. See [`crate::format`].
    pub format: u16,
    /// The secret, if there is none yet.
    pub secret: [u8; 32],
}

impl Birth {
    /// Refuses a node that cannot be of the cluster in `place`: another number of partitions was asked for, its data is
    /// elsewhere, or it uses a format that the node does not understand.
    pub fn check(&self, meta: &Meta, place: &str) -> Result<(), SharedError> {
        let refused = |sentence| Err(SharedError::Refused(sentence));
        if let Some(refusal) = meta.stage.refusal(place) {
            return refused(refusal);
        }
        if let Some(wanted) = self.partitions.filter(|&wanted| wanted != meta.partitions) {
            let (has, wanted) = (meta.partitions.number(), wanted.number());
            return refused(format!(
                "the cluster in {place} has {has} partitions for ever, and {wanted} were asked for"
            ));
        }
        if meta.format > self.format {
            let (uses, understands) = (meta.format, self.format);
            return refused(format!(
                "the cluster in {place} uses format {uses}, this build understands formats up to {understands}"
            ));
        }
        Ok(())
    }
}

/// How a partition is taken: its owner record becomes `{epoch, node, at}` if it is as it was seen, and if the node that
/// it names is buried or gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taking {
    /// The partition.
    pub partition: u32,
    /// Its owner record.
    pub seen: Seen<Owner>,
    /// The record of the node that it names, buried; `None` when it names none, or that record is gone.
    pub dead: Option<Seen<NodeRecord>>,
    /// The new owner.
    pub node: NodeId,
    /// Its epoch: the one after that of the owner record, or a later one when epochs jump.
    pub epoch: Epoch,
    /// Service time as far as it is known: the latest of the owner record's and of the mark of the epoch that ended.
    pub at: Time,
}

impl Taking {
    /// `Refused` for a taking that no store may carry out: time and epochs only rise.
    pub fn check(&self) -> Result<(), SharedError> {
        if self.at < self.seen.value.at {
            return Err(SharedError::Refused("a taking would turn service time back".to_owned()));
        }
        if self.epoch <= self.seen.value.epoch {
            return Err(SharedError::Refused("a taking would not raise the epoch".to_owned()));
        }
        Ok(())
    }
}

/// A batch for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    /// The ownership under which it was made.
    pub reign: Reign,
    /// The batch before it.
    pub before: Link,
    /// The batch.
    pub batch: Batch,
}

impl Append {
    /// Refuses two batches for one partition: stores compare and change the record of each partition once.
    pub fn refuse_twice(appends: &[Append]) -> Result<(), SharedError> {
        let mut partitions = BTreeSet::new();
        match appends.iter().map(|append| append.reign.partition).find(|partition| !partitions.insert(*partition)) {
            None => Ok(()),
            Some(partition) => {
                Err(SharedError::Refused(format!("two batches for partition {partition} in one append")))
            }
        }
    }
}

/// Where an append ended up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landing {
    /// It is in the stream, now or since an earlier sending, also if the partition has another owner by now.
    Durable,
    /// The partition is not ours any more, and the batch is not in the stream and never will be.
    Moved,
    /// The partition is not ours any more, and that part of the stream was swept: the batch was in it or not.
    Lost,
    /// The partition is ours, and its stream ends elsewhere than the batch begins: read on from our head.
    Behind,
    /// There is no room.
    Full,
}

/// The name of a checkpoint: the epoch of the owner that wrote it, and the last change in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId {
    /// The epoch.
    pub epoch: Epoch,
    /// The last change.
    pub upto: Position,
}

/// Where to read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cursor {
    /// The changes after this position: the batches where they are still there, else from the checkpoint on. After
    /// [`Position::START`] it is the checkpoint, if there is one.
    After(Position),
    /// This chunk of this checkpoint. [`SharedError::Gone`] when it was swept.
    Chunk(CheckpointId, u32),
}

/// A part of a stream, read in one snapshot with the owner record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The owner record at that instant: a taker compares it with its reign.
    pub owner: Seen<Owner>,
    /// In order. The first batch may begin at or before the position that was asked for.
    pub pieces: Vec<Piece>,
    /// Where to read on; `None` when this was the end of the stream.
    pub next: Option<Cursor>,
}

/// A record of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// A part of the checkpoint.
    Chunk {
        /// The checkpoint.
        of: CheckpointId,
        /// Its place among the chunks, from 0.
        number: u32,
        /// It is the last one.
        is_last: bool,
        /// Its record.
        record: Vec<u8>,
    },
    /// Changes.
    Batch {
        /// The batch before it.
        before: Link,
        /// Its record.
        record: Vec<u8>,
    },
}
