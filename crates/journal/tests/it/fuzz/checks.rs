//! The targets, as `make fuzz` uses them, too: of the public interface only.

use leasehold_journal::record::{BatchWriter, ChunkWriter, RecordError, decode_batch, decode_chunk};

/// A record as it may be found: the bytes, and a checksum that fits.
pub(super) fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut record = bytes.to_vec();
    record.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    record
}

/// A place within the record, and a sentence.
fn is_told(error: &RecordError, record: &[u8]) -> u64 {
    assert!(error.offset <= record.len(), "{error} of {} bytes", record.len());
    assert!(!error.to_string().contains('\n'), "{error}");
    // Which field and what about it, but not where: that would make every input different.
    leasehold_fuzz::outcome(&(error.field, std::mem::discriminant(&error.problem)))
}

pub(super) fn batch(bytes: &[u8]) -> u64 {
    let _ = decode_batch(bytes);
    let record = sealed(bytes);
    let decoded = match decode_batch(&record) {
        Ok(decoded) => decoded,
        Err(error) => return is_told(&error, &record),
    };
    let header = decoded.header;
    assert!(!decoded.changes.is_empty(), "a batch is never empty");
    let mut writer = BatchWriter::new(header.partition, header.epoch, header.first);
    for (moment, change) in &decoded.changes {
        writer.push(*moment, change);
    }
    let again = writer.seal();
    assert_eq!((again.epoch, again.first, again.last), (header.epoch, header.first, header.last()));
    // A writer begins with the moment of its first change. Bytes that begin elsewhere say the same.
    let again = decode_batch(&again.record).map(|again| again.changes);
    assert_eq!(again.as_ref(), Ok(&decoded.changes));
    leasehold_fuzz::outcome(
        &decoded.changes.iter().map(|(_, change)| std::mem::discriminant(change)).collect::<Vec<_>>(),
    )
}

pub(super) fn chunk(bytes: &[u8]) -> u64 {
    let _ = decode_chunk(bytes);
    let record = sealed(bytes);
    let decoded = match decode_chunk(&record) {
        Ok(decoded) => decoded,
        Err(error) => return is_told(&error, &record),
    };
    let header = decoded.header;
    let mut writer = ChunkWriter::new(header.partition, header.upto, header.moment);
    decoded.facts.iter().for_each(|fact| writer.push(fact));
    let again = decode_chunk(&writer.seal()).expect("a written record can be read");
    assert_eq!(again.facts, decoded.facts);
    leasehold_fuzz::outcome(&decoded.facts.iter().map(std::mem::discriminant).collect::<Vec<_>>())
}
