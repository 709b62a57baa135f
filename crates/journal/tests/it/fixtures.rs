//! Records of every version that was ever released, as bytes on disk. They must be readable for ever, and this
//! version must still be written byte for byte.
//!
//! `LEASEHOLD_REWRITE_FIXTURES=1` writes those of the current version anew, which is right only until it is released.

use std::collections::BTreeSet;
use std::path::PathBuf;

use leasehold_engine::Fact;
use leasehold_journal::record::{BatchWriter, ChunkWriter, FORMAT_VERSION, decode_batch, decode_chunk};
use leasehold_journal::{Epoch, Position};

use crate::samples;

fn fixture(name: &str, written_now: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    if std::env::var_os("LEASEHOLD_REWRITE_FIXTURES").is_some() {
        std::fs::write(&path, written_now).unwrap();
    }
    std::fs::read(&path).unwrap()
}

/// One of an earlier version: it is only read.
fn kept(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)).unwrap()
}

#[test]
fn version_1_of_a_batch() {
    let decoded = decode_batch(&kept("v1-batch.bin")).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.epoch), (2, Epoch(5)));
    assert_eq!(decoded.header.first, Position(1_001));
    assert_eq!(decoded.changes, samples::changes_1());
}

#[test]
fn version_1_of_a_chunk() {
    let decoded = decode_chunk(&kept("v1-chunk.bin")).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.upto), (2, Position(1_000)));
    assert_eq!((decoded.header.moment, decoded.header.number), (samples::CHECKPOINT_AT, 0));
    assert_eq!(decoded.facts, samples::facts_1());
}

#[test]
fn version_2_of_a_batch() {
    let decoded = decode_batch(&kept("v2-batch.bin")).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.epoch), (2, Epoch(5)));
    assert_eq!(decoded.header.first, Position(1_001));
    assert_eq!(decoded.changes, samples::changes_2());
}

#[test]
fn version_2_of_a_chunk() {
    let decoded = decode_chunk(&kept("v2-chunk.bin")).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.upto), (2, Position(1_000)));
    assert_eq!((decoded.header.moment, decoded.header.number), (samples::CHECKPOINT_AT, 0));
    assert_eq!(decoded.facts, samples::facts_2());
}

#[test]
fn version_3_of_a_batch() {
    let decoded = decode_batch(&kept("v3-batch.bin")).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.epoch), (2, Epoch(5)));
    assert_eq!(decoded.header.first, Position(1_001));
    assert_eq!(decoded.changes, samples::changes_3());
}

#[test]
fn version_3_of_a_chunk() {
    let decoded = decode_chunk(&kept("v3-chunk.bin")).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.upto), (2, Position(1_000)));
    assert_eq!((decoded.header.moment, decoded.header.number), (samples::CHECKPOINT_AT, 0));
    assert_eq!(decoded.facts, samples::facts_3());
}

#[test]
fn version_4_of_a_batch() {
    let mut writer = BatchWriter::new(2, Epoch(5), Position(1_001));
    for (moment, change) in &samples::changes_4() {
        writer.push(*moment, change);
    }
    let kept = kept("v4-batch.bin");
    let decoded = decode_batch(&kept).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.epoch), (2, Epoch(5)));
    assert_eq!(decoded.header.first, Position(1_001));
    assert_eq!(decoded.changes, samples::changes_4());
    assert_eq!(kept, writer.seal().record, "a batch with nothing of version 5 is one of version 4");
}

#[test]
fn version_4_of_a_chunk() {
    let mut writer = ChunkWriter::new(2, Position(1_000), samples::CHECKPOINT_AT);
    for fact in &samples::facts_4() {
        writer.push(fact);
    }
    let kept = kept("v4-chunk.bin");
    let decoded = decode_chunk(&kept).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.upto), (2, Position(1_000)));
    assert_eq!((decoded.header.moment, decoded.header.number), (samples::CHECKPOINT_AT, 0));
    assert_eq!(decoded.facts, samples::facts_4());
    assert_eq!(kept, writer.seal(), "a chunk with nothing of version 5 is one of version 4");
}

/// A writer goes back to version 4 with the next record.
#[test]
fn a_record_has_the_lowest_version_that_will_do() {
    let version = |record: &[u8]| record[4];
    let mut writer = BatchWriter::new(2, Epoch(5), Position(1_001));
    let mut written = Vec::new();
    for (moment, change) in samples::changes() {
        writer.push(moment, &change);
        written.push((samples::variant(&change) >= 16, version(&writer.seal().record)));
    }
    let mut chunks = ChunkWriter::new(2, Position(1_000), samples::CHECKPOINT_AT);
    for fact in samples::facts() {
        chunks.push(&fact);
        let is_new = matches!(&fact, Fact::Resource(resource) if resource.fittings.is_some());
        written.push((is_new, version(&chunks.seal())));
    }
    assert!(written.iter().all(|&(is_new, version)| version == if is_new { 5 } else { 4 }), "{written:?}");
    assert!(written.iter().any(|&(is_new, _)| is_new));
}

#[test]
fn version_5_of_a_batch() {
    assert_eq!(FORMAT_VERSION, 5, "keep these fixtures and add those of the new version");
    let mut writer = BatchWriter::new(2, Epoch(5), Position(1_001));
    let mut variants = BTreeSet::new();
    for (moment, change) in samples::changes() {
        variants.insert(samples::variant(&change));
        writer.push(moment, &change);
    }
    assert_eq!(variants, (0..samples::VARIANTS).collect(), "the sample lacks a variant");

    let written = writer.seal();
    let kept = fixture("v5-batch.bin", &written.record);
    let decoded = decode_batch(&kept).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.epoch), (2, Epoch(5)));
    assert_eq!((decoded.header.first, decoded.header.last()), (Position(1_001), written.last));
    assert_eq!(decoded.changes, samples::changes());
    assert_eq!(kept, written.record, "the same version is written differently");
}

#[test]
fn version_5_of_a_chunk() {
    let mut writer = ChunkWriter::new(2, Position(1_000), samples::CHECKPOINT_AT);
    for fact in samples::facts() {
        // A new kind of fact fails to compile here, and then has to be added to the sample.
        match fact {
            Fact::Counters(_) | Fact::Resource(_) | Fact::Claim(_) => writer.push(&fact),
        }
    }

    let written = writer.seal();
    let kept = fixture("v5-chunk.bin", &written);
    let decoded = decode_chunk(&kept).unwrap();
    assert_eq!((decoded.header.partition, decoded.header.upto), (2, Position(1_000)));
    assert_eq!((decoded.header.moment, decoded.header.number), (samples::CHECKPOINT_AT, 0));
    assert_eq!(decoded.facts, samples::facts());
    assert_eq!(kept, written, "the same version is written differently");
}
