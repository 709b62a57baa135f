//! Where changes become durable.
//!
//! A *stream* is the journal of one partition: an append-only sequence of batches plus at most one checkpoint.
//!
//! ```text
//!   checkpoint as of 400          tail
//!   ┌───────┬───────┬───────┐     ┌───────────┬───────────┬───────────┐
//!   │chunk 0│chunk 1│chunk 2│  +  │ 401 … 420 │ 421 … 421 │ 422 … 460 │  ◀─ append(epoch, 461 …)
//!   └───────┴───────┴───────┘     └───────────┴───────────┴───────────┘
//! ```
//!
//! [`record`] is the bytes of a batch and of a chunk; [`store`] is the contract that keeps them, and its
//! implementations. The engine alone knows what changes mean.

#![warn(missing_docs)]

#[cfg(feature = "planted-in-binary")]
#[doc(hidden)]
pub mod armed;
#[cfg(not(feature = "planted-in-binary"))]
mod armed;
mod gate;
mod ids;
mod jump;
mod limits;
mod partition;
mod prune;
pub mod record;
mod recovery;
mod restore;
pub mod store;

pub use gate::Gate;
pub use ids::{Epoch, Position};
pub use jump::{EPOCHS_SKIPPED, TOKENS_SKIPPED, first_epoch_after, last_token_lost};
pub use limits::PartitionLimits;
pub use partition::{
    Callers, CheckpointStart, Clocks, Denial, Happened, Orphans, Partition, Request, STRETCH_MAX_US, ServiceClock,
    TICK_US, Ticket, Told,
};
pub use prune::{Candidate, Picked, Pruned, pick, prune};
pub use record::{Batch, BatchWriter, ChunkWriter};
pub use recovery::{Examined, Recovery, Retold, examine, recover, recover_with_history};
pub use restore::{Restored, raised_token, restore};
pub use store::{
    Founding, InUse, MemoryOpener, NewDirectory, Opener, Room, Sizes, SqliteKeyring, SqliteOpener, SqliteReader, Store,
    StoreError, mark_moved,
};
