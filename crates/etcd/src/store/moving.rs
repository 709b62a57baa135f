//! A whole cluster that is moved in or out: its facts made, changed and removed, and streams that begin with a
//! checkpoint.

use leasehold_cluster::record::{decode_meta, encode_linked, encode_meta};
use leasehold_cluster::{CheckpointId, Link, Meta, Reign, SharedError, Sum};
use leasehold_journal::{Batch, Position};

use super::{Inner, checkpoint, fenced};
use crate::txn::{Txn, count, delete_all, get, is_absent, is_empty, put, value_is, version_is};

impl Inner {
    pub(super) async fn found(&self, meta: Meta) -> Result<(), SharedError> {
        self.check_members().await?;
        let make = Txn::default()
            .when(is_empty(self.keys.all()))
            .then(put(self.keys.meta(), encode_meta(&meta)))
            .then(put(self.keys.etcd(), format!("{:016x}", self.main.cluster_id())))
            .or_else(get(self.keys.meta()))
            .or_else(count(self.keys.all()));
        let mut outcome = self.transact(&self.main, &make).await?;
        if outcome.succeeded {
            return Ok(());
        }
        let (there, below) = (outcome.key(), outcome.range().count);
        match there {
            Some(kv) if decode_meta(&kv.value).is_ok_and(|there| there == meta) => Ok(()),
            Some(_) => Err(SharedError::Refused(format!("there is a cluster below {} already", self.place))),
            None => Err(SharedError::Refused(format!("there are {below} keys below {} already", self.place))),
        }
    }

    pub(super) async fn restate(&self, seen: Meta, meta: Meta) -> Result<(), SharedError> {
        let (key, record) = (self.keys.meta(), encode_meta(&meta));
        let txn = Txn::default()
            .when(value_is(key.clone(), encode_meta(&seen)))
            .then(put(key.clone(), record.clone()))
            .or_else(get(key));
        let mut outcome = self.transact(&self.main, &txn).await?;
        // Otherwise our own, which was not heard.
        if outcome.succeeded || outcome.key().is_some_and(|kv| kv.value == record) {
            return Ok(());
        }
        Err(self.other_facts())
    }

    pub(super) async fn clear(&self, seen: Meta) -> Result<(), SharedError> {
        let txn = Txn::default()
            .when(value_is(self.keys.meta(), encode_meta(&seen)))
            .then(delete_all(self.keys.all()))
            .or_else(count(self.keys.all()));
        let mut outcome = self.transact_bulk(&txn).await?;
        if outcome.succeeded || outcome.range().count == 0 { Ok(()) } else { Err(self.other_facts()) }
    }

    fn other_facts(&self) -> SharedError {
        SharedError::Fenced(format!("the facts of the cluster below {} are not as they were seen", self.place))
    }

    pub(super) async fn begin_stream(
        &self,
        reign: Reign,
        of: CheckpointId,
        chunks: u32,
        batch: Batch,
    ) -> Result<(), SharedError> {
        let partition = reign.partition;
        self.check_partition(partition)?;
        let look = Txn::default().then(count(self.keys.chunks_from(partition, of, 0)));
        let there = self.transact_bulk(&look).await?.range().count;
        if there != i64::from(chunks) {
            return Err(SharedError::Refused(format!("{there} of {chunks} chunks are there")));
        }
        let key = self.keys.batch(partition, batch.last, Sum::of(&batch.record));
        let value = encode_linked(Link::default(), &batch.record);
        let txn = Txn::default()
            .when(version_is(self.keys.owner(partition), reign.version))
            .when(is_absent(self.keys.checkpoint(partition)))
            .when(is_empty(self.keys.batches_from(partition, Position::START)))
            .then(put(key.clone(), value.clone()))
            .then(put(self.keys.checkpoint(partition), checkpoint::encode(of, chunks)))
            .or_else(get(self.keys.owner(partition)))
            .or_else(get(key));
        let mut outcome = self.transact_bulk(&txn).await?;
        if outcome.succeeded {
            return Ok(());
        }
        let (owner, there) = (outcome.key(), outcome.key());
        if self.owner(owner.as_ref())?.version != reign.version {
            return fenced(&reign);
        }
        if there.is_some_and(|kv| kv.value == value) {
            return Ok(());
        }
        Err(SharedError::Refused(format!("partition {partition} has changes already")))
    }
}
