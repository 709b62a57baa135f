//! Lives of nodes, and who owns what.

use std::sync::atomic::Ordering;

use leasehold_cluster::Taking;
use leasehold_cluster::record::{decode_meta, decode_node, decode_owner, encode_meta, encode_node, encode_owner};
use leasehold_cluster::{Birth, Map, Meta, NodeId, NodeRecord, Owner, Partitions, Reign, Seen, SharedError, Stage};
use leasehold_engine::Time;

use super::{Inner, Joined, fenced, lock};
use crate::error::{CallError, EtcdRefusal};
use crate::txn::{
    Outcome, Txn, count, delete, exists, get, get_all, is_absent, put, unchanged_since, unsigned, version_is,
};
use crate::wire::KeyValue;

impl Inner {
    pub(super) async fn join(&self, me: NodeRecord, birth: Birth) -> Result<Map, SharedError> {
        self.check_members().await?;
        let (meta, facts_version) = self.facts(&birth).await?;
        birth.check(&meta, &self.place)?;
        let (key, record) = (self.keys.node(me.node), encode_node(&me));
        // Together with the facts: a prefix that was emptied meanwhile gets no lone node, and a cluster whose format
        // was raised none that does not understand it.
        let txn = Txn::default()
            .when(version_is(self.keys.meta(), facts_version))
            .when(is_absent(key.clone()))
            .then(put(key.clone(), record.clone()))
            .or_else(get(key));
        let mut outcome = self.transact(&self.beats, &txn).await?;
        let (created, version) = if outcome.succeeded {
            (outcome.revision, outcome.revision)
        } else {
            match outcome.key() {
                // Our own join, which was not heard.
                Some(kv) if kv.value == record => (unsigned(kv.create_revision), unsigned(kv.mod_revision)),
                Some(_) => return Err(SharedError::Refused(format!("there has been a {:?} before", me.node))),
                None => {
                    return Err(SharedError::Away(
                        "the facts of the cluster have just changed, or are gone".to_owned(),
                    ));
                }
            }
        };
        let map = self.map().await?;
        *lock(&self.joined) = Some(Joined { node: me.node, created, version, beat: me.beat });
        Ok(map)
    }

    /// Each member that answers has to be fit before a node begins to rely on them.
    pub(super) async fn check_members(&self) -> Result<(), SharedError> {
        for (_, status) in self.main.statuses().await {
            if let Err(CallError::Refused(refusal @ EtcdRefusal::Unfit(_))) = status {
                return Err(self.error(refusal.into()));
            }
        }
        Ok(())
    }

    /// The facts of the cluster and their version, made if there are none.
    async fn facts(&self, birth: &Birth) -> Result<(Meta, u64), SharedError> {
        let look = Txn::default().then(get(self.keys.meta())).then(get(self.keys.etcd())).then(count(self.keys.all()));
        loop {
            let mut outcome = self.transact(&self.beats, &look).await?;
            let (meta, etcd, below) = (outcome.key(), outcome.key(), outcome.range().count);
            if let Some(meta) = meta {
                self.check_etcd(etcd.as_ref())?;
                let version = unsigned(meta.mod_revision);
                return decode_meta(&meta.value).map(|facts| (facts, version)).map_err(|error| {
                    SharedError::Refused(format!(
                        "the key {} of {} is not the facts of a cluster that this build understands: {error}",
                        String::from_utf8_lossy(&meta.key),
                        self.place
                    ))
                });
            }
            if below > 0 {
                return Err(SharedError::Refused(format!(
                    "there are {below} keys below {} and none of them is the facts of a cluster: choose another prefix",
                    self.place
                )));
            }
            let partitions = birth.partitions.unwrap_or(Partitions::DEFAULT);
            let meta = Meta { partitions, format: birth.format, secret: birth.secret, stage: Stage::Serving };
            let make = Txn::default()
                .when(is_absent(self.keys.meta()))
                .then(put(self.keys.meta(), encode_meta(&meta)))
                .then(put(self.keys.etcd(), format!("{:016x}", self.main.cluster_id())));
            // Ours or another node's: the next look tells.
            self.transact(&self.beats, &make).await?;
        }
    }

