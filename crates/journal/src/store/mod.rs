//! The contract of a store: where the batches and checkpoints of a stream are kept.
//!
//! A store belongs to one thread, which calls it blocking:
//!
//! ```text
//! open ─▶ chunks of the checkpoint, batches of the tail ─▶ visit
//! loop    append(batch) … maintain() …
//! at times   begin_checkpoint(upto)  put_chunk  append  put_chunk  append …  finish_checkpoint()
//! ```
//!
//! Every append is conditional on (epoch, position): the process that opened the stream last owns it, and no batch of
//! another owner gets in. The store checks the frames of the records when it reads them (`verify`); it does not know
//! what they mean.

mod error;
pub mod memory;
pub mod sqlite;
pub mod verify;

pub use error::StoreError;
pub use memory::MemoryOpener;
pub use sqlite::{Founding, InUse, NewDirectory, SqliteKeyring, SqliteOpener, SqliteReader, mark_moved};

use crate::ids::{Epoch, Position};
use crate::record::Batch;

/// A stream that is open, and owned until another process opens it.
pub trait Store: Send {
    /// Durable when it returns `Ok`. `Fenced` when another epoch owns the stream or the batch does not continue from
    /// the head; nothing was written then. Appending the identical batch again is `Ok` and takes effect once, as long
    /// as no other batch followed it. After any other error the outcome is unknown and the store acknowledges nothing
    /// more: open it again.
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Starts a checkpoint of the state after the change at `upto`, which may still have to be appended. Appends go on
    /// between its chunks, and it replaces nothing before it is finished. A checkpoint that was begun before and not
    /// finished is dropped.
    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError>;

    /// Adds the next chunk to the checkpoint that was begun. When it is `Full` the checkpoint is dropped, and appends
    /// go on as long as they can.
    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError>;

    /// Makes it the checkpoint of the stream, atomically. `NotYet` while `upto` is not durable: append and try again.
    fn finish_checkpoint(&mut self) -> Result<(), StoreError>;

    /// Does one bounded slice of housekeeping, such as deleting the data that a checkpoint replaced. Call it after
    /// appends and when there is nothing else to do; it costs next to nothing when there is no work. True while there
    /// is more to do.
    fn maintain(&mut self) -> Result<bool, StoreError>;

    /// Says whether there is room to go on. Cheap enough to be called once a second.
    fn room(&self) -> Room;

    /// The sizes of the stream. Cheap enough to be called once a second.
    fn sizes(&self) -> Sizes;

    /// How often the disk confirmed a write since the stream was opened.
    fn syncs(&self) -> u64 {
        0
    }

    /// Random bytes that belong to this stream and stay the same as long as it exists, for digests that must not be
    /// guessed. `None` where the store keeps nothing.
    fn secret(&self) -> Option<[u8; 32]> {
        None
    }

    /// Returns whether this store keeps nothing, so that there is no point in appending to it.
    fn is_forgetful(&self) -> bool {
        false
    }
}

/// Opens streams.
pub trait Opener {
    /// Becomes the owner of a stream by raising its epoch durably, and passes its records to `visit`: the chunks of its
    /// checkpoint in order, then the batches after it. The first batch may begin before the checkpoint's end, whose
    /// changes are in the checkpoint already. A torn tail is dropped, with a note. Damage anywhere else is an error,
    /// and so is an error of `visit`; the stream is left unchanged then.
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError>;
}

/// A record of the stream, with its checksum and its place verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered<'a> {
    /// A part of the checkpoint.
    Chunk(&'a [u8]),
    /// Changes after it.
    Batch(&'a [u8]),
}

/// The result of opening a stream.
pub struct Opened {
    /// The open stream.
    pub store: Box<dyn Store>,
    /// To be written into every batch from now on.
    pub epoch: Epoch,
    /// The position of the last change in the stream. The next batch starts after it.
    pub head: Position,
    /// Messages for the log, such as a torn tail.
    pub notes: Vec<String>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Opened { store: _, epoch, head, notes } = self;
        f.debug_struct("Opened").field("epoch", epoch).field("head", head).field("notes", notes).finish_non_exhaustive()
    }
}

/// The room for further appends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// No reason to refuse anything.
    Enough,
    /// Time to refuse commands that make the journal grow, while releases and expiries still fit.
    Low {
        /// The bytes that are left.
        left_bytes: u64,
    },
}

/// The sizes of a stream, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Batches that a restart would read.
    pub tail_bytes: u64,
    /// Chunks that a restart would read.
    pub checkpoint_bytes: u64,
    /// The size of everything on disk, including replaced data and free space.
    pub file_bytes: u64,
}
