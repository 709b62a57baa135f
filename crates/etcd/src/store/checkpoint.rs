//! Checkpoints: chunks, the record that makes them count, and the removal of what they replace.

use leasehold_cluster::{CheckpointId, Page, Piece, Reign, SharedError};
use leasehold_journal::{Epoch, Position};

use super::stream::version_of;
use super::{Inner, fenced};
use crate::txn::{Txn, count, delete_all, get, get_some, keys_of, put, version_is};
use crate::wire::KeyValue;

/// etcd takes requests up to 1.5 MiB; chunks are much smaller.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Chunks of a page, of 256 KiB each as a rule.
const PAGE_CHUNKS: i64 = 16;
/// Batches that one call of `sweep` removes.
const SWEEP_BATCHES: i64 = 1000;
/// `version:u8 epoch:u64 upto:u64 chunks:u32 crc32:u32`, little endian.
const RECORD_BYTES: usize = 1 + 8 + 8 + 4 + 4;
const RECORD_VERSION: u8 = 1;

impl Inner {
    pub(super) async fn put_chunk(
        &self,
        reign: Reign,
        of: CheckpointId,
        number: u32,
        chunk: Vec<u8>,
    ) -> Result<(), SharedError> {
        self.check_partition(reign.partition)?;
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(SharedError::Refused(format!(
                "a chunk has {} bytes; at most {CHUNK_BYTES_MAX} fit into a request",
                chunk.len()
            )));
        }
        self.as_owner(&reign, Txn::default().then(put(self.keys.chunk(reign.partition, of, number), chunk))).await
    }

    pub(super) async fn finish_checkpoint(
        &self,
        reign: Reign,
        of: CheckpointId,
        chunks: u32,
    ) -> Result<(), SharedError> {
        let partition = reign.partition;
        self.check_partition(partition)?;
        let key = self.keys.checkpoint(partition);
        let look = Txn::default()
            .then(get(self.keys.owner(partition)))
            .then(get(key.clone()))
            .then(count(self.keys.chunks_from(partition, of, 0)))
            .then(keys_of(self.keys.batches_from(partition, of.upto), 1));
        loop {
            let mut outcome = self.transact_bulk(&look).await?;
            let (owner, now, there, ahead) = (outcome.key(), outcome.key(), outcome.range().count, outcome.key());
            if version_of(owner.as_ref()) != reign.version {
                return fenced(&reign);
            }
            if let Some(now) = &now
                && self.checkpoint_of(now)?.0.upto >= of.upto
            {
                return Ok(());
            }
            if there != i64::from(chunks) {
                return Err(SharedError::Refused(format!("{there} of {chunks} chunks are there")));
            }
            if ahead.is_none() {
                let upto = of.upto;
                return Err(SharedError::Refused(format!(
                    "the checkpoint is of {upto}, and the stream ends before it"
                )));
            }
            // Batches and chunks are removed by the owner alone, which is us as long as the compare holds.
            let txn = Txn::default()
                .when(version_is(self.keys.owner(partition), reign.version))
                .when(version_is(key.clone(), version_of(now.as_ref())))
                .then(put(key.clone(), encode(of, chunks)));
            if self.transact_bulk(&txn).await?.succeeded {
                return Ok(());
            }
        }
    }

    pub(super) async fn read_chunks(&self, partition: u32, of: CheckpointId, number: u32) -> Result<Page, SharedError> {
        let txn = Txn::default()
            .then(get(self.keys.owner(partition)))
            .then(get(self.keys.checkpoint(partition)))
            .then(get_some(self.keys.chunks_from(partition, of, number), PAGE_CHUNKS));
        let mut outcome = self.transact_bulk(&txn).await?;
        let (owner, checkpoint, there) = (outcome.key(), outcome.key(), outcome.range().kvs);
        let owner = self.owner(owner.as_ref())?;
        let now = checkpoint.map(|kv| self.checkpoint_of(&kv)).transpose()?;
        let Some((_, chunks)) = now.filter(|&(id, _)| id == of) else { return Err(SharedError::Gone) };
        let mut pieces = Vec::new();
        let mut next = number;
        for kv in there {
            if kv.key != self.keys.chunk(partition, of, next) || next >= chunks {
                break;
            }
            pieces.push(Piece::Chunk { of, number: next, is_last: next + 1 == chunks, record: kv.value.to_vec() });
            next += 1;
        }
        if pieces.is_empty() && number < chunks {
            return Err(self.damaged(&self.keys.chunk(partition, of, number), "the chunk is missing"));
        }
        let next = if next < chunks {
            leasehold_cluster::Cursor::Chunk(of, next)
        } else {
            leasehold_cluster::Cursor::After(of.upto)
        };
        Ok(Page { owner, pieces, next: Some(next) })
    }

    pub(super) async fn sweep(&self, reign: Reign) -> Result<bool, SharedError> {
        let partition = reign.partition;
        self.check_partition(partition)?;
        let look = Txn::default().then(get(self.keys.owner(partition))).then(get(self.keys.checkpoint(partition)));
        let mut outcome = self.transact_bulk(&look).await?;
        let (owner, checkpoint) = (outcome.key(), outcome.key());
        if version_of(owner.as_ref()) != reign.version {
            return fenced(&reign);
        }
        let Some(checkpoint) = checkpoint else { return Ok(false) };
        let (of, _) = self.checkpoint_of(&checkpoint)?;
        // From the oldest on, and one more than is removed: the last one of these stays, and so does the newest of all.
        let look = Txn::default()
            .then(keys_of(self.keys.batches_upto(partition, of.upto), SWEEP_BATCHES + 1))
            .then(keys_of(self.keys.batches_from(partition, of.upto.next()), 1))
            .then(count(self.keys.chunks_before(partition, of)));
        let mut outcome = self.transact_bulk(&look).await?;
        let (covered, beyond, chunks) = (outcome.range(), outcome.key(), outcome.range().count);
        let keeps_one = covered.more || beyond.is_none();
        let removed = covered.kvs.len().saturating_sub(usize::from(keeps_one));
        if removed == 0 && chunks == 0 {
            return Ok(false);
        }
        let mut txn = Txn::default().then(delete_all(self.keys.chunks_before(partition, of)));
        if let Some(last) = removed.checked_sub(1).and_then(|at| covered.kvs.get(at)) {
            let upto = self.keys.last_of(partition, &last.key);
            let upto = upto.ok_or_else(|| self.damaged(&last.key, "there is no position in it"))?;
            txn = txn
                .then(delete_all(self.keys.batches_upto(partition, upto)))
                .then(delete_all(self.keys.parts_upto(partition, upto)));
        }
        self.as_owner(&reign, txn).await?;
        Ok(covered.more)
    }

    /// Reads the record of a checkpoint.
    pub(super) fn checkpoint_of(&self, kv: &KeyValue) -> Result<(CheckpointId, u32), SharedError> {
        decode(&kv.value).ok_or_else(|| self.damaged(&kv.key, "it is not the record of a checkpoint"))
    }
}

