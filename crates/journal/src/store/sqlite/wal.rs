//! Looks at a write-ahead log before SQLite does. SQLite takes everything up to the first bad frame and silently drops
//! the rest. A torn tail needs that, but a flipped bit in the middle must not cause it: acknowledged batches would be
//! gone.
//!
//! ```text
//! header  magic version page-size sequence  salt salt  checksum checksum          8 × u32, big endian
//! frame   page commit  salt salt  checksum checksum   page …                      6 × u32, then the page
//! ```
//! Checksums are cumulative: each continues the one of the frame before. A frame whose `commit` is not zero ends a
//! transaction. Since every transaction is synced before the next one begins, a power failure can only hurt the last
//! one, so at most one commit can be found behind (or in) the first bad frame. Two or more mean damage. To keep this
//! true, a torn end is cut off before anything is written in its place: the next crash would leave two of them.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::PAGE_BYTES;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const MAGIC_LITTLE_ENDIAN: u32 = 0x377f_0682;
const MAGIC_BIG_ENDIAN: u32 = 0x377f_0683;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Everything up to the end is right, or the log is empty.
    Whole,
    /// The last transaction did not make it. It was never acknowledged.
    Torn(FramePlace),
    Damaged(FramePlace),
}

/// Frame 0 is the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FramePlace {
    pub(super) frame: u64,
    pub(super) offset: u64,
}