    pub(super) async fn raise_format(&self, format: u16) -> Result<(), SharedError> {
        let key = self.keys.meta();
        let look = Txn::default().then(get(key.clone()));
        loop {
            let Some(kv) = self.transact(&self.beats, &look).await?.key() else {
                return Err(SharedError::Refused(format!("there is no cluster below {}", self.place)));
            };
            let meta = decode_meta(&kv.value).map_err(|error| self.damaged(&kv.key, error))?;
            if meta.format >= format {
                return Ok(());
            }
            let raise = Txn::default()
                .when(version_is(key.clone(), unsigned(kv.mod_revision)))
                .then(put(key.clone(), encode_meta(&Meta { format, ..meta })));
            // By us or by another node: the next look tells.
            self.transact(&self.beats, &raise).await?;
        }
    }

    /// Keys that were copied into another etcd have epochs and tokens that the first one goes on counting, too.
    fn check_etcd(&self, etcd: Option<&KeyValue>) -> Result<(), SharedError> {
        let id = format!("{:016x}", self.main.cluster_id());
        match etcd {
            Some(kv) if kv.value != id.as_bytes() => Err(SharedError::Refused(format!(
                "the keys below {} were made in another etcd cluster (id {}, this one has {id}): this is a copy, or \
                 the address leads elsewhere than it did",
                self.place,
                String::from_utf8_lossy(&kv.value),
            ))),
            _ => Ok(()),
        }
    }

    pub(super) async fn beat(&self, me: NodeRecord) -> Result<(), SharedError> {
        let _one_at_a_time = self.beating.lock().await;
        let key = self.keys.node(me.node);
        let record = encode_node(&NodeRecord { is_buried: false, ..me.clone() });
        loop {
            let joined = self.joined()?;
            if me.beat < joined.beat {
                // Overtaken by a later one: older marks are not put back.
                return self.confirm().await;
            }
            let txn = Txn::default()
                .when(version_is(key.clone(), joined.version))
                .then(put(key.clone(), record.clone()))
                .or_else(get(key.clone()));
            let mut outcome = self.transact(&self.beats, &txn).await?;
            let (version, beat) = if outcome.succeeded {
                (outcome.revision, me.beat)
            } else {
                let (kv, now) = self.living(joined, outcome.key())?;
                (unsigned(kv.mod_revision), now.beat)
            };
            self.heard(joined, version, beat);
            // Otherwise it was an earlier beat of ours, which was not heard.
            if beat >= me.beat {
                return Ok(());
            }
        }
    }

    fn heard(&self, joined: Joined, version: u64, beat: u64) {
        let mut now = lock(&self.joined);
        if let Some(now) = now.as_mut().filter(|now| now.node == joined.node && now.created == joined.created) {
            (now.version, now.beat) = (version, beat);
        }
    }

    pub(super) async fn confirm(&self) -> Result<(), SharedError> {
        let joined = self.joined()?;
        let mut outcome = self.transact(&self.beats, &Txn::default().then(get(self.keys.node(joined.node)))).await?;
        self.living(joined, outcome.key()).map(|_| ())
    }

    /// The record of our life, unless it is over.
    fn living(&self, joined: Joined, kv: Option<KeyValue>) -> Result<(KeyValue, NodeRecord), SharedError> {
        let Joined { node, created, .. } = joined;
        let Some(kv) = kv else { return Err(SharedError::Fenced(format!("{node:?} is gone"))) };
        let record = decode_node(&kv.value).map_err(|error| self.damaged(&kv.key, error))?;
        if record.is_buried {
            return Err(SharedError::Fenced(format!("{node:?} is buried")));
        }
        if unsigned(kv.create_revision) != created {
            return Err(SharedError::Fenced(format!("{node:?} is there by another join")));
        }
        Ok((kv, record))
    }

