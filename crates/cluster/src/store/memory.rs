//! A shared store in memory: for tests, and for several nodes in one process.

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use leasehold_engine::Time;
use leasehold_journal::{Batch, Room};

use super::{Append, Birth, CheckpointId, Cursor, Fut, Landing, Life, Page, SharedError, SharedStore, Shelf, Taking};
use crate::ids::NodeId;
use crate::map::{Map, Meta, NodeRecord, Reign, Seen};

/// One node's connection to a shelf that lives as long as a connection to it does.
#[derive(Debug, Default)]
pub struct MemoryStore {
    shared: Arc<Mutex<Shared>>,
    life: Mutex<Option<Life>>,
    /// The revision up to which `changed` has told.
    told: Mutex<u64>,
}

#[derive(Debug, Default)]
struct Shared {
    shelf: Shelf,
    wakers: Vec<Waker>,
}

impl MemoryStore {
    /// A connection to a new and empty shelf.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another node's connection to the same shelf.
    #[must_use]
    pub fn connect(&self) -> Self {
        MemoryStore { shared: Arc::clone(&self.shared), life: Mutex::default(), told: Mutex::default() }
    }

    fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Shelf) -> Result<T, SharedError>,
    ) -> Pin<Box<std::future::Ready<Result<T, SharedError>>>> {
        let mut shared = lock(&self.shared);
        let before = shared.shelf.revision();
        let result = act(&mut shared.shelf);
        if shared.shelf.revision() != before {
            shared.wakers.drain(..).for_each(Waker::wake);
        }
        Box::pin(ready(result))
    }

    fn life(&self) -> Result<Life, SharedError> {
        lock(&self.life).ok_or_else(|| SharedError::Refused("this node has not joined".to_owned()))
    }
}

impl SharedStore for MemoryStore {
    fn join(&self, me: NodeRecord, birth: Birth) -> Fut<'_, Map> {
        self.with(|shelf| {
            let (life, map) = shelf.join(&me, &birth)?;
            *lock(&self.life) = Some(life);
            Ok(map)
        })
    }

    fn beat(&self, me: NodeRecord) -> Fut<'_, ()> {
        let life = self.life();
        self.with(|shelf| shelf.beat(life?, me))
    }

    fn confirm(&self) -> Fut<'_, ()> {
        let life = self.life();
        self.with(|shelf| shelf.confirm(life?))
    }

    fn map(&self) -> Fut<'_, Map> {
        self.with(|shelf| shelf.map())
    }

    fn changed(&self) -> Fut<'_, ()> {
        Box::pin(Changed { store: self })
    }

    fn bury(&self, seen: Seen<NodeRecord>) -> Fut<'_, ()> {
        self.with(|shelf| shelf.bury(&seen))
    }

    fn forget(&self, seen: Seen<NodeRecord>) -> Fut<'_, ()> {
        self.with(|shelf| shelf.forget(&seen))
    }

    fn drain(&self, node: NodeId, is_draining: bool) -> Fut<'_, ()> {
        self.with(|shelf| shelf.drain(node, is_draining))
    }

    fn raise_format(&self, format: u16) -> Fut<'_, ()> {
        self.with(|shelf| shelf.raise_format(format))
    }

    fn take(&self, taking: Taking) -> Fut<'_, Reign> {
        self.with(|shelf| shelf.take(&taking))
    }

    fn let_go(&self, reign: Reign, at: Time) -> Fut<'_, ()> {
        self.with(|shelf| shelf.let_go(&reign, at))
    }

    fn append(&self, appends: Vec<Append>) -> Fut<'_, Vec<Landing>> {
        self.with(|shelf| appends.iter().map(|append| shelf.append(append)).collect())
    }

    fn read(&self, partition: u32, from: Cursor) -> Fut<'_, Page> {
        self.with(|shelf| shelf.read(partition, from))
    }

    fn put_chunk(&self, reign: Reign, checkpoint: CheckpointId, number: u32, chunk: Vec<u8>) -> Fut<'_, ()> {
        self.with(|shelf| shelf.put_chunk(&reign, checkpoint, number, chunk))
    }

    fn finish_checkpoint(&self, reign: Reign, checkpoint: CheckpointId, chunks: u32) -> Fut<'_, ()> {
        self.with(|shelf| shelf.finish_checkpoint(&reign, checkpoint, chunks))
    }

    fn sweep(&self, reign: Reign) -> Fut<'_, bool> {
        self.with(|shelf| shelf.sweep(&reign))
    }

    fn found(&self, meta: Meta) -> Fut<'_, ()> {
        self.with(|shelf| shelf.found(meta))
    }

    fn restate(&self, seen: Meta, meta: Meta) -> Fut<'_, ()> {
        self.with(|shelf| shelf.restate(&seen, meta))
    }

    fn clear(&self, seen: Meta) -> Fut<'_, ()> {
        self.with(|shelf| shelf.clear(&seen))
    }

    fn begin_stream(&self, reign: Reign, checkpoint: CheckpointId, chunks: u32, batch: Batch) -> Fut<'_, ()> {
        self.with(|shelf| shelf.begin_stream(&reign, checkpoint, chunks, batch))
    }

    fn keyring(&self) -> Fut<'_, Option<Vec<u8>>> {
        self.with(|shelf| Ok(shelf.keyring()))
    }

    fn replace_keyring(&self, before: Option<Vec<u8>>, after: Vec<u8>) -> Fut<'_, bool> {
        self.with(|shelf| Ok(shelf.replace_keyring(before.as_deref(), after)))
    }

    fn room(&self) -> Room {
        Room::Enough
    }
}

struct Changed<'a> {
    store: &'a MemoryStore,
}

impl Future for Changed<'_> {
    type Output = Result<(), SharedError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut shared = lock(&self.store.shared);
        let mut told = lock(&self.store.told);
        let revision = shared.shelf.revision();
        if *told != revision {
            *told = revision;
            return Poll::Ready(Ok(()));
        }
        shared.wakers.retain(|waker| !waker.will_wake(context.waker()));
        shared.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

/// A panic elsewhere leaves nothing half done here, since every transaction checks before it writes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
