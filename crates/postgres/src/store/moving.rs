//! A whole cluster that is moved in or out: its facts made, changed and removed, and streams that begin with a
//! checkpoint.

use leasehold_cluster::record::{encode_linked, encode_meta};
use leasehold_cluster::{CheckpointId, Link, Meta, Reign, SharedError, Sum};
use leasehold_journal::Batch;

use super::{CONTRADICTIONS_MAX, Inner, PATIENCE, contradicted, fenced, number, only, signed, unsigned};
use crate::client::Params;
use crate::sql;

impl Inner {
    pub(super) async fn found(&self, meta: Meta) -> Result<(), SharedError> {
        let server = self.beats.find(PATIENCE).await.map_err(|error| self.error(error))?;
        self.make_tables().await?;
        let facts = encode_meta(&meta);
        let params = Params::new()
            .with(facts.clone())
            .with(number(meta.partitions.number()))
            .with(server.system.clone())
            .with(i64::from(server.timeline));
        self.ask(sql::BIRTH, params).await?;
        if self.facts_now().await?.is_some_and(|there| there == facts) {
            return Ok(());
        }
        Err(SharedError::Refused(format!("there is a cluster in {} already", self.place)))
    }

    /// The facts as they are, sealed.
    async fn facts_now(&self) -> Result<Option<Vec<u8>>, SharedError> {
        let rows = self.ask(sql::FACTS_NOW, Params::new()).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    pub(super) async fn restate(&self, seen: Meta, meta: Meta) -> Result<(), SharedError> {
        let (before, after) = (encode_meta(&seen), encode_meta(&meta));
        for _ in 0..CONTRADICTIONS_MAX {
            let params = Params::new().with(before.clone()).with(after.clone());
            if !self.ask(sql::RESTATE, params).await?.is_empty() {
                return Ok(());
            }
            match self.facts_now().await? {
                // Our own, which was not heard.
                Some(now) if now == after => return Ok(()),
                // The server that said no was another one.
                Some(now) if now == before => {}
                _ => return Err(self.other_facts()),
            }
        }
        contradicted()
    }

    pub(super) async fn clear(&self, seen: Meta) -> Result<(), SharedError> {
        let before = encode_meta(&seen);
        for _ in 0..CONTRADICTIONS_MAX {
            if !self.carry(sql::CLEAR, Params::new().with(before.clone())).await?.is_empty() {
                return Ok(());
            }
            match self.facts_now().await? {
                None => return Ok(()),
                Some(now) if now == before => {}
                Some(_) => return Err(self.other_facts()),
            }
        }
        contradicted()
    }

    fn other_facts(&self) -> SharedError {
        SharedError::Fenced(format!("the facts of the cluster in {} are not as they were seen", self.place))
    }

    pub(super) async fn begin_stream(
        &self,
        reign: Reign,
        of: CheckpointId,
        chunks: u32,
        batch: Batch,
    ) -> Result<(), SharedError> {
        self.check_partition(reign.partition)?;
        let record = encode_linked(Link::default(), &batch.record);
        let (partition, upto, epoch) = (number(reign.partition), signed(of.upto.0), signed(of.epoch.0));
        let params = Params::new()
            .with(partition)
            .with(signed(reign.version))
            .with(upto)
            .with(epoch)
            .with(number(chunks))
            .with(signed(batch.first.0))
            .with(signed(batch.last.0))
            .with(i64::from(Sum::of(&batch.record).0))
            .with(record.clone());
        for _ in 0..CONTRADICTIONS_MAX {
            if !self.carry(sql::BEGIN_STREAM, params.clone()).await?.is_empty() {
                return Ok(());
            }
            let look = Params::new().with(partition).with(upto).with(epoch).with(number(chunks));
            let rows = self.carry(sql::UNFINISHED, look).await?;
            let row = only(&rows);
            if row.get::<_, Option<i64>>(0).map(unsigned) != Some(reign.version) {
                return fenced(&reign);
            }
            if row.get::<_, i64>(1) == signed(batch.last.0) && row.get::<_, Option<i64>>(2) == Some(upto) {
                // Our own, which was not heard: the partition is still ours, so no other node began it.
                return Ok(());
            }
            if row.get::<_, i64>(1) > 0 {
                return Err(SharedError::Refused(format!("partition {partition} has changes already")));
            }
            let there: i64 = row.get(3);
            if there != i64::from(chunks) {
                return Err(SharedError::Refused(format!("{there} of {chunks} chunks are there")));
            }
        }
        contradicted()
    }
}
