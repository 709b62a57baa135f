//! The store in memory behind a valve, so that a transcript can show the answers to callers while the store does not
//! answer.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use leasehold_journal::store::{Opened, Recovered};
use leasehold_journal::{Batch, MemoryOpener, Opener, Position, Room, Sizes, Store, StoreError};

#[derive(Clone, Debug)]
pub(crate) struct ValvedOpener {
    inner: MemoryOpener,
    valve: Arc<Valve>,
}

#[derive(Debug, Default)]
struct Valve {
    state: Mutex<ValveState>,
    turned: Condvar,
}

#[derive(Debug, Default)]
struct ValveState {
    is_closed: bool,
    /// An append has come up to the closed valve.
    is_blocking: bool,
}

impl Valve {
    fn state(&self) -> MutexGuard<'_, ValveState> {
        self.state.lock().expect("no thread panics while turning the valve")
    }

    fn pass(&self) {
        let mut state = self.state();
        while state.is_closed {
            state.is_blocking = true;
            state = self.turned.wait(state).expect("no thread panics while turning the valve");
        }
        state.is_blocking = false;
    }
}

impl ValvedOpener {
    pub(crate) fn new() -> Self {
        ValvedOpener { inner: MemoryOpener::keeping(), valve: Arc::default() }
    }

    /// From now on appends do not end.
    pub(crate) fn close(&self) {
        self.valve.state().is_closed = true;
    }

    pub(crate) fn open_up(&self) {
        self.valve.state().is_closed = false;
        self.valve.turned.notify_all();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.valve.state().is_closed
    }

    pub(crate) fn is_blocking(&self) -> bool {
        self.valve.state().is_blocking
    }
}

impl Opener for ValvedOpener {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        let mut opened = self.inner.open(partition, visit)?;
        opened.store = Box::new(ValvedStore { inner: opened.store, valve: Arc::clone(&self.valve) });
        Ok(opened)
    }
}

struct ValvedStore {
    inner: Box<dyn Store>,
    valve: Arc<Valve>,
}

impl Store for ValvedStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.valve.pass();
        self.inner.append(batch)
    }

    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError> {
        self.inner.begin_checkpoint(upto)
    }

    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.inner.put_chunk(chunk)
    }

    fn finish_checkpoint(&mut self) -> Result<(), StoreError> {
        self.inner.finish_checkpoint()
    }

    fn maintain(&mut self) -> Result<bool, StoreError> {
        self.inner.maintain()
    }

    fn room(&self) -> Room {
        self.inner.room()
    }

    fn sizes(&self) -> Sizes {
        self.inner.sizes()
    }
}
