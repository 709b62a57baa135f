//! The record format: what goes in comes out, and nothing else does.

use leasehold_engine::{Change, ClaimId, Fact, Lease, Moment, Time, Token, Wall};
use leasehold_journal::record::{
    Batch, BatchWriter, CHUNK_BYTES, ChunkWriter, DecodedBatch, DecodedChunk, FORMAT_VERSION, Flaw, RecordError,
    decode_batch, decode_chunk,
};
use leasehold_journal::{Epoch, Position};
use proptest::prelude::*;

use crate::samples;

fn batch(history: &[(Moment, Change)]) -> Batch {
    let mut writer = BatchWriter::new(3, Epoch(9), Position(1_000));
    for (moment, change) in history {
        writer.push(*moment, change);
    }
    writer.seal()
}

fn chunk(moment: Moment, facts: &[Fact]) -> Vec<u8> {
    let mut writer = ChunkWriter::new(3, Position(1_000), moment);
    for fact in facts {
        writer.push(fact);
    }
    writer.seal()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn batches_round_trip(history in samples::history()) {
        let sealed = batch(&history);
        let DecodedBatch { header, changes } = decode_batch(&sealed.record).unwrap();
        prop_assert_eq!((header.partition, header.epoch, header.first), (3, Epoch(9), Position(1_000)));
        prop_assert_eq!((header.last(), header.start), (sealed.last, history[0].0));
        prop_assert_eq!(changes, history);
    }

    #[test]
    fn chunks_round_trip(moment in samples::moment(), facts in prop::collection::vec(samples::fact(), 0..40)) {
        let DecodedChunk { header, facts: decoded } = decode_chunk(&chunk(moment, &facts)).unwrap();
        prop_assert_eq!((header.partition, header.upto, header.moment, header.number), (3, Position(1_000), moment, 0));
        prop_assert_eq!(header.facts as usize, facts.len());
        prop_assert_eq!(decoded, facts);
    }

    /// Bytes that pass the checksum but that no writer wrote: an error or some changes, never a panic.
    #[test]
    fn hostile_bodies_are_read_without_a_panic(body: Vec<u8>, count in 1_u32..2_000_000_000) {
        for (sample, header_bytes, count_offset) in [(batch(&samples::changes()).record, 46, 26), (chunk(samples::CHECKPOINT_AT, &samples::facts()), 42, 38)] {
            let mut record = [&sample[..header_bytes], &body].concat();
            record[count_offset..count_offset + 4].copy_from_slice(&count.to_le_bytes());
            seal(&mut record);
            for result in [decode_batch(&record).map(drop), decode_chunk(&record).map(drop)] {
                if let Err(error) = result {
                    prop_assert!(error.offset <= record.len());
                }
            }
        }
    }

    /// The same for a sample that was altered in one place.
    #[test]
    fn altered_bodies_are_read_without_a_panic(at: prop::sample::Index, byte: u8) {
        for mut record in [batch(&samples::changes()).record, chunk(samples::CHECKPOINT_AT, &samples::facts())] {
            record.truncate(record.len() - 4);
            let at = at.index(record.len());
            record[at] = byte;
            seal(&mut record);
            let _ = (decode_batch(&record), decode_chunk(&record));
        }
    }
}

fn seal(record: &mut Vec<u8>) {
    let checksum = crc32fast::hash(record);
    record.extend_from_slice(&checksum.to_le_bytes());
}

/// A record of every variant, and how to read it.
type Sample = (Vec<u8>, fn(&[u8]) -> Result<(), RecordError>);

fn both() -> [Sample; 2] {
    [
        (batch(&samples::changes()).record, |record| decode_batch(record).map(drop)),
        (chunk(samples::CHECKPOINT_AT, &samples::facts()), |record| decode_chunk(record).map(drop)),
    ]
}

#[test]
fn a_record_cut_off_at_any_byte_is_refused() {
    for (record, read) in both() {
        assert_eq!(read(&record), Ok(()));
        for cut in 0..record.len() {
            let error = read(&record[..cut]).expect_err("a part was taken for the whole");
            let field = match cut {
                ..4 => "magic",
                4..6 => "version",
                _ => "checksum",
            };
            assert_eq!(error.field, field, "cut at {cut}: {error}");
        }
        read(&[&record[..], &[0]].concat()).expect_err("one byte too many");
    }
}

