//! Checkpoints: chunks, the record that makes them count, and the removal of what they replace.

use leasehold_cluster::{CheckpointId, Cursor, Page, Piece, Reign, SharedError};
use tokio_postgres::Row;

use super::stream::State;
use super::{CONTRADICTIONS_MAX, Inner, contradicted, fenced, number, only, signed, unsigned};
use crate::client::Params;
use crate::sql;

const CHUNK_BYTES_MAX: usize = 16 << 20;
/// Chunks of a page, of 256 KiB each as a rule.
const PAGE_CHUNKS: i64 = 16;
/// Batches that one call of `sweep` removes.
const SWEEP_BATCHES: i64 = 1000;

impl Inner {
    pub(super) async fn put_chunk(
        &self,
        reign: Reign,
        of: CheckpointId,
        chunk_number: u32,
        chunk: Vec<u8>,
    ) -> Result<(), SharedError> {
        self.check_partition(reign.partition)?;
        if chunk.len() > CHUNK_BYTES_MAX {
            return Err(SharedError::Refused(format!(
                "a chunk has {} bytes; at most {CHUNK_BYTES_MAX} are allowed",
                chunk.len()
            )));
        }
        let params = as_owner(&reign).with(signed(of.upto.0)).with(signed(of.epoch.0)).with(number(chunk_number));
        let params = params.with(chunk);
        for _ in 0..CONTRADICTIONS_MAX {
            if !self.carry(sql::PUT_CHUNK, params.clone()).await?.is_empty() {
                return Ok(());
            }
            self.check_ours(&reign).await?;
        }
        contradicted()
    }

    pub(super) async fn finish_checkpoint(
        &self,
        reign: Reign,
        of: CheckpointId,
        chunks: u32,
    ) -> Result<(), SharedError> {
        self.check_partition(reign.partition)?;
        let (upto, epoch) = (signed(of.upto.0), signed(of.epoch.0));
        let params = as_owner(&reign).with(upto).with(epoch).with(number(chunks));
        if !self.carry(sql::FINISH, params).await?.is_empty() {
            return Ok(());
        }
        let params = Params::new().with(number(reign.partition)).with(upto).with(epoch).with(number(chunks));
        let rows = self.carry(sql::UNFINISHED, params).await?;
        let row = only(&rows);
        if row.get::<_, Option<i64>>(0).map(unsigned) != Some(reign.version) {
            return fenced(&reign);
        }
        let there: i64 = row.get(3);
        let head = unsigned(row.get(1));
        if row.get::<_, Option<i64>>(2).is_some_and(|now| now >= upto) {
            return Ok(());
        }
        Err(SharedError::Refused(if there == i64::from(chunks) {
            format!("the checkpoint is of {}, the stream ends at {head}", of.upto)
        } else {
            format!("{there} of {chunks} chunks are there")
        }))
    }

    pub(super) async fn read_chunks(&self, partition: u32, of: CheckpointId, from: u32) -> Result<Page, SharedError> {
        let params = Params::new()
            .with(number(partition))
            .with(signed(of.upto.0))
            .with(signed(of.epoch.0))
            .with(number(from))
            .with(PAGE_CHUNKS);
        let rows = self.carry(sql::CHUNKS, params).await?;
        let State { owner, checkpoint, .. } = self.state(partition, &rows)?;
        let Some((_, chunks)) = checkpoint.filter(|&(id, _)| id == of) else { return Err(SharedError::Gone) };
        let there: Vec<&Row> = rows.iter().filter(|row| row.get::<_, Option<i32>>(9).is_some()).collect();
        self.seal_page(&rows, there.len()).await?;
        let mut next = from;
        let mut pieces = Vec::new();
        for row in there {
            if row.get::<_, i32>(9) != number(next) || next >= chunks {
                break;
            }
            pieces.push(Piece::Chunk { of, number: next, is_last: next + 1 == chunks, record: row.get(10) });
            next += 1;
        }
        if pieces.is_empty() && from < chunks {
            return Err(self.damaged("chunk", format!("chunk {from} of partition {partition} is missing")));
        }
        let next = if next < chunks { Cursor::Chunk(of, next) } else { Cursor::After(of.upto) };
        Ok(Page { owner, pieces, next: Some(next) })
    }

    pub(super) async fn sweep(&self, reign: Reign) -> Result<bool, SharedError> {
        self.check_partition(reign.partition)?;
        for _ in 0..CONTRADICTIONS_MAX {
            let rows = self.carry(sql::SWEEP, as_owner(&reign).with(SWEEP_BATCHES)).await?;
            let row = only(&rows);
            if row.get::<_, i64>(0) > 0 {
                return Ok(row.get(3));
            }
            self.check_ours(&reign).await?;
        }
        contradicted()
    }

    /// The owner record was not that of the reign: so it is fenced, if the look that is sealed says so, too.
    async fn check_ours(&self, reign: &Reign) -> Result<(), SharedError> {
        if self.owner_now(&self.bulk, reign.partition).await?.version == reign.version { Ok(()) } else { fenced(reign) }
    }
}

/// The partition and the version that an owner's statement compares.
fn as_owner(reign: &Reign) -> Params {
    Params::new().with(number(reign.partition)).with(signed(reign.version))
}
