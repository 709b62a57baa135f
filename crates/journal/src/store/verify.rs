//! Checks a stream as it is read, the same for every store: checksums, the right partition, chunks complete and in
//! order, positions without a gap, epochs that only rise. Damage in the middle is found here and named by position.

use leasehold_engine::Time;

use super::error::StoreError;
use crate::ids::{Epoch, Position};
use crate::record::{BatchHeader, BatchReader, ChunkHeader, ChunkReader, RecordError};

/// Feed it the whole checkpoint, if there is one, then the tail, then ask it to `finish`.
#[derive(Debug)]
pub struct Verifier {
    /// Where the stream is kept, for messages.
    place: String,
    partition: u32,
    checkpoint: Option<Checkpoint>,
    /// Everything up to here has been seen.
    head: Position,
    /// `true` once a batch has been seen.
    in_tail: bool,
    epoch: Epoch,
    at: Time,
}

#[derive(Debug)]
struct Checkpoint {
    chunks: u32,
    chunks_seen: u32,
}

impl Verifier {
    /// A verifier of one partition's stream.
    pub fn new(place: impl Into<String>, partition: u32) -> Self {
        Verifier {
            place: place.into(),
            partition,
            checkpoint: None,
            head: Position::START,
            in_tail: false,
            epoch: Epoch::default(),
            at: Time::default(),
        }
    }

    /// A checkpoint of this many chunks comes first.
    pub fn expect_checkpoint(&mut self, upto: Position, chunks: u32) {
        assert!(self.checkpoint.is_none() && !self.in_tail, "a checkpoint is announced once, before the tail");
        self.checkpoint = Some(Checkpoint { chunks, chunks_seen: 0 });
        self.head = upto;
    }

