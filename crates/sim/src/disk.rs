//! A disk, at the level of the writes to its files. A power cut loses, tears or reorders writes that were not synced;
//! the death of a process alone keeps them. On it, a journal: one file of framed records, one checkpoint file that is
//! written aside and renamed into place.
//!
//! ```text
//! log    len:u32 record  len:u32 record  …            sectors of 64 bytes reach the disk one by one
//! ```

use std::sync::{Arc, Mutex, MutexGuard};

use leasehold_journal::record::BatchReader;
use leasehold_journal::store::verify::Verifier;
use leasehold_journal::store::{Opened, Recovered};
use leasehold_journal::{Batch, Epoch, Opener, Position, Room, Sizes, Store, StoreError};

use crate::rng::Rng;

const SECTOR: usize = 64;
const FRAME: usize = 4;

/// Its clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<Files>>);

#[derive(Debug, Default)]
struct Files {
    epoch: Epoch,
    log: File,
    /// Where the log ends as its owner sees it, in bytes and positions.
    end: usize,
    head: Position,
    newest: Option<Batch>,
    checkpoint: Option<Checkpoint>,
    sync_fails: bool,
    is_low: bool,
    is_full: bool,
    flipped: Option<usize>,
}

#[derive(Clone, Debug)]
struct Checkpoint {
    upto: Position,
    chunks: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    /// Written, not synced, in order: offset and bytes of a sector.
    pending: Vec<(usize, Vec<u8>)>,
}

/// The effect of a power cut on the writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Nothing,
    Lost,
    Torn,
    Reordered,
    Kept,
}

impl File {
    fn write(&mut self, mut offset: usize, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let len = (SECTOR - offset % SECTOR).min(bytes.len());
            self.pending.push((offset, bytes[..len].to_vec()));
            offset += len;
            bytes = &bytes[len..];
        }
    }

    fn land(&mut self, offset: usize, bytes: &[u8]) {
        if self.durable.len() < offset + bytes.len() {
            self.durable.resize(offset + bytes.len(), 0);
        }
        self.durable[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn sync(&mut self) {
        for (offset, bytes) in std::mem::take(&mut self.pending) {
            self.land(offset, &bytes);
        }
    }
}

impl Disk {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.0.lock().expect("the world has one thread")
    }

    /// The write that an append begins with. Its sync comes with `Store::append`.
    pub fn write_ahead(&self, batch: &Batch) {
        let mut files = self.files();
        let end = files.end;
        files.log.write(end, &frame(&batch.record));
    }

    /// Power is gone. Every write that was not synced has its own fate.
    pub fn cut_power(&self, rng: &mut Rng) -> Cut {
        let mut files = self.files();
        let pending = std::mem::take(&mut files.log.pending);
        if pending.is_empty() {
            return Cut::Nothing;
        }
        let sectors = pending.len();
        let kept: Vec<bool> = match rng.below(4) {
            0 => vec![false; sectors],
            1 => {
                let torn_at = rng.index(sectors);
                (0..sectors).map(|n| n < torn_at).collect()
            }
            2 => (0..sectors).map(|_| rng.chance(500)).collect(),
            _ => vec![true; sectors],
        };
        for ((offset, bytes), _) in pending.iter().zip(&kept).filter(|(_, kept)| **kept) {
            files.log.land(*offset, bytes);
        }
        match (kept.contains(&true), kept.contains(&false)) {
            (true, false) => Cut::Kept,
            (false, _) => Cut::Lost,
            (true, true) if kept.is_sorted_by(|a, b| a >= b) => Cut::Torn,
            (true, true) => Cut::Reordered,
        }
    }

    /// The next sync fails; the fate of its pages is unknown.
    pub fn fail_next_sync(&self) {
        self.files().sync_fails = true;
    }

    pub fn set_low(&self, is_low: bool) {
        self.files().is_low = is_low;
    }

    pub fn set_full(&self, is_full: bool) {
        self.files().is_full = is_full;
    }

    pub fn is_full(&self) -> bool {
        self.files().is_full
    }

    /// Flips a bit of a record that is not the last one. `false` when there is none.
    pub fn flip_bit(&self, rng: &mut Rng) -> bool {
        let mut files = self.files();
        // A sound record must follow: at the very end damage cannot be told from a torn tail.
        let mut frames = frames(&files.log.durable);
        frames.retain(|&(start, len)| BatchReader::open(&files.log.durable[start..start + len]).is_ok());
        if frames.len() < 2 || files.flipped.is_some() || !files.log.pending.is_empty() {
            return false;
        }
        let (start, len) = frames[rng.index(frames.len() - 1)];
        let at = start + rng.index(len);
        files.log.durable[at] ^= 1 << rng.below(8);
        files.flipped = Some(at);
        true
    }

    /// The file is replaced by a sound copy of itself.
    pub fn restore_backup(&self, sound: Vec<u8>) {
        let mut files = self.files();
        files.log.durable = sound;
        files.flipped = None;
    }

    pub fn back_up(&self) -> Vec<u8> {
        self.files().log.durable.clone()
    }
}

