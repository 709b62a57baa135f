//! The bytes of the journal: batches of changes, and chunks of facts that make up a checkpoint.
//!
//! ```text
//! batch   "LHB\n" version:u16 partition:u32 epoch:u64 first:u64 changes:u32 at:u64 wall:u64   body   crc32:u32
//! chunk   "LHC\n" version:u16 partition:u32 upto:u64 at:u64 wall:u64 number:u32 facts:u32     body   crc32:u32
//! change  tag:u8 [service time passed:varint] [wall clock drift:zigzag varint] [claim:16 bytes] fields
//! fact    tag:u8 fields
//! ```
//!
//! Integers of fixed width are little endian, varints are LEB128, texts have their length in front. The checksum
//! covers every byte before it. Headers have a fixed width so that the number of changes can be filled in at the end.
//! A change to any byte of this raises [`FORMAT_VERSION`], and the versions before stay readable. A record has the
//! lowest version that has all of its parts, from version 4 on: in a cluster, nodes of the release before can read it.

mod batch;
pub mod bytes;
mod change;
mod chunk;
mod error;
mod fact;
mod frame;
mod numbers;
mod parts;

pub use batch::{Batch, BatchHeader, BatchReader, BatchWriter, DecodedBatch, decode_batch};
pub use chunk::{CHUNK_BYTES, ChunkHeader, ChunkReader, ChunkWriter, DecodedChunk, decode_chunk};
pub use error::{Flaw, RecordError};
pub use numbers::FORMAT_VERSION;