    /// Checks the next chunk of the checkpoint.
    pub fn chunk(&mut self, record: &[u8]) -> Result<ChunkHeader, StoreError> {
        let seen = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.chunks_seen);
        let header = match ChunkReader::open(record) {
            Ok(chunk) => chunk.header(),
            Err(error) => return Err(self.bad_chunk(seen, error.to_string())),
        };
        self.check_partition(header.partition).map_err(|what| self.bad_chunk(seen, what))?;
        if header.upto != self.head {
            return Err(self.bad_chunk(seen, format!("it is part of a checkpoint of position {}", header.upto)));
        }
        if header.number != seen {
            return Err(self.bad_chunk(seen, format!("chunk {} is in its place", header.number)));
        }
        match &mut self.checkpoint {
            Some(checkpoint) if seen < checkpoint.chunks => checkpoint.chunks_seen += 1,
            _ => return Err(self.bad_chunk(seen, "the checkpoint has no such chunk".to_owned())),
        }
        Ok(header)
    }

    /// Checks the next batch of the tail.
    pub fn batch(&mut self, record: &[u8]) -> Result<BatchHeader, StoreError> {
        self.check_checkpoint()?;
        let header =
            BatchReader::open(record).map_err(|error: RecordError| self.bad_batch(error.to_string()))?.header();
        self.check_partition(header.partition).map_err(|what| self.bad_batch(what))?;
        let goes_on = if self.in_tail || self.checkpoint.is_none() {
            header.first == self.head.next()
        } else {
            // A checkpoint may be of a position within a batch; then that batch is the first of the tail.
            header.first <= self.head.next() && header.last() > self.head
        };
        if !goes_on {
            let what = format!("the batch there holds positions {} to {}", header.first, header.last());
            return Err(self.bad_batch(what));
        }
        if header.epoch < self.epoch {
            let what = format!("it is of epoch {}, after a batch of epoch {}", header.epoch, self.epoch);
            return Err(self.bad_batch(what));
        }
        if header.start.at < self.at {
            return Err(self.bad_batch("service time runs backwards".to_owned()));
        }
        self.in_tail = true;
        self.head = header.last();
        self.epoch = header.epoch;
        self.at = header.start.at;
        Ok(header)
    }

    /// The stream ends here; `epoch` is the epoch that its store has reached. Returns the head.
    pub fn finish(self, epoch: Epoch) -> Result<Position, StoreError> {
        self.check_checkpoint()?;
        if epoch < self.epoch {
            let what = format!("it says it is in epoch {epoch}, but has a batch of epoch {}", self.epoch);
            return Err(StoreError::damaged(self.place, what));
        }
        Ok(self.head)
    }

    fn check_checkpoint(&self) -> Result<(), StoreError> {
        match &self.checkpoint {
            Some(Checkpoint { chunks, chunks_seen }) if chunks != chunks_seen => {
                Err(self.bad_chunk(*chunks_seen, format!("it is missing; the checkpoint had {chunks} chunks")))
            }
            _ => Ok(()),
        }
    }

    fn check_partition(&self, found: u32) -> Result<(), String> {
        if found == self.partition {
            Ok(())
        } else {
            Err(format!("it is of partition {found}, not {}", self.partition))
        }
    }

    fn bad_chunk(&self, number: u32, what: String) -> StoreError {
        StoreError::damaged(format!("{}, chunk {number} of the checkpoint", self.place), what)
    }

    fn bad_batch(&self, what: String) -> StoreError {
        StoreError::damaged(format!("{}, journal position {}", self.place, self.head.next()), what)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_engine::{Change, Moment};

    use super::*;
    use crate::record::{BatchWriter, ChunkWriter};

    fn batch(partition: u32, epoch: u64, first: u64, len: usize) -> Vec<u8> {
        let mut writer = BatchWriter::new(partition, Epoch(epoch), Position(first));
        for _ in 0..len {
            writer.push(Moment::default(), &Change::Marked);
        }
        writer.seal().record
    }

    /// The verifier's result for a stream of these batches after an optional checkpoint of empty chunks.
    fn check(checkpoint: Option<(u64, &[Vec<u8>])>, tail: &[Vec<u8>]) -> Result<Position, String> {
        let mut verifier = Verifier::new("here", 7);
        let mut run = || {
            if let Some((upto, chunks)) = checkpoint {
                verifier.expect_checkpoint(Position(upto), 2);
                for chunk in chunks {
                    verifier.chunk(chunk)?;
                }
            }
            for record in tail {
                verifier.batch(record)?;
            }
            Ok(())
        };
        run().and_then(|()| verifier.finish(Epoch(9))).map_err(|error: StoreError| error.to_string())
    }

    fn chunks(partition: u32, upto: u64) -> Vec<Vec<u8>> {
        let mut writer = ChunkWriter::new(partition, Position(upto), Moment::default());
        vec![writer.seal(), writer.seal()]
    }

    fn refused(result: Result<Position, String>, said: &str) {
        let message = result.expect_err("should have been refused");
        assert!(message.contains(said), "{message}");
        assert!(message.contains("restore the data from a backup"), "{message}");
    }

    #[test]
    fn a_sound_stream_gives_its_head() {
        assert_eq!(check(None, &[]), Ok(Position(0)));
        assert_eq!(check(None, &[batch(7, 1, 1, 3), batch(7, 1, 4, 1), batch(7, 3, 5, 2)]), Ok(Position(6)));
        assert_eq!(check(Some((4, &chunks(7, 4))), &[]), Ok(Position(4)));
        assert_eq!(check(Some((4, &chunks(7, 4))), &[batch(7, 1, 5, 2)]), Ok(Position(6)));
        assert_eq!(check(Some((4, &chunks(7, 4))), &[batch(7, 1, 3, 4)]), Ok(Position(6)), "within a batch");
    }

    #[test]
    fn a_gap_is_named_by_position() {
        refused(check(None, &[batch(7, 1, 2, 1)]), "here, journal position 1 is damaged");
        refused(check(None, &[batch(7, 1, 1, 3), batch(7, 1, 5, 1)]), "here, journal position 4 is damaged");
        refused(check(None, &[batch(7, 1, 1, 3), batch(7, 1, 3, 1)]), "holds positions 3 to 3");
        refused(check(Some((4, &chunks(7, 4))), &[batch(7, 1, 6, 1)]), "journal position 5");
        refused(check(Some((4, &chunks(7, 4))), &[batch(7, 1, 3, 2)]), "journal position 5");
    }

    #[test]
    fn chunks_must_be_complete_and_in_order() {
        let sound = chunks(7, 4);
        refused(check(Some((4, &sound[..1])), &[]), "chunk 1 of the checkpoint is damaged: it is missing");
        refused(check(Some((4, &sound[1..])), &[]), "chunk 1 is in its place");
        refused(check(Some((4, &[sound.clone(), sound.clone()].concat())), &[]), "chunk 0 is in its place");
        refused(check(Some((4, &chunks(7, 5))), &[]), "a checkpoint of position 5");
        refused(check(Some((4, &chunks(8, 4))), &[]), "partition 8, not 7");
    }

    #[test]
    fn strangers_are_refused() {
        refused(check(None, &[batch(8, 1, 1, 1)]), "partition 8, not 7");
        refused(check(None, &[batch(7, 2, 1, 1), batch(7, 1, 2, 1)]), "epoch 1, after a batch of epoch 2");
        refused(check(None, &[batch(7, 10, 1, 1)]), "in epoch 9, but has a batch of epoch 10");
        refused(check(None, &[chunks(7, 4).remove(0)]), "magic at byte 0");
    }
}
