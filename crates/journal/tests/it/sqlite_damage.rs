//! Files of the SQLite store after a crash or on a bad disk: a torn tail is dropped, damage anywhere else is refused,
//! and a store that opens has exactly what was written.

use std::path::Path;

use leasehold_journal::Position;
use leasehold_journal::record::ChunkWriter;
use leasehold_journal::store::{SqliteOpener, SqliteReader};

use crate::conformance::{self, Appender, Found, PARTITION, records, try_open};
use crate::samples;
use crate::sqlite::{Sqlite, scratch};

/// The files as a crash would leave them, the records in them, and how long the log was after each.
struct Image {
    database: Vec<u8>,
    log: Vec<u8>,
    chunks: Vec<Vec<u8>>,
    records: Vec<Vec<u8>>,
    ends: Vec<usize>,
}

impl Image {
    fn after_crash() -> Image {
        let subject = Sqlite::fresh();
        let Found { mut opened, .. } = conformance::open(&subject);
        let mut appender = Appender::new(&opened);
        let log = subject.path().join("leasehold.db-wal");
        let (mut batches, mut ends) = (Vec::new(), Vec::new());
        for changes in [10, 700, 10, 3_000, 10] {
            batches.push(appender.append(&mut *opened.store, changes));
            ends.push(usize::try_from(log.metadata().unwrap().len()).unwrap());
        }
        let database = std::fs::read(subject.path().join("leasehold.db")).unwrap();
        Image { database, log: std::fs::read(log).unwrap(), chunks: Vec::new(), records: records(&batches), ends }
    }

    /// A checkpoint and a tail in a database whose log was moved into it, as a clean end leaves it.
    fn after_closing() -> Image {
        let subject = Sqlite::fresh();
        let Found { mut opened, .. } = conformance::open(&subject);
        let mut appender = Appender::new(&opened);
        let store = &mut *opened.store;
        let upto = appender.append(store, 500).last;
        let chunks = chunks_of_samples(upto);
        store.begin_checkpoint(upto).unwrap();
        for chunk in &chunks {
            store.put_chunk(chunk).unwrap();
        }
        store.finish_checkpoint().unwrap();
        let batches = [10, 700, 10, 3_000, 10].map(|changes| appender.append(store, changes));
        drop(opened);
        let database = std::fs::read(subject.path().join("leasehold.db")).unwrap();
        Image { database, log: Vec::new(), chunks, records: records(&batches), ends: Vec::new() }
    }

    fn open_in(&self, directory: &Path) -> Result<Found, String> {
        self.write_to(directory);
        try_open(&SqliteOpener::new(directory)).map_err(|error| error.to_string())
    }

    fn write_to(&self, directory: &Path) {
        std::fs::write(directory.join("leasehold.db"), &self.database).unwrap();
        std::fs::write(directory.join("leasehold.db-wal"), &self.log).unwrap();
        let _ = std::fs::remove_file(directory.join("leasehold.db-shm"));
    }
}

#[test]
fn a_reader_takes_a_torn_log_as_a_start_does_and_leaves_it_torn() {
    let mut image = Image::after_crash();
    let whole = image.log.clone();
    image.log.truncate(image.ends[3] - 100);
    let (directory, copy) = (scratch(), scratch());
    image.write_to(directory.path());
    let reader = SqliteReader::of_directory(directory.path(), PARTITION).unwrap();
    assert!(reader.notes()[0].contains("was cut off"), "{:?}", reader.notes());
    reader.copy_to(&copy.path().join("leasehold.db")).unwrap();
    drop(reader);
    assert_eq!(std::fs::read(directory.path().join("leasehold.db")).unwrap(), image.database);
    assert_eq!(std::fs::read(directory.path().join("leasehold.db-wal")).unwrap(), image.log);
    let Found { batches, .. } = try_open(&SqliteOpener::new(copy.path())).unwrap();
    assert_eq!(batches, image.records[..3]);

    // A reader refuses what a start refuses.
    image.log = whole;
    image.log[image.ends[0] + 1000] ^= 1;
    image.write_to(directory.path());
    let refused = SqliteReader::of_directory(directory.path(), PARTITION).unwrap_err().to_string();
    assert!(refused.contains("is damaged: frame"), "{refused}");
}

#[test]
fn a_log_cut_off_anywhere_opens_with_everything_before_the_cut() {
    let mut image = Image::after_crash();
    let whole = image.log.clone();
    let frames = 32..whole.len();
    // Every byte of the last frame and around the ends of all others, every 64th elsewhere.
    let near_an_end = |cut: usize| (cut + 4120 - 32 + 2) % 4120 < 28 || cut + 4120 > whole.len();
    let directory = scratch();
    let mut torn = 0;
    for cut in (0..=whole.len()).filter(|&cut| cut < 34 || frames.contains(&cut) && (cut % 64 == 0 || near_an_end(cut)))
    {
        image.log = whole[..cut].to_vec();
        let Found { opened, batches, .. } = image.open_in(directory.path()).unwrap();
        let before_the_cut = image.ends.iter().filter(|&&end| end <= cut).count();
        assert_eq!(batches, image.records[..before_the_cut], "cut at {cut}");
        let is_torn = cut > 0 && cut != 32 && !image.ends.contains(&cut);
        assert_eq!(opened.notes.len(), usize::from(is_torn), "cut at {cut}: {:?}", opened.notes);
        torn += usize::from(is_torn);
    }
    assert!(torn > 100);
}