fn frame(record: &[u8]) -> Vec<u8> {
    let len = u32::try_from(record.len()).expect("records are small");
    [&len.to_le_bytes(), record].concat()
}

/// Records that are there in full, by their framing alone.
fn frames(log: &[u8]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(len) = log.get(at..at + FRAME) {
        let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
        if len == 0 || log.len() < at + FRAME + len {
            break;
        }
        found.push((at + FRAME, len));
        at += FRAME + len;
    }
    found
}

/// Returns whether a sound record begins anywhere after `from`: then damage before it is no torn tail.
fn sound_record_after(log: &[u8], from: usize) -> bool {
    (from + 1..log.len()).any(|at| {
        log[at..].starts_with(b"LHB\n")
            && at >= FRAME
            && log.get(at - FRAME..at).is_some_and(|len| {
                let len = u32::from_le_bytes(len.try_into().expect("four bytes")) as usize;
                log.get(at..at + len).is_some_and(|record| BatchReader::open(record).is_ok())
            })
    })
}

impl Opener for Disk {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        let mut files = self.files();
        if files.is_full {
            return Err(StoreError::Full { place: "the disk".to_owned() });
        }
        // Unsynced writes of an earlier process are in the page cache: they are there from now on, or never were.
        files.log.sync();
        let mut notes = Vec::new();
        let mut end = 0;
        let mut tail = Vec::new();
        for (start, len) in frames(&files.log.durable) {
            let record = &files.log.durable[start..start + len];
            let is_sound = BatchReader::open(record).is_ok();
            if !is_sound && !sound_record_after(&files.log.durable, start) {
                break;
            }
            // The verifier names damage that is followed by a sound record.
            tail.push(record.to_vec());
            end = start + len;
        }
        if end < files.log.durable.len() {
            if sound_record_after(&files.log.durable, end) {
                let what = "a frame is broken and sound records follow".to_owned();
                return Err(StoreError::Damaged { place: "the log".into(), what, advice: "restore a backup".into() });
            }
            notes.push(format!("a torn tail of {} bytes was dropped", files.log.durable.len() - end));
            files.log.durable.truncate(end);
        }
        let epoch = files.epoch.next();
        let mut verifier = Verifier::new("the log", partition);
        let mut upto = Position::START;
        if let Some(checkpoint) = &files.checkpoint {
            upto = checkpoint.upto;
            verifier.expect_checkpoint(upto, u32::try_from(checkpoint.chunks.len()).expect("few chunks"));
            for chunk in &checkpoint.chunks {
                verifier.chunk(chunk)?;
                visit(Recovered::Chunk(chunk))?;
            }
        }
        let mut newest = None;
        for record in &tail {
            let header = BatchReader::open(record).map(|reader| reader.header());
            if header.as_ref().is_ok_and(|header| header.last() <= upto) {
                continue;
            }
            let header = verifier.batch(record)?;
            visit(Recovered::Batch(record))?;
            newest =
                Some(Batch { epoch: header.epoch, first: header.first, last: header.last(), record: record.clone() });
        }
        files.head = verifier.finish(epoch)?;
        files.epoch = epoch;
        files.end = end;
        files.newest = newest;
        let store = DiskStore { disk: self.clone(), epoch, unfinished: None };
        Ok(Opened { store: Box::new(store), epoch, head: files.head, notes })
    }
}

