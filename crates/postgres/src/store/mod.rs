//! The shared store on PostgreSQL. Every call is one statement with compares, or some that only its caller could
//! disturb, so that a statement which is executed twice, or late, changes nothing. A statement whose compares failed
//! is followed by a sealed look (see `sql.rs`), and only that decides.

mod changes;
mod checkpoint;
mod membership;
mod moving;
mod stream;
mod upkeep;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_cluster::{
    Append, Birth, CheckpointId, Cursor, Fut, Landing, Map, Meta, NodeId, NodeRecord, Owner, Page, Reign, Seen,
    SharedError, SharedStore, Taking,
};
use leasehold_engine::Time;
use leasehold_journal::{Batch, Epoch, Room};
use tokio::task::AbortHandle;
use tokio_postgres::Row;
use uuid::Uuid;

use self::changes::Changes;
use crate::address::Address;
use crate::client::{Client, Params};
use crate::error::{CallError, PostgresRefusal};
use crate::sql;

/// How long a call is sent again and again before it ends with `Away`.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same for pages and chunks.
const BULK_PATIENCE: Duration = Duration::from_secs(15);
/// Connections for appends: as many transactions of a node as PostgreSQL works on at the same time.
const APPEND_LANES: usize = 2;

/// One node's connections to the store.
#[derive(Debug)]
pub struct PostgresStore {
    inner: Arc<Inner>,
    changes: Changes,
    /// The task that looks at the size of the tables; it begins with the first join.
    upkeep: Mutex<Option<AbortHandle>>,
}

/// Shared by the calls and the tasks of a store.
#[derive(Debug)]
struct Inner {
    /// The address, for messages.
    place: String,
    schema: String,
    quota_bytes: Option<u64>,
    /// Appends, takings and letting go. Each call goes to the next.
    appends: [Client; APPEND_LANES],
    next: AtomicUsize,
    /// Beats, proofs and the map, which must not wait behind a large append.
    beats: Client,
    /// Pages and chunks.
    bulk: Client,
    joined: Mutex<Option<Joined>>,
    /// The number of partitions as the facts of the cluster were last read; 0 before that.
    partitions: AtomicU32,
    used_bytes: AtomicU64,
    is_full: AtomicBool,
    upkeep: PostgresUpkeep,
}

/// How often the store looks after itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresUpkeep {
    /// Interval between checks of the size of the tables.
    pub look_every: Duration,
    /// Interval between checks whether the map has changed.
    pub poll_every: Duration,
}

impl Default for PostgresUpkeep {
    fn default() -> Self {
        PostgresUpkeep { look_every: Duration::from_secs(5), poll_every: Duration::from_millis(250) }
    }
}

/// The life that these connections speak for.
#[derive(Clone, Copy, Debug)]
struct Joined {
    node: NodeId,
    /// The version that made its record.
    created: i64,
}

/// Sizes and counts, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostgresSizes {
    /// The size of our tables with their indexes, as it last was.
    pub used_bytes: u64,
    /// Statements that were sent again.
    pub resent: u64,
    /// Connections that were made.
    pub connects: u64,
}

impl PostgresStore {
    /// Reads the files that the address names. Connects to nothing before the first call. Belongs to the tokio runtime
    /// that runs the calls.
    pub fn new(address: &Address) -> Result<PostgresStore, PostgresRefusal> {
        PostgresStore::with_upkeep(address, PostgresUpkeep::default())
    }

    /// The same with another pace.
    pub fn with_upkeep(address: &Address, upkeep: PostgresUpkeep) -> Result<PostgresStore, PostgresRefusal> {
        let beats = Client::new(address)?;
        let inner = Arc::new(Inner {
            place: address.to_string(),
            schema: address.schema.clone(),
            quota_bytes: address.quota_bytes,
            appends: ["append 1", "append 2"].map(|name| beats.lane(name)),
            next: AtomicUsize::new(0),
            bulk: beats.lane("bulk"),
            beats,
            joined: Mutex::new(None),
            partitions: AtomicU32::new(0),
            used_bytes: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            upkeep,
        });
        Ok(PostgresStore { changes: Changes::new(Arc::clone(&inner)), inner, upkeep: Mutex::new(None) })
    }

