//! The tables, lives of nodes, and who owns what.

use std::sync::atomic::Ordering;

use leasehold_cluster::Taking;
use leasehold_cluster::record::{decode_meta, decode_node, encode_meta, encode_node};
use leasehold_cluster::{Birth, Map, Meta, NodeId, NodeRecord, Owner, Partitions, Reign, Seen, SharedError, Stage};
use leasehold_engine::Time;
use leasehold_journal::Epoch;
use tokio_postgres::Row;
use uuid::Uuid;

use super::{
    CONTRADICTIONS_MAX, Inner, Joined, PATIENCE, contradicted, fenced, id, lock, number, only, signed, unsigned,
};
use crate::client::{Params, Server};
use crate::error::{CallError, PostgresRefusal};
use crate::{schema, sql};

impl Inner {
    pub(super) async fn join(&self, me: NodeRecord, birth: Birth) -> Result<Map, SharedError> {
        let server = self.beats.find(PATIENCE).await.map_err(|error| self.error(error))?;
        self.make_tables().await?;
        let meta = self.facts(&birth, &server).await?;
        birth.check(&meta, &self.place)?;
        let record = encode_node(&me);
        // Together with the facts: a cluster that is moved elsewhere meanwhile gets no node.
        let params =
            Params::new().with(id(me.node)).with(signed(me.beat)).with(record.clone()).with(encode_meta(&meta));
        let made = self.ask(sql::JOIN, params).await?;
        let created = match made.first() {
            Some(row) => row.get(0),
            None => match self.living(me.node, None).await {
                // Our own join, which was not heard.
                Ok(row) if row.get::<_, Vec<u8>>(3) == record => row.get(0),
                Err(SharedError::Fenced(_)) if self.facts(&birth, &server).await? != meta => {
                    return Err(SharedError::Away("the facts of the cluster have just changed".to_owned()));
                }
                Ok(_) | Err(SharedError::Fenced(_)) => {
                    return Err(SharedError::Refused(format!("there has been a {:?} before", me.node)));
                }
                Err(error) => return Err(error),
            },
        };
        let map = self.map().await?;
        *lock(&self.joined) = Some(Joined { node: me.node, created });
        Ok(map)
    }

    /// Makes the tables, or brings them up to this build.
    pub(super) async fn make_tables(&self) -> Result<(), SharedError> {
        loop {
            let rows = self.ask(schema::LOOK, Params::new().with(self.schema.clone())).await?;
            let row = only(&rows);
            let (has_meta, tables, has_schema): (bool, i64, bool) = (row.get(0), row.get(1), row.get(2));
            if !has_meta && tables > 0 {
                return Err(SharedError::Refused(format!(
                    "there are {tables} tables and indexes in the schema {} and none of them is ours: choose another \
                     schema (at {})",
                    self.schema, self.place
                )));
            }
            let step = if has_meta {
                let rows = self.ask(schema::STEP, Params::new()).await?;
                let step = rows.first().map_or(Ok(0), |row| usize::try_from(row.get::<_, i32>(0)));
                step.map_err(|_| self.damaged("meta", "its step is below 0"))?
            } else {
                0
            };
            if step == schema::VERSION {
                return self.make_keyring().await;
            }
            if step > schema::VERSION {
                return Err(SharedError::Refused(format!(
                    "the tables of {} are of step {step}, this build knows steps up to {}",
                    self.place,
                    schema::VERSION
                )));
            }
            // By us or by another node: the next look tells.
            let script = schema::script(&self.schema, has_schema, step);
            match self.beats.script(&script).await {
                Err(CallError::Refused(PostgresRefusal::Denied(what))) => {
                    return Err(SharedError::Refused(format!(
                        "PostgreSQL refuses to make the tables: {what}; give the user CREATE on the database, or on a \
                         schema that is there already (at {})",
                        self.place
                    )));
                }
                ended => ended.map_err(|error| self.error(error))?,
            }
        }
    }

    /// The facts of the cluster, made if there are none.
    async fn facts(&self, birth: &Birth, server: &Server) -> Result<Meta, SharedError> {
        loop {
            let rows = self.ask(sql::FACTS, Params::new()).await?;
            let row = rows.first().ok_or_else(|| self.damaged("meta", "its row is missing"))?;
            if let Some(facts) = row.get::<_, Option<Vec<u8>>>(0) {
                self.check_system(row, server)?;
                return decode_meta(&facts).map_err(|error| {
                    SharedError::Refused(format!(
                        "the table meta of {} is not the facts of a cluster that this build understands: {error}",
                        self.place
                    ))
                });
            }
            let partitions = birth.partitions.unwrap_or(Partitions::DEFAULT);
            let meta = Meta { partitions, format: birth.format, secret: birth.secret, stage: Stage::Serving };
            let params = Params::new()
                .with(encode_meta(&meta))
                .with(number(partitions.number()))
                .with(server.system.clone())
                .with(i64::from(server.timeline));
            // Ours or another node's: the next look tells.
            self.ask(sql::BIRTH, params).await?;
        }
    }