    pub(super) async fn map(&self) -> Result<Map, SharedError> {
        let txn = Txn::default()
            .then(get(self.keys.meta()))
            .then(get_all(self.keys.nodes()))
            .then(get_all(self.keys.drains()))
            .then(get_all(self.keys.owners()));
        let mut outcome = self.transact(&self.beats, &txn).await?;
        let Some(meta) = outcome.key() else {
            return Err(SharedError::Refused(format!("there is no cluster below {}", self.place)));
        };
        let meta = decode_meta(&meta.value).map_err(|error| self.damaged(&meta.key, error))?;
        self.partitions.store(meta.partitions.number(), Ordering::Relaxed);
        let mut nodes = Vec::new();
        for kv in outcome.range().kvs {
            let value = decode_node(&kv.value).map_err(|error| self.damaged(&kv.key, error))?;
            nodes.push(Seen { value, version: unsigned(kv.mod_revision) });
        }
        let drained = outcome.range().kvs.iter().filter_map(|kv| self.keys.drained(&kv.key)).collect();
        let mut owners = vec![Seen::default(); meta.partitions.number() as usize];
        for kv in outcome.range().kvs {
            let partition = self.keys.owned(&kv.key).and_then(|partition| owners.get_mut(partition as usize));
            let Some(owner) = partition else { return Err(self.damaged(&kv.key, "there is no such partition")) };
            *owner = self.owner(Some(&kv))?;
        }
        Ok(Map { revision: outcome.revision, meta, nodes, owners, drained })
    }

    pub(super) fn owner(&self, kv: Option<&KeyValue>) -> Result<Seen<Owner>, SharedError> {
        let Some(kv) = kv else { return Ok(Seen::default()) };
        let value = decode_owner(&kv.value).map_err(|error| self.damaged(&kv.key, error))?;
        Ok(Seen { value, version: unsigned(kv.mod_revision) })
    }

    pub(super) async fn bury(&self, seen: Seen<NodeRecord>) -> Result<(), SharedError> {
        let node = seen.value.node;
        // A burial is final, and a missing record counts as buried.
        if seen.value.is_buried || seen.version == 0 {
            return Ok(());
        }
        let key = self.keys.node(node);
        let txn = Txn::default()
            .when(version_is(key.clone(), seen.version))
            .then(put(key.clone(), encode_node(&NodeRecord { is_buried: true, ..seen.value })))
            .or_else(get(key));
        let mut outcome = self.transact(&self.beats, &txn).await?;
        if outcome.succeeded {
            return Ok(());
        }
        let Some(kv) = outcome.key() else { return Ok(()) };
        match decode_node(&kv.value) {
            Ok(now) if now.is_buried => Ok(()),
            Ok(_) => Err(SharedError::Fenced(format!("{node:?} has beaten since it was seen"))),
            Err(error) => Err(self.damaged(&kv.key, error)),
        }
    }

    pub(super) async fn forget(&self, seen: Seen<NodeRecord>) -> Result<(), SharedError> {
        let node = seen.value.node;
        loop {
            let map = self.map().await?;
            let Some(now) = map.node(node) else { return Ok(()) };
            if now.version != seen.version || !now.value.is_buried {
                return Err(SharedError::Fenced(format!("{node:?} is not as it was seen, or not buried")));
            }
            if map.owners.iter().any(|owner| owner.value.node == Some(node)) {
                return Err(SharedError::Fenced(format!("a partition names {node:?}")));
            }
            let txn = Txn::default()
                .when(version_is(self.keys.node(node), seen.version))
                .when(unchanged_since(self.keys.owners(), map.revision))
                .then(delete(self.keys.node(node)))
                .then(delete(self.keys.drain(node)));
            if self.transact(&self.beats, &txn).await?.succeeded {
                return Ok(());
            }
        }
    }

