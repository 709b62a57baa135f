//! The shared store on etcd. Every call is one transaction with compares, or some that only its caller could disturb,
//! so that a request which is executed twice, late, or by a member that was cut off changes nothing.

mod checkpoint;
mod membership;
mod moving;
mod stream;
mod upkeep;
mod watch;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_cluster::Seen;
use leasehold_cluster::{
    Append, Birth, CheckpointId, Cursor, Fut, Landing, Map, Meta, NodeId, NodeRecord, Page, Reign, SharedError,
    SharedStore, Taking,
};
use leasehold_engine::Time;
use leasehold_journal::{Batch, Room};
use tokio::task::AbortHandle;

use self::watch::Changes;
use crate::address::Address;
use crate::client::Client;
use crate::error::{CallError, EtcdRefusal};
use crate::keys::Keys;
use crate::txn::{Outcome, Txn};

/// How long a call is sent again and again before it ends with `Away`.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same for pages and chunks.
const BULK_PATIENCE: Duration = Duration::from_secs(15);

/// One node's connection to the store.
#[derive(Debug)]
pub struct EtcdStore {
    inner: Arc<Inner>,
    changes: Changes,
    /// The task that looks at etcd's size and compacts its history; it begins with the first join.
    upkeep: Mutex<Option<AbortHandle>>,
}

/// Shared by the calls and the tasks of a store.
#[derive(Debug)]
struct Inner {
    /// The address, for messages.
    place: String,
    keys: Keys,
    quota_bytes: u64,
    compacts: bool,
    /// Appends, takings and everything that a caller waits for.
    main: Client,
    /// Beats and proofs, which must not wait behind a large append.
    beats: Client,
    /// Pages and chunks.
    bulk: Client,
    joined: Mutex<Option<Joined>>,
    /// The number of partitions as the facts of the cluster were last read; 0 before that.
    partitions: AtomicU32,
    /// One beat at a time.
    beating: tokio::sync::Mutex<()>,
    sizes: SizesSeen,
    compactions: AtomicU64,
    upkeep: EtcdUpkeep,
}

/// How often the store looks after etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdUpkeep {
    /// At its size.
    pub look_every: Duration,
    /// One node compacts the history, to where it was this long ago.
    pub compact_every: Duration,
}

impl Default for EtcdUpkeep {
    fn default() -> Self {
        EtcdUpkeep { look_every: Duration::from_secs(5), compact_every: Duration::from_mins(1) }
    }
}

/// The life that this connection speaks for.
#[derive(Clone, Copy, Debug)]
struct Joined {
    node: NodeId,
    /// The revision that made its record.
    created: u64,
    /// The revision of its last beat, as far as it is known.
    version: u64,
    /// The number of that beat.
    beat: u64,
}

/// The sizes of etcd as it last told them.
#[derive(Debug, Default)]
struct SizesSeen {
    file_bytes: AtomicI64,
    in_use_bytes: AtomicI64,
    is_full: AtomicBool,
}

/// The sizes of etcd, for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtcdSizes {
    /// The size of its file, which only defragmentation makes smaller. The quota counts this.
    pub file_bytes: u64,
    /// The part of it that is in use.
    pub in_use_bytes: u64,
    /// Compactions that this store has done.
    pub compactions: u64,
    /// Requests that were sent again.
    pub resent: u64,
}

impl EtcdStore {
    /// Reads the files that the address names. Connects to nothing before the first call. Belongs to the tokio runtime
    /// that runs the calls.
    pub fn new(address: &Address) -> Result<EtcdStore, EtcdRefusal> {
        EtcdStore::with_upkeep(address, EtcdUpkeep::default())
    }

    /// The same with another pace.
    pub fn with_upkeep(address: &Address, upkeep: EtcdUpkeep) -> Result<EtcdStore, EtcdRefusal> {
        let main = Client::new(address)?;
        let inner = Arc::new(Inner {
            place: address.to_string(),
            keys: Keys::new(&address.prefix),
            quota_bytes: address.quota_bytes,
            compacts: address.compacts,
            beats: main.lane(),
            bulk: main.bulk_lane(),
            main,
            joined: Mutex::new(None),
            partitions: AtomicU32::new(0),
            beating: tokio::sync::Mutex::new(()),
            sizes: SizesSeen::default(),
            compactions: AtomicU64::new(0),
            upkeep,
        });
        Ok(EtcdStore { changes: Changes::new(Arc::clone(&inner)), inner, upkeep: Mutex::new(None) })
    }

    /// The sizes of etcd as it last told them.
    pub fn sizes(&self) -> EtcdSizes {
        self.inner.sizes()
    }

    /// The number of the endpoint that is asked, in the order of the address: that of the leader, if it can be reached.
    pub fn asks_endpoint(&self) -> usize {
        self.inner.main.asks_endpoint()
    }

    fn keep_up(&self) {
        let mut upkeep = lock(&self.upkeep);
        if upkeep.is_none() {
            *upkeep = Some(tokio::spawn(upkeep::run(Arc::clone(&self.inner))).abort_handle());
        }
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        if let Some(upkeep) = lock(&self.upkeep).take() {
            upkeep.abort();
        }
    }
}

impl SharedStore for EtcdStore {
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
    async fn transact(&self, lane: &Client, txn: &Txn) -> Result<Outcome, SharedError> {
        let answer = lane.call(&txn.0, PATIENCE).await.map_err(|error| self.error(error))?;
        Ok(Outcome::new(answer))
    }

    async fn transact_bulk(&self, txn: &Txn) -> Result<Outcome, SharedError> {
        let answer = self.bulk.call(&txn.0, BULK_PATIENCE).await.map_err(|error| self.error(error))?;
        Ok(Outcome::new(answer))
    }

    fn error(&self, error: CallError) -> SharedError {
        match error {
            CallError::Away(reason) => SharedError::Away(reason),
            CallError::Refused(EtcdRefusal::Full) => SharedError::Full(EtcdRefusal::Full.to_string()),
            CallError::Refused(EtcdRefusal::Corrupt(what)) => SharedError::Damaged { place: self.place.clone(), what },
            CallError::Refused(refusal @ EtcdRefusal::Denied(_)) => {
                SharedError::Refused(format!("{refusal} (keys below {}/ are to be read and written)", self.place))
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

    fn damaged(&self, key: &[u8], what: impl std::fmt::Display) -> SharedError {
        let place = format!("the key {} of {}", String::from_utf8_lossy(key), self.place);
        SharedError::Damaged { place, what: what.to_string() }
    }
}

fn fenced<T>(reign: &Reign) -> Result<T, SharedError> {
    Err(SharedError::Fenced(format!("partition {} has another owner", reign.partition)))
}

/// A panic elsewhere leaves nothing half done behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