    pub(super) async fn raise_format(&self, format: u16) -> Result<(), SharedError> {
        loop {
            let rows = self.ask(sql::FACTS, Params::new()).await?;
            let facts = rows.first().and_then(|row| row.get::<_, Option<Vec<u8>>>(0));
            let Some(facts) = facts else {
                return Err(SharedError::Refused(format!("there is no cluster in {}", self.place)));
            };
            let meta = decode_meta(&facts).map_err(|error| self.damaged("meta", error))?;
            if meta.format >= format {
                return Ok(());
            }
            // By us or by another node: the next look tells.
            let params = Params::new().with(facts).with(encode_meta(&Meta { format, ..meta }));
            self.ask(sql::RESTATE, params).await?;
        }
    }

    /// Tables that were copied into another server have epochs and tokens that the first one goes on counting, too.
    fn check_system(&self, row: &Row, server: &Server) -> Result<(), SharedError> {
        match row.get::<_, Option<String>>(1) {
            Some(system) if system != server.system => Err(SharedError::Refused(format!(
                "the tables of {} were made in another PostgreSQL (system identifier {system}, this one has {}): this \
                 is a copy, or the address leads elsewhere than it did",
                self.place, server.system
            ))),
            _ => Ok(()),
        }
    }

    pub(super) async fn beat(&self, me: NodeRecord) -> Result<(), SharedError> {
        let joined = self.joined()?;
        let record = encode_node(&NodeRecord { is_buried: false, ..me });
        let params = Params::new().with(id(joined.node)).with(joined.created).with(signed(me.beat)).with(record);
        for _ in 0..CONTRADICTIONS_MAX {
            if !self.ask(sql::BEAT, params.clone()).await?.is_empty() {
                return Ok(());
            }
            // It was there before, or a later one: older marks are not put back.
            let row = self.living(joined.node, Some(joined.created)).await?;
            if row.get::<_, i64>(2) >= signed(me.beat) {
                return Ok(());
            }
        }
        contradicted()
    }

    /// A proof by a write: a primary that was cut off from its standby still answers reads, and commits nothing.
    pub(super) async fn confirm(&self) -> Result<(), SharedError> {
        let joined = self.joined()?;
        self.living(joined.node, Some(joined.created)).await.map(|_| ())
    }

    /// The record of a life, unless it is over or, where `created` is given, another one; sealed.
    async fn living(&self, node: NodeId, created: Option<i64>) -> Result<Row, SharedError> {
        let row = self.node_now(node).await?;
        let Some(now) = row.get::<_, Option<i64>>(0) else {
            return Err(SharedError::Fenced(format!("{node:?} is gone")));
        };
        if row.get(4) {
            return Err(SharedError::Fenced(format!("{node:?} is buried")));
        }
        if created.is_some_and(|created| created != now) {
            return Err(SharedError::Fenced(format!("{node:?} is there by another join")));
        }
        Ok(row)
    }

    /// Columns: created, version, beat, record, buried, partitions that name it. All but the last are NULL for a node
    /// that is not there.
    async fn node_now(&self, node: NodeId) -> Result<Row, SharedError> {
        let mut rows = self.ask(sql::NODE, Params::new().with(id(node))).await?;
        Ok(rows.swap_remove(0))
    }