#[test]
fn every_flipped_bit_is_detected_and_named() {
    for (record, read) in both() {
        for bit in 0..record.len() * 8 {
            let mut flipped = record.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let error = read(&flipped).expect_err("a flipped bit went unnoticed");
            let (field, offset) = match bit / 8 {
                ..4 => ("magic", 0),
                // A record that looks like an earlier version has the wrong checksum.
                4 if (1..=FORMAT_VERSION).contains(&u16::from(flipped[4])) => ("checksum", record.len() - 4),
                4..6 => ("version", 4),
                _ => ("checksum", record.len() - 4),
            };
            assert_eq!((error.field, error.offset), (field, offset), "bit {bit}");
        }
    }
}

#[test]
fn errors_say_where_and_what() {
    let [(mut record, read), _] = both();
    let end = record.len() - 4;
    record[end..].copy_from_slice(&[0; 4]);
    let message = read(&record).unwrap_err().to_string();
    assert!(message.starts_with(&format!("checksum at byte {end}: 00000000 is stored, the bytes before it give ")));
    for version in [0, 6] {
        record[4] = version;
        assert_eq!(
            read(&record).unwrap_err().to_string(),
            format!("version at byte 4: format version {version} is not known here, versions 1 to 5 are")
        );
    }
}

#[test]
fn what_is_no_record_is_refused() {
    let [(batch, read_batch), (chunk, read_chunk)] = both();
    assert_eq!(read_batch(&chunk).unwrap_err().problem, Flaw::Magic);
    assert_eq!(read_chunk(&batch).unwrap_err().problem, Flaw::Magic);
    assert!(matches!(read_batch(b"").unwrap_err().problem, Flaw::Short { .. }));
}

#[test]
fn positions_go_on_from_batch_to_batch() {
    let mut writer = BatchWriter::new(0, Epoch(1), Position(1));
    assert!(writer.is_empty());
    assert_eq!(writer.push(Moment::default(), &Change::Marked), Position(1));
    assert_eq!(writer.push(Moment::default(), &Change::Marked), Position(2));
    assert_eq!((writer.len(), writer.next_position()), (2, Position(3)));
    let first = writer.seal();
    assert_eq!((first.first, first.last), (Position(1), Position(2)));
    assert!(writer.is_empty());
    writer.push(Moment::default(), &Change::Marked);
    let second = writer.seal();
    assert_eq!((second.first, second.last), (Position(3), Position(3)));
    assert_eq!(decode_batch(&second.record).unwrap().header.first, Position(3));
}

#[test]
#[should_panic(expected = "service time ran backwards")]
fn service_time_never_runs_backwards() {
    let mut writer = BatchWriter::new(0, Epoch(1), Position(1));
    writer.push(Moment { at: Time(2), wall: Wall(0) }, &Change::Marked);
    writer.push(Moment { at: Time(1), wall: Wall(0) }, &Change::Marked);
}

#[test]
fn a_mark_that_finds_no_time_passed_takes_one_byte_and_a_grant_of_a_new_claim_no_second_id() {
    let now = Moment { at: Time(1_000_000_000), wall: Wall(1_700_000_000_000_000) };
    let mut writer = BatchWriter::new(0, Epoch(1), Position(1));
    writer.push(now, &Change::Marked);
    let before = writer.bytes();
    writer.push(now, &Change::Marked);
    assert_eq!(writer.bytes() - before, 1);
    let claim = ClaimId(u128::MAX);
    let lease = Lease { deadline: Time(1_030_000_000), grace_us: 0 };
    writer.push(now, &Change::GraceOver { claim });
    let before = writer.bytes();
    writer.push(now, &Change::Granted { claim, slot: 1, token: Token(1_000_000), lease });
    assert_eq!(writer.bytes() - before, 1 + 1 + 3 + 4 + 1, "tag, slot, token, deadline, grace");
}

#[test]
fn chunks_are_numbered_and_bounded() {
    let fact = samples::facts().pop().unwrap();
    let mut writer = ChunkWriter::new(0, Position(5), Moment::default());
    for number in 0..3 {
        assert!(writer.is_empty());
        while !writer.is_full() {
            writer.push(&fact);
        }
        let record = writer.seal();
        assert!((CHUNK_BYTES..CHUNK_BYTES + 1_000).contains(&record.len()));
        assert_eq!(decode_chunk(&record).unwrap().header.number, number);
    }
}