    /// Sizes and counts as they last were.
    pub fn sizes(&self) -> PostgresSizes {
        self.inner.sizes()
    }

    /// Sentences about settings of PostgreSQL that cost durability, each of which is in the log as well.
    pub fn warnings(&self) -> Vec<String> {
        self.inner.beats.warnings()
    }

    fn keep_up(&self) {
        let mut upkeep = lock(&self.upkeep);
        if upkeep.is_none() {
            *upkeep = Some(tokio::spawn(upkeep::run(Arc::clone(&self.inner))).abort_handle());
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(upkeep) = lock(&self.upkeep).take() {
            upkeep.abort();
        }
    }
}

impl SharedStore for PostgresStore {
    fn join(&self, me: NodeRecord, birth: Birth) -> Fut<'_, Map> {
        Box::pin(async move {
            let map = self.inner.join(me, birth).await?;
            self.keep_up();
            Ok(map)
        })
    }

    fn beat(&self, me: NodeRecord) -> Fut<'_, ()> {
        Box::pin(self.inner.beat(me))
    }

    fn confirm(&self) -> Fut<'_, ()> {
        Box::pin(self.inner.confirm())
    }

    fn map(&self) -> Fut<'_, Map> {
        Box::pin(self.inner.map())
    }

    fn changed(&self) -> Fut<'_, ()> {
        Box::pin(self.changes.next())
    }

    fn bury(&self, seen: Seen<NodeRecord>) -> Fut<'_, ()> {
        Box::pin(self.inner.bury(seen))
    }

    fn forget(&self, seen: Seen<NodeRecord>) -> Fut<'_, ()> {
        Box::pin(self.inner.forget(seen))
    }

    fn drain(&self, node: NodeId, is_draining: bool) -> Fut<'_, ()> {
        Box::pin(self.inner.drain(node, is_draining))
    }

    fn raise_format(&self, format: u16) -> Fut<'_, ()> {
        Box::pin(self.inner.raise_format(format))
    }

    fn take(&self, taking: Taking) -> Fut<'_, Reign> {
        Box::pin(self.inner.take(taking))
    }

    fn let_go(&self, reign: Reign, at: Time) -> Fut<'_, ()> {
        Box::pin(self.inner.let_go(reign, at))
    }

    fn append(&self, appends: Vec<Append>) -> Fut<'_, Vec<Landing>> {
        Box::pin(self.inner.append(appends))
    }

    fn read(&self, partition: u32, from: Cursor) -> Fut<'_, Page> {
        Box::pin(self.inner.read(partition, from))
    }

    fn put_chunk(&self, reign: Reign, checkpoint: CheckpointId, number: u32, chunk: Vec<u8>) -> Fut<'_, ()> {
        Box::pin(self.inner.put_chunk(reign, checkpoint, number, chunk))
    }

    fn finish_checkpoint(&self, reign: Reign, checkpoint: CheckpointId, chunks: u32) -> Fut<'_, ()> {
        Box::pin(self.inner.finish_checkpoint(reign, checkpoint, chunks))
    }

    fn sweep(&self, reign: Reign) -> Fut<'_, bool> {
        Box::pin(self.inner.sweep(reign))
    }

    fn found(&self, meta: Meta) -> Fut<'_, ()> {
        Box::pin(self.inner.found(meta))
    }

    fn restate(&self, seen: Meta, meta: Meta) -> Fut<'_, ()> {
        Box::pin(self.inner.restate(seen, meta))
    }

    fn clear(&self, seen: Meta) -> Fut<'_, ()> {
        Box::pin(self.inner.clear(seen))
    }

    fn begin_stream(&self, reign: Reign, checkpoint: CheckpointId, chunks: u32, batch: Batch) -> Fut<'_, ()> {
        Box::pin(self.inner.begin_stream(reign, checkpoint, chunks, batch))
    }

    fn keyring(&self) -> Fut<'_, Option<Vec<u8>>> {
        Box::pin(self.inner.keyring())
    }

    fn replace_keyring(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> Fut<'_, bool> {
        Box::pin(self.inner.replace_keyring(before, after))
    }

    fn room(&self) -> Room {
        self.inner.room()
    }
}

impl Inner {
    /// On the connection for beats.
    async fn ask(&self, sql: &'static str, params: Params) -> Result<Vec<Row>, SharedError> {
        self.beats.call(sql, params, PATIENCE).await.map_err(|error| self.error(error))
    }