    pub(super) async fn map(&self) -> Result<Map, SharedError> {
        let rows = self.ask(sql::MAP, Params::new()).await?;
        let facts = rows.first().and_then(|row| row.get::<_, Option<Vec<u8>>>(3));
        let Some(facts) = facts else {
            return Err(SharedError::Refused(format!("there is no cluster in {}", self.place)));
        };
        if rows[0].get(5) {
            self.ask(sql::SEAL, Params::new()).await?;
        }
        let meta = decode_meta(&facts).map_err(|error| self.damaged("meta", error))?;
        self.partitions.store(meta.partitions.number(), Ordering::Relaxed);
        let (mut nodes, mut drained, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows[1..] {
            let version = unsigned(row.get(2));
            let node = row.get::<_, Option<Uuid>>(4).map(|id| NodeId(id.as_u128()));
            if row.get::<_, i32>(0) == 1 {
                let record = decode_node(row.get(3)).map_err(|error| self.damaged("node", error))?;
                if row.get(6) {
                    drained.push(record.node);
                }
                nodes.push(Seen { value: NodeRecord { is_buried: row.get(5), ..record }, version });
            } else {
                let owner = Owner { epoch: Epoch(unsigned(row.get(7))), node, at: Time(unsigned(row.get(8))) };
                owners.push((row.get::<_, i32>(1), Seen { value: owner, version }));
            }
        }
        owners.sort_unstable_by_key(|(partition, _)| *partition);
        let is_whole = (0..).zip(&owners).all(|(at, (partition, _))| at == *partition);
        if !is_whole || owners.len() != meta.partitions.number() as usize {
            return Err(self.damaged("stream", format!("{} partitions have a row", owners.len())));
        }
        let owners = owners.into_iter().map(|(_, owner)| owner).collect();
        Ok(Map { revision: unsigned(rows[0].get(2)), meta, nodes, owners, drained })
    }

    pub(super) async fn bury(&self, seen: Seen<NodeRecord>) -> Result<(), SharedError> {
        let node = seen.value.node;
        // For ever, and so is a record that is gone.
        if seen.value.is_buried || seen.version == 0 {
            return Ok(());
        }
        let params = Params::new().with(id(node)).with(signed(seen.version)).with(encode_node(&seen.value));
        if !self.ask(sql::BURY, params).await?.is_empty() {
            return Ok(());
        }
        match self.living(node, None).await {
            Ok(_) => Err(SharedError::Fenced(format!("{node:?} has beaten since it was seen"))),
            Err(SharedError::Fenced(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    pub(super) async fn forget(&self, seen: Seen<NodeRecord>) -> Result<(), SharedError> {
        let node = seen.value.node;
        if !self.ask(sql::FORGET, Params::new().with(id(node)).with(signed(seen.version))).await?.is_empty() {
            return Ok(());
        }
        let row = self.node_now(node).await?;
        let Some(version) = row.get::<_, Option<i64>>(1) else { return Ok(()) };
        if unsigned(version) == seen.version && row.get(4) {
            return Err(SharedError::Fenced(format!("a partition names {node:?}")));
        }
        Err(SharedError::Fenced(format!("{node:?} is not as it was seen, or not buried")))
    }

    pub(super) async fn drain(&self, node: NodeId, is_draining: bool) -> Result<(), SharedError> {
        if self.ask(sql::DRAIN, Params::new().with(id(node)).with(is_draining)).await?.is_empty() {
            return Err(SharedError::Refused(format!("there is no {node:?}")));
        }
        Ok(())
    }

    /// Makes the table for the keys of proofs, if it is missing.
    async fn make_keyring(&self) -> Result<(), SharedError> {
        let rows = self.ask(schema::HAS_KEYRING, Params::new().with(self.schema.clone())).await?;
        if only(&rows).get(0) {
            return Ok(());
        }
        self.beats.script(&schema::keyring_script(&self.schema)).await.map_err(|error| self.error(error))?;
        Ok(())
    }

    pub(super) async fn keyring(&self) -> Result<Option<Vec<u8>>, SharedError> {
        let rows = self.ask(sql::KEYRING, Params::new()).await?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    pub(super) async fn replace_keyring(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> Result<bool, SharedError> {
        Ok(!self.ask(sql::REPLACE_KEYRING, Params::new().with(before).with(after)).await?.is_empty())
    }

    pub(super) async fn take(&self, taking: Taking) -> Result<Reign, SharedError> {
        taking.check()?;
        let Taking { partition, seen, dead, node, epoch, at } = taking;
        self.check_partition(partition)?;
        let taken = Owner { epoch, node: Some(node), at };
        // Of a node that was seen alive nothing is taken; the compare can only fail, and tell of a taking of ours.
        let burial = dead.as_ref().map(|dead| {
            let is_dead = dead.value.is_buried && seen.value.node == Some(dead.value.node);
            if is_dead { signed(dead.version) } else { -1 }
        });
        let params = Params::new()
            .with(number(partition))
            .with(signed(seen.version))
            .with(signed(seen.value.epoch.0))
            .with(seen.value.node.map(id))
            .with(signed(seen.value.at.0))
            .with(id(node))
            .with(signed(at.0))
            .with(burial)
            .with(signed(epoch.0));
        let client = self.appender();
        if let Some(row) = self.write(client, sql::TAKE, params).await?.first() {
            return Ok(Reign { partition, owner: taken, version: unsigned(row.get(0)) });
        }
        let now = self.owner_now(client, partition).await?;
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

    pub(super) async fn let_go(&self, reign: Reign, at: Time) -> Result<(), SharedError> {
        let free = Owner { epoch: reign.epoch().next(), node: None, at: at.max(reign.owner.at) };
        let params = Params::new()
            .with(number(reign.partition))
            .with(signed(reign.version))
            .with(signed(reign.epoch().0))
            .with(signed(at.0));
        let client = self.appender();
        for _ in 0..CONTRADICTIONS_MAX {
            if !self.write(client, sql::LET_GO, params.clone()).await?.is_empty() {
                return Ok(());
            }
            let now = self.owner_now(client, reign.partition).await?;
            if now.value == free {
                return Ok(());
            }
            if now.version != reign.version {
                return fenced(&reign);
            }
        }
        contradicted()
    }
}