#[test]
fn a_torn_tail_is_worth_a_note() {
    let mut image = Image::after_crash();
    image.log.truncate(image.ends[3] + 100);
    let directory = scratch();
    let Found { opened, .. } = image.open_in(directory.path()).unwrap();
    let [note] = &opened.notes[..] else { panic!("{:?}", opened.notes) };
    assert!(note.contains("leasehold.db-wal ended in a write that was cut off (frame "), "{note}");
    drop(opened);
    assert_eq!(try_open(&SqliteOpener::new(directory.path())).unwrap().opened.notes.len(), 0);
}

#[test]
fn a_bit_flipped_in_the_middle_of_the_log_is_refused_and_nothing_is_touched() {
    let mut image = Image::after_crash();
    let directory = scratch();
    let last = image.ends[image.ends.len() - 2];
    for byte in (0..last).step_by(97) {
        image.log[byte] ^= 0x10;
        for _ in 0..2 {
            let message = image.open_in(directory.path()).map(|found| found.opened).unwrap_err();
            let frame = if byte < 32 { 0 } else { (byte - 32) / 4120 + 1 };
            assert!(message.contains(&format!("leasehold.db-wal is damaged: frame {frame} at byte ")), "{message}");
            assert!(message.contains("restore the data from a backup"), "{message}");
        }
        assert!(std::fs::read(directory.path().join("leasehold.db-wal")).unwrap() == image.log);
        assert!(std::fs::read(directory.path().join("leasehold.db")).unwrap() == image.database);
        image.log[byte] ^= 0x10;
    }
    assert_eq!(image.open_in(directory.path()).unwrap().batches, image.records);
}

#[test]
fn a_log_without_its_database_is_refused() {
    let image = Image::after_crash();
    let directory = scratch();
    std::fs::write(directory.path().join("leasehold.db-wal"), &image.log).unwrap();
    let error = try_open(&SqliteOpener::new(directory.path())).map(|found| found.opened).unwrap_err().to_string();
    assert!(error.contains("leasehold.db, to which it belongs, is missing"), "{error}");
}

fn chunks_of_samples(upto: Position) -> Vec<Vec<u8>> {
    let mut writer = ChunkWriter::new(PARTITION, upto, samples::CHECKPOINT_AT);
    let seal = |_| {
        for fact in samples::facts() {
            writer.push(&fact);
        }
        writer.seal()
    };
    (0..3).map(seal).collect()
}

/// Flips a bit in every copy of a record that is in the file; the database leaves some behind when it moves rows.
fn flip(database: &mut [u8], record: &[u8], byte: usize) {
    const START: usize = 60;
    let copies: Vec<_> =
        (0..database.len() - START).filter(|&at| database[at..].starts_with(&record[..START])).collect();
    assert!(!copies.is_empty() && byte >= START);
    for at in copies {
        if let Some(byte) = database.get_mut(at + byte) {
            *byte ^= 0x04;
        }
    }
}

#[test]
fn a_bit_flipped_in_a_record_is_refused_and_named_by_position() {
    let mut image = Image::after_closing();
    let directory = scratch();
    let victims = [
        (image.records[1].clone(), "leasehold.db, journal position 511 is damaged: checksum at byte "),
        (image.chunks[1].clone(), "leasehold.db, chunk 1 of the checkpoint is damaged: checksum at byte "),
    ];
    for (record, said) in victims {
        for byte in (60..record.len()).step_by(17) {
            flip(&mut image.database, &record, byte);
            let message = image.open_in(directory.path()).map(|found| found.opened).unwrap_err();
            assert!(message.contains(said), "{message}");
            flip(&mut image.database, &record, byte);
        }
    }
}

/// Anywhere in the file: it may be refused, it may not matter, but it never opens with something else in it.
#[test]
fn a_bit_flipped_anywhere_in_the_database_is_refused_or_does_not_matter() {
    let mut image = Image::after_closing();
    let directory = scratch();
    let (mut refused, mut harmless) = (0, 0);
    for (number, byte) in (0..image.database.len()).step_by(31).enumerate() {
        let bit = 1 << (number % 8);
        image.database[byte] ^= bit;
        match image.open_in(directory.path()) {
            Ok(found) => {
                assert_eq!(found.batches, image.records, "byte {byte}, bit {bit}");
                assert_eq!(found.chunks, image.chunks, "byte {byte}, bit {bit}");
                harmless += 1;
            }
            Err(message) => {
                assert!(message.contains("leasehold.db"), "{message}");
                refused += 1;
            }
        }
        image.database[byte] ^= bit;
    }
    // Both happen: most bits are of records, some are of free space.
    assert!(refused > 100 && harmless > 100, "{refused} refused, {harmless} harmless");
}