    pub(super) async fn drain(&self, node: NodeId, is_draining: bool) -> Result<(), SharedError> {
        let key = self.keys.drain(node);
        let op = if is_draining { put(key, Vec::new()) } else { delete(key) };
        let txn = Txn::default().when(exists(self.keys.node(node))).then(op);
        if self.transact(&self.beats, &txn).await?.succeeded {
            return Ok(());
        }
        Err(SharedError::Refused(format!("there is no {node:?}")))
    }

    pub(super) async fn keyring(&self) -> Result<Option<Vec<u8>>, SharedError> {
        Ok(self.kept_keyring().await?.map(|kv| kv.value.to_vec()))
    }

    async fn kept_keyring(&self) -> Result<Option<KeyValue>, SharedError> {
        let look = Txn::default().then(get(self.keys.keyring()));
        Ok(self.transact(&self.beats, &look).await?.key())
    }

    pub(super) async fn replace_keyring(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> Result<bool, SharedError> {
        loop {
            let kept = self.kept_keyring().await?;
            let (record, version) = match &kept {
                Some(kv) => (Some(&*kv.value), unsigned(kv.mod_revision)),
                None => (None, 0),
            };
            // Our own replacement, which was not heard, or another's.
            if record == Some(&*after) || record != before.as_deref() {
                return Ok(record == Some(&*after));
            }
            let key = self.keys.keyring();
            let txn = Txn::default()
                .when(exists(self.keys.meta()))
                .when(version_is(key.clone(), version))
                .then(put(key, after.clone()));
            if self.transact(&self.beats, &txn).await?.succeeded {
                return Ok(true);
            }
        }
    }

    pub(super) async fn take(&self, taking: Taking) -> Result<Reign, SharedError> {
        taking.check()?;
        let Taking { partition, seen, dead, node, epoch, at } = taking;
        self.check_partition(partition)?;
        let taken = Owner { epoch, node: Some(node), at };
        let key = self.keys.owner(partition);
        let mut txn = Txn::default().when(version_is(key.clone(), seen.version));
        if let Some(owner) = seen.value.node {
            // Nothing is taken from a node that was seen alive: this compare cannot succeed, and its failure shows
            // whether an earlier attempt of ours took the partition.
            let buried = dead.as_ref().filter(|dead| dead.value.is_buried && dead.value.node == owner);
            let version = match (&dead, buried) {
                (_, Some(buried)) => buried.version,
                (None, None) => 0,
                (Some(_), None) => u64::MAX,
            };
            txn = txn.when(version_is(self.keys.node(owner), version));
        }
        let txn = txn.then(put(key.clone(), encode_owner(&taken))).or_else(get(key));
        let mut outcome = self.transact(&self.main, &txn).await?;
        if outcome.succeeded {
            return Ok(Reign { partition, owner: taken, version: outcome.revision });
        }
        let now = self.taken(&mut outcome)?;
        if now.value == taken {
            // Our own taking, which was not heard.
            return Ok(Reign { partition, owner: taken, version: now.version });
        }
        Err(SharedError::Fenced(if now == seen {
            format!("partition {partition} belongs to a node that is not seen to be buried")
        } else {
            format!("partition {partition} has another owner than was seen")
        }))
    }

    fn taken(&self, outcome: &mut Outcome) -> Result<Seen<Owner>, SharedError> {
        let kv = outcome.key();
        self.owner(kv.as_ref())
    }

    pub(super) async fn let_go(&self, reign: Reign, at: Time) -> Result<(), SharedError> {
        let free = Owner { epoch: reign.epoch().next(), node: None, at: at.max(reign.owner.at) };
        let key = self.keys.owner(reign.partition);
        let txn = Txn::default()
            .when(version_is(key.clone(), reign.version))
            .then(put(key.clone(), encode_owner(&free)))
            .or_else(get(key));
        let mut outcome = self.transact(&self.main, &txn).await?;
        if outcome.succeeded || self.taken(&mut outcome)?.value == free {
            return Ok(());
        }
        fenced(&reign)
    }
}
