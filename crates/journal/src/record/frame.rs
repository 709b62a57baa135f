//! The frame of every record around its body: magic, format version, checksum.

use leasehold_engine::planted;

use super::bytes::Reader;
use super::error::{Flaw, RecordError};
use super::numbers::FORMAT_VERSION;

/// The version of a record that has nothing of a newer one: nodes and servers of an earlier release read it, too.
const PLAIN_VERSION: u16 = 4;

pub(super) const MAGIC_BYTES: usize = 4;
const CRC_BYTES: usize = 4;

/// A buffer that sealed a bigger record than this is freed rather than kept for the next one.
const KEPT_CAPACITY_BYTES: usize = 1 << 20;

/// Starts a record. The header's fields follow.
pub(super) fn begin(out: &mut Vec<u8>, magic: [u8; MAGIC_BYTES]) {
    out.clear();
    out.extend_from_slice(&magic);
    out.extend_from_slice(&PLAIN_VERSION.to_le_bytes());
}

/// The record that was begun has a part of the newest version.
pub(super) fn raise_version(out: &mut [u8]) {
    out[MAGIC_BYTES..MAGIC_BYTES + 2].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
}

/// Fills in a count that was not known when the header was written, adds the checksum and returns the record. The
/// buffer is left empty, its memory kept.
pub(super) fn seal(buffer: &mut Vec<u8>, count_offset: usize, count: u32) -> Vec<u8> {
    buffer[count_offset..count_offset + 4].copy_from_slice(&count.to_le_bytes());
    let mut record = Vec::with_capacity(buffer.len() + CRC_BYTES);
    record.extend_from_slice(buffer);
    record.extend_from_slice(&crc32fast::hash(buffer).to_le_bytes());
    buffer.clear();
    buffer.shrink_to(KEPT_CAPACITY_BYTES);
    record
}

/// Checks the frame of a record and returns a reader of the header's fields and the body. It compares the checksum
/// before it believes any of them.
pub(super) fn open(record: &[u8], magic: [u8; MAGIC_BYTES]) -> Result<Reader<'_>, RecordError> {
    let mut reader = Reader::new(record);
    if reader.array::<MAGIC_BYTES>("magic")? != magic {
        return Err(RecordError { offset: 0, field: "magic", problem: Flaw::Magic });
    }
    // The version comes before the checksum: another version may have its checksum elsewhere.
    let found = reader.u16("version")?;
    if !(1..=FORMAT_VERSION).contains(&found) {
        return Err(RecordError { offset: MAGIC_BYTES, field: "version", problem: Flaw::Version { found } });
    }
    let Some((before, stored)) = record.split_last_chunk::<CRC_BYTES>() else {
        return Err(reader.error("checksum", Flaw::Short { needed: CRC_BYTES as u64, left: 0 }));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), crc32fast::hash(before));
    if stored != computed && !planted!(ChecksumNotCompared) {
        let problem = Flaw::Checksum { stored, computed };
        return Err(RecordError { offset: before.len(), field: "checksum", problem });
    }
    let mut reader = Reader::new(before);
    reader.take("magic and version", MAGIC_BYTES as u64 + 2)?;
    Ok(reader)
}
