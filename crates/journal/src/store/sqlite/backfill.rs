//! Moves the write-ahead log into the database, off the commit path: a second connection in a thread of its own
//! copies most of it while commits go on. It never quite catches up with a writer that does not pause, so the commit
//! connection copies the short rest itself once the thread is done; the next commit then starts the log over.

use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode};

use super::schema::{self, store_error};
use crate::store::error::StoreError;

/// The thread and its connection. Ends with its owner.
#[derive(Debug)]
pub(super) struct Backfill {
    /// `None` only while being dropped: closing this channel ends the thread.
    orders: Option<SyncSender<()>>,
    outcomes: Receiver<rusqlite::Result<u64>>,
    thread: Option<JoinHandle<()>>,
    is_running: bool,
}

impl Backfill {
    pub(super) fn start(path: &Path, place: &str) -> Result<Self, StoreError> {
        let connection = schema::connect(path).map_err(|error| store_error("opening again", place, error))?;
        let (orders, inbox) = sync_channel::<()>(1);
        let (outbox, outcomes) = sync_channel(1);
        let work = move || {
            while inbox.recv().is_ok() && outbox.send(copy(&connection)).is_ok() {}
        };
        let spawned = std::thread::Builder::new().name("wal-backfill".to_owned()).spawn(work);
        let thread = spawned.map_err(|error| StoreError::failed("starting a thread", error))?;
        Ok(Backfill { orders: Some(orders), outcomes, thread: Some(thread), is_running: false })
    }

    /// Orders the thread to copy the log. Does nothing while the thread is copying already.
    pub(super) fn order(&mut self) {
        if !self.is_running {
            // The thread closes the channel only when it panicked, which `poll` and `wait` report.
            let _ = self.orders.as_ref().expect("only dropping takes it").send(());
            self.is_running = true;
        }
    }

    /// `Some` once after each order, when it is done, with the number of frames that could not be copied.
    pub(super) fn poll(&mut self) -> Option<rusqlite::Result<u64>> {
        if !self.is_running {
            return None;
        }
        let outcome = match self.outcomes.try_recv() {
            Ok(outcome) => outcome,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => Err(gone()),
        };
        self.is_running = false;
        Some(outcome)
    }

    /// Waits for an order to be done, if there is one.
    pub(super) fn wait(&mut self) -> rusqlite::Result<u64> {
        if !self.is_running {
            return Ok(0);
        }
        self.is_running = false;
        self.outcomes.recv().unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Backfill {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // `poll` or `wait` reported a panic of the thread; dropping must not panic on top of it.
            let _ = thread.join();
        }
    }
}

/// Copies as much as possible without blocking a writer. Returns how many frames are left, which a reader still needs;
/// when there are none the next commit starts the log over.
pub(super) fn copy(connection: &Connection) -> rusqlite::Result<u64> {
    match connection.wal_checkpoint_v2(None::<&str>, CheckpointMode::PASSIVE) {
        Ok((frames, copied)) => Ok(u64::from(frames.abs_diff(copied))),
        Err(error) => match error.sqlite_error_code() {
            // Another process is copying, or the database cannot grow any more. The log keeps its content, and the next
            // append finds out whether the disk is really full.
            Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull) => Ok(u64::MAX),
            _ => Err(error),
        },
    }
}

fn gone() -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure("the thread that copies the write-ahead log is gone".into())
}