pub(super) fn inspect(path: &Path) -> io::Result<Verdict> {
    match File::open(path) {
        Ok(file) => judge(BufReader::with_capacity(1 << 20, file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Verdict::Whole),
        Err(error) => Err(error),
    }
}

/// Cuts off a torn end, durably. SQLite does not need those bytes.
pub(super) fn cut(path: &Path, offset: u64) -> io::Result<()> {
    let log = File::options().write(true).open(path)?;
    log.set_len(offset)?;
    log.sync_all()
}

/// The least length of a log with this many frames.
pub(super) fn bytes_of_frames(frames: u64) -> u64 {
    let frame_bytes = FRAME_HEADER_BYTES as u64 + u64::from(PAGE_BYTES);
    if frames == 0 { 0 } else { HEADER_BYTES as u64 + frames * frame_bytes }
}

type Sum = (u32, u32);

fn judge(mut log: impl Read) -> io::Result<Verdict> {
    let mut header = [0; HEADER_BYTES];
    match read_up_to(&mut log, &mut header)? {
        0 => return Ok(Verdict::Whole),
        HEADER_BYTES => {}
        _ => return Ok(Verdict::Torn(FramePlace { frame: 0, offset: 0 })),
    }
    let magic = word(&header, 0);
    let big_endian = magic == MAGIC_BIG_ENDIAN;
    let sum = add((0, 0), &header[..24], big_endian);
    let sound = (big_endian || magic == MAGIC_LITTLE_ENDIAN) && sum == (word(&header, 24), word(&header, 28));
    let page_bytes = if sound { word(&header, 8) } else { PAGE_BYTES };
    // The second salt tells this generation of the log from those that were here before. Without a header the first
    // frame has to stand in for it.
    let mut salts = sound.then(|| (word(&header, 16), word(&header, 20)));

    let mut bad = (!sound).then_some(FramePlace { frame: 0, offset: 0 });
    let mut torn = !sound;
    let mut commits_from_bad = 0;
    // The checksums that the next frame's checksum may continue: the one stored before it and, right after the first
    // bad frame, also the one that should have been stored.
    let mut stored_before = (word(&header, 24), word(&header, 28));
    let mut computed_before = None;
    let mut open_transaction = None;

    let frame_bytes = FRAME_HEADER_BYTES + page_bytes as usize;
    let mut frame = vec![0; frame_bytes];
    for number in 1.. {
        let place = FramePlace { frame: number, offset: HEADER_BYTES as u64 + (number - 1) * frame_bytes as u64 };
        match read_up_to(&mut log, &mut frame)? {
            len if len == frame_bytes => {}
            len => {
                if len > 0 && bad.is_none() {
                    (bad, torn) = (Some(place), true);
                }
                break;
            }
        }
        let stored = (word(&frame, 16), word(&frame, 20));
        let sum_after = |before, commit: u32| {
            let before = add(before, &[word(&frame, 0).to_be_bytes(), commit.to_be_bytes()].concat(), big_endian);
            add(before, &frame[FRAME_HEADER_BYTES..], big_endian)
        };
        let commit = word(&frame, 4);
        let computed = sum_after(stored_before, commit);
        let chained = computed == stored || computed_before.is_some_and(|before| sum_after(before, commit) == stored);
        let frame_salts = (word(&frame, 8), word(&frame, 12));
        let current = *salts.get_or_insert(frame_salts) == frame_salts;
        let commits = commit != 0;

        computed_before = None;
        if bad.is_some() {
            // Frames of this generation behind the end were being written when the crash came.
            torn |= current;
            commits_from_bad += u32::from(chained && current && commits);
        } else if chained && current {
            open_transaction = if commits { None } else { open_transaction.or(Some(place)) };
        } else {
            // A log ends with a frame of an earlier generation, or with none; nothing is torn then.
            torn = current || chained;
            bad = Some(place);
            // The flipped bit may be the one that made the frame a commit.
            let lost_commit = || (0..32).any(|bit| sum_after(stored_before, 1 << bit) == stored);
            commits_from_bad += u32::from((chained || current) && (commits || lost_commit()));
            computed_before = Some(computed);
        }
        stored_before = stored;
    }
    Ok(match bad {
        Some(place) if commits_from_bad >= 2 => Verdict::Damaged(place),
        Some(place) if torn => Verdict::Torn(open_transaction.unwrap_or(place)),
        _ => open_transaction.map_or(Verdict::Whole, Verdict::Torn),
    })
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes(bytes[offset..offset + 4].try_into().expect("four bytes were sliced"))
}

fn add((mut a, mut b): Sum, bytes: &[u8], big_endian: bool) -> Sum {
    let (pairs, rest) = bytes.as_chunks::<8>();
    debug_assert!(rest.is_empty(), "checksums are over multiples of eight bytes");
    for &[a0, a1, a2, a3, b0, b1, b2, b3] in pairs {
        let read = if big_endian { u32::from_be_bytes } else { u32::from_le_bytes };
        a = a.wrapping_add(read([a0, a1, a2, a3])).wrapping_add(b);
        b = b.wrapping_add(read([b0, b1, b2, b3])).wrapping_add(a);
    }
    (a, b)
}

/// Fills the buffer as far as there are bytes to read.
fn read_up_to(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    /// A log with small pages, so that every bit can be tried, and where each of its transactions ends.
    fn sample() -> (Vec<u8>, Vec<usize>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sample");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch(
                "PRAGMA page_size = 512; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;
                 CREATE TABLE t (id INTEGER PRIMARY KEY, record BLOB); PRAGMA wal_checkpoint(TRUNCATE);",
            )
            .unwrap();
        let log = directory.path().join("sample-wal");
        let mut ends = Vec::new();
        // Transactions of one frame and of several.
        for bytes in [60, 700, 60, 60] {
            connection.execute("INSERT INTO t (record) VALUES (randomblob(?1))", (bytes,)).unwrap();
            ends.push(usize::try_from(log.metadata().unwrap().len()).unwrap());
        }
        (std::fs::read(&log).unwrap(), ends)
    }

    #[test]
    fn a_log_as_it_was_written_is_whole() {
        let (log, ends) = sample();
        assert_eq!(judge(&log[..]).unwrap(), Verdict::Whole);
        for end in ends {
            assert_eq!(judge(&log[..end]).unwrap(), Verdict::Whole);
        }
        assert_eq!(judge(&[][..]).unwrap(), Verdict::Whole);
    }

    #[test]
    fn a_log_cut_off_anywhere_is_torn_where_a_transaction_is_cut() {
        let (log, ends) = sample();
        for cut in 1..log.len() {
            let kept = ends.iter().rev().find(|&&end| end <= cut).copied().unwrap_or(HEADER_BYTES);
            let offset = if cut < HEADER_BYTES { 0 } else { kept as u64 };
            match judge(&log[..cut]).unwrap() {
                Verdict::Whole => assert_eq!(kept, cut),
                Verdict::Torn(place) => assert_eq!(place.offset, offset, "cut at {cut}"),
                Verdict::Damaged(place) => panic!("cut at {cut}: {place:?}"),
            }
        }
    }

    #[test]
    fn a_transaction_without_its_beginning_is_torn_where_it_began() {
        let (log, ends) = sample();
        let frame_bytes = FRAME_HEADER_BYTES + 512;
        let mut without = log[..ends[1]].to_vec();
        without[ends[0]..ends[0] + frame_bytes].fill(0);
        let frame = (ends[0] - HEADER_BYTES) / frame_bytes + 1;
        let place = FramePlace { frame: frame as u64, offset: ends[0] as u64 };
        assert_eq!(judge(&without[..]).unwrap(), Verdict::Torn(place));
        // Zeros alone are room that was allocated and never written.
        without.truncate(ends[0] + frame_bytes);
        assert_eq!(judge(&without[..]).unwrap(), Verdict::Whole);
    }

    #[test]
    fn a_bit_flipped_before_the_last_transaction_is_damage_and_named() {
        let (log, ends) = sample();
        let last_transaction = ends[ends.len() - 2];
        let frame_bytes = FRAME_HEADER_BYTES + 512;
        for bit in 0..log.len() * 8 {
            let byte = bit / 8;
            let mut flipped = log.clone();
            flipped[byte] ^= 1 << (bit % 8);
            let verdict = judge(&flipped[..]).unwrap();
            if byte < HEADER_BYTES {
                // Without a header the check assumes the page size of this store, which these small pages do not have.
                assert!(matches!(verdict, Verdict::Torn(FramePlace { frame: 0, offset: 0 })), "bit {bit}: {verdict:?}");
            } else if byte < last_transaction {
                let frame = (byte - HEADER_BYTES) / frame_bytes;
                let place = FramePlace { frame: frame as u64 + 1, offset: (HEADER_BYTES + frame * frame_bytes) as u64 };
                assert_eq!(verdict, Verdict::Damaged(place), "bit {bit}");
            } else {
                // As good as torn: nothing behind it tells the two apart.
                assert!(matches!(verdict, Verdict::Torn(_)), "bit {bit}: {verdict:?}");
            }
        }
    }

    #[test]
    fn what_an_earlier_generation_left_behind_is_not_damage() {
        let (old, old_ends) = sample();
        let (new, new_ends) = sample();
        for end in new_ends {
            let mut log = old.clone();
            log[..end].copy_from_slice(&new[..end]);
            assert_eq!(judge(&log[..]).unwrap(), Verdict::Whole, "started over, {end} of {} bytes", old_ends[0]);
        }
    }
}