#[derive(Debug)]
struct DiskStore {
    disk: Disk,
    epoch: Epoch,
    unfinished: Option<Checkpoint>,
}

impl Store for DiskStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let mut files = self.disk.files();
        if files.epoch != self.epoch || batch.epoch != self.epoch {
            return Err(StoreError::Fenced(format!("epoch {} owns the log", files.epoch)));
        }
        if files.newest.as_ref() == Some(batch) {
            return Ok(());
        }
        if batch.first != files.head.next() {
            return Err(StoreError::Fenced(format!("the head is {}", files.head)));
        }
        if files.is_full {
            files.log.pending.clear();
            return Err(StoreError::Full { place: "the disk".to_owned() });
        }
        let end = files.end;
        let framed = frame(&batch.record);
        if files.log.pending.is_empty() {
            files.log.write(end, &framed);
        }
        if std::mem::take(&mut files.sync_fails) {
            // The kernel takes such pages for clean from here on; every second one made it.
            let pending = std::mem::take(&mut files.log.pending);
            for (offset, bytes) in pending.iter().step_by(2) {
                files.log.land(*offset, bytes);
            }
            return Err(StoreError::Failed { doing: "fsync".to_owned(), why: "input/output error".into() });
        }
        files.log.sync();
        files.end += framed.len();
        files.head = batch.last;
        files.newest = Some(batch.clone());
        Ok(())
    }

    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError> {
        self.unfinished = Some(Checkpoint { upto, chunks: Vec::new() });
        Ok(())
    }

    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        if self.disk.is_full() {
            self.unfinished = None;
            return Err(StoreError::Full { place: "the disk".to_owned() });
        }
        let unfinished = self.unfinished.as_mut().ok_or(StoreError::Misused("no checkpoint was begun"))?;
        unfinished.chunks.push(chunk.to_vec());
        Ok(())
    }

    fn finish_checkpoint(&mut self) -> Result<(), StoreError> {
        let mut files = self.disk.files();
        let unfinished = self.unfinished.take().ok_or(StoreError::Misused("no checkpoint was begun"))?;
        if unfinished.upto > files.head {
            let not_yet = StoreError::NotYet { upto: unfinished.upto, head: files.head };
            self.unfinished = Some(unfinished);
            return Err(not_yet);
        }
        // Synced under another name and then renamed, so it is there in full or not at all.
        files.checkpoint = Some(unfinished);
        Ok(())
    }

    fn maintain(&mut self) -> Result<bool, StoreError> {
        let mut files = self.disk.files();
        let Some(upto) = files.checkpoint.as_ref().map(|checkpoint| checkpoint.upto) else { return Ok(false) };
        if !files.log.pending.is_empty() || files.flipped.is_some() {
            return Ok(true);
        }
        // A new log without the records that the checkpoint replaced, renamed into place.
        let mut kept = Vec::new();
        for (start, len) in frames(&files.log.durable) {
            let record = &files.log.durable[start..start + len];
            if BatchReader::open(record).is_ok_and(|reader| reader.header().last() > upto) {
                kept.extend_from_slice(&frame(record));
            }
        }
        files.end = kept.len();
        files.log.durable = kept;
        Ok(false)
    }

    fn room(&self) -> Room {
        if self.disk.files().is_low { Room::Low { left_bytes: 1 << 20 } } else { Room::Enough }
    }

    fn sizes(&self) -> Sizes {
        Sizes::default()
    }
}