    /// One of the connections for appends. A look that decides about a statement goes to the same one: so both are
    /// answered by the same server, unless that has just been left for another.
    fn appender(&self) -> &Client {
        &self.appends[self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % APPEND_LANES]
    }

    /// On this connection.
    async fn write(&self, client: &Client, sql: &'static str, params: Params) -> Result<Vec<Row>, SharedError> {
        client.call(sql, params, PATIENCE).await.map_err(|error| self.error(error))
    }

    /// On the connection for pages and chunks.
    async fn carry(&self, sql: &'static str, params: Params) -> Result<Vec<Row>, SharedError> {
        self.bulk.call(sql, params, BULK_PATIENCE).await.map_err(|error| self.error(error))
    }

    fn error(&self, error: CallError) -> SharedError {
        match error {
            CallError::Away(reason) => SharedError::Away(reason),
            CallError::Refused(refusal @ PostgresRefusal::Full(_)) => SharedError::Full(refusal.to_string()),
            CallError::Refused(PostgresRefusal::Corrupt(what)) => {
                SharedError::Damaged { place: self.place.clone(), what }
            }
            CallError::Refused(refusal @ (PostgresRefusal::Denied(_) | PostgresRefusal::Absent(_))) => {
                SharedError::Refused(format!("{refusal} (at {})", self.place))
            }
            CallError::Refused(refusal) => SharedError::Refused(refusal.to_string()),
        }
    }

    fn joined(&self) -> Result<Joined, SharedError> {
        lock(&self.joined).ok_or_else(|| SharedError::Refused("this node has not joined".to_owned()))
    }

    fn check_partition(&self, partition: u32) -> Result<(), SharedError> {
        let number = self.partitions.load(Ordering::Relaxed);
        if partition < number {
            return Ok(());
        }
        if number == 0 {
            return Err(SharedError::Refused("the map of the cluster was not read yet".to_owned()));
        }
        Err(SharedError::Refused(format!("there is no partition {partition}; there are {number}")))
    }

    fn damaged(&self, table: &str, what: impl std::fmt::Display) -> SharedError {
        let place = format!("the table {table} of {}", self.place);
        SharedError::Damaged { place, what: what.to_string() }
    }

    /// The owner record in the first four columns: version, epoch, node, service time.
    fn owner(&self, row: &Row, partition: u32) -> Result<Seen<Owner>, SharedError> {
        let Some(version) = row.get::<_, Option<i64>>(0) else {
            return Err(self.damaged("stream", format!("the row of partition {partition} is missing")));
        };
        let node = row.get::<_, Option<Uuid>>(2).map(|id| NodeId(id.as_u128()));
        let value = Owner { epoch: Epoch(unsigned(row.get(1))), node, at: Time(unsigned(row.get(3))) };
        Ok(Seen { value, version: unsigned(version) })
    }

    /// Reads the owner of a partition, sealed.
    async fn owner_now(&self, client: &Client, partition: u32) -> Result<Seen<Owner>, SharedError> {
        let rows = self.write(client, sql::OWNER, Params::new().with(number(partition))).await?;
        self.owner(only(&rows), partition)
    }
}

/// A statement whose compares failed is sent again when the look after it shows that they hold: the two were answered
/// by different servers, as a standby was promoted in between. So often at most.
const CONTRADICTIONS_MAX: usize = 5;

fn contradicted<T>() -> Result<T, SharedError> {
    Err(SharedError::Away("PostgreSQL contradicts itself: a standby is being promoted".to_owned()))
}

fn fenced<T>(reign: &Reign) -> Result<T, SharedError> {
    Err(SharedError::Fenced(format!("partition {} has another owner", reign.partition)))
}

/// A statement over a seal has a row whatever else is there.
fn only(rows: &[Row]) -> &Row {
    rows.first().expect("a sealed look has a row")
}

/// PostgreSQL's integers have signs; epochs, positions, times and versions never come near their end.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

fn number(partition: u32) -> i32 {
    i32::try_from(partition).unwrap_or(i32::MAX)
}

fn id(node: NodeId) -> Uuid {
    Uuid::from_u128(node.0)
}

/// A panic elsewhere leaves nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