pub(super) fn encode(CheckpointId { epoch, upto }: CheckpointId, chunks: u32) -> Vec<u8> {
    let mut out = vec![RECORD_VERSION];
    out.extend_from_slice(&epoch.0.to_le_bytes());
    out.extend_from_slice(&upto.0.to_le_bytes());
    out.extend_from_slice(&chunks.to_le_bytes());
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

fn decode(record: &[u8]) -> Option<(CheckpointId, u32)> {
    let record: &[u8; RECORD_BYTES] = record.try_into().ok()?;
    let (before, crc) = record.split_last_chunk::<4>()?;
    if crc32fast::hash(before) != u32::from_le_bytes(*crc) || before[0] != RECORD_VERSION {
        return None;
    }
    let (epoch, rest) = before[1..].split_first_chunk::<8>()?;
    let (upto, rest) = rest.split_first_chunk::<8>()?;
    let (chunks, _) = rest.split_first_chunk::<4>()?;
    let id = CheckpointId { epoch: Epoch(u64::from_le_bytes(*epoch)), upto: Position(u64::from_le_bytes(*upto)) };
    Some((id, u32::from_le_bytes(*chunks)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_a_checkpoint_stays_as_it_is_and_damage_is_noticed() {
        let id = CheckpointId { epoch: Epoch(3), upto: Position(0x0102) };
        let record = encode(id, 7);
        assert_eq!(record[..21], [1, 3, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(decode(&record), Some((id, 7)));
        for at in 0..record.len() {
            assert_eq!(decode(&record[..at]), None);
            for bit in 0..8 {
                let mut spoilt = record.clone();
                spoilt[at] ^= 1 << bit;
                assert_eq!(decode(&spoilt), None, "bit {bit} of byte {at}");
            }
        }
    }
}
