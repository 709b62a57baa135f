//! An open database: appends, checkpoints, housekeeping. Every statement is its own transaction, prepared once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::backfill::{self, Backfill};
use super::lock::DirectoryLock;
use super::schema::store_error;
use super::watch::Watch;
use super::{DATABASE_FILE, Found, PAGE_BYTES, WAL_FILE};
use crate::ids::{Epoch, Position};
use crate::record::Batch;
use crate::store::error::StoreError;
use crate::store::{Room, Sizes, Store};

/// Below this much free disk the service refuses commands that make the journal grow.
const ROOM_LOW_BYTES: u64 = 64 << 20;

/// When housekeeping starts and how much of it is done at once. The defaults are for use; small ones let a test see all
/// of it in a short run.
#[derive(Clone, Copy, Debug)]
pub struct Upkeep {
    /// From this length on the write-ahead log is copied into the database by the thread …
    pub wal_soft_frames: u64,
    /// … and from this length on an append waits for it. Only reached when `maintain` is not called.
    pub wal_hard_frames: u64,
    /// How much replaced data one call of `maintain` deletes.
    pub sweep_batches: u64,
    /// How many replaced chunks one call of `maintain` deletes.
    pub sweep_chunks: u64,
    /// Free space inside the database is given back when it is more than this and more than twice the used space: the
    /// next checkpoint needs less than that.
    pub slack_pages: u64,
    /// How many pages one call of `maintain` gives back.
    pub vacuum_pages: u64,
}

impl Default for Upkeep {
    fn default() -> Self {
        let pages = |bytes: u64| bytes / u64::from(PAGE_BYTES);
        Upkeep {
            wal_soft_frames: pages(4 << 20),
            wal_hard_frames: pages(32 << 20),
            sweep_batches: 256,
            sweep_chunks: 4,
            slack_pages: pages(16 << 20),
            vacuum_pages: 128,
        }
    }
}

/// A sweep stops early when it has deleted this much.
const SWEEP_BYTES: u64 = 1 << 20;

/// Inserts a batch for the owner of the stream if it begins at the head. Otherwise the record is null, which the table
/// refuses, and `OR IGNORE` makes nothing of that. `INSERT … SELECT` with the condition behind it says it more plainly,
/// but SQLite then copies the batch through a table of its own, which it makes and drops for each append.
const APPEND: &str = "
    INSERT OR IGNORE INTO batch (position, record) VALUES (?1, CASE
        WHEN (SELECT epoch FROM stream) = ?3 AND ifnull((SELECT max(position) FROM batch), 0) = ?4 THEN ?2
    END)";

#[derive(Debug)]
pub(super) struct SqliteStore {
    // In the order in which they have to be closed: the lock comes last.
    backfill: Backfill,
    connection: Connection,
    _lock: DirectoryLock,

    watch: Watch,
    directory: PathBuf,
    /// The database's path, for messages.
    place: String,
    upkeep: Upkeep,
    epoch: Epoch,
    secret: [u8; 32],
    head: Position,
    log: Arc<LogState>,
    /// When to order the next copy. More than the soft limit only while a reader keeps it from being started over.
    backfill_at_frames: u64,
    checkpoint: Option<Finished>,
    unfinished: Option<Unfinished>,
    /// There may be something to sweep.
    is_dirty: bool,
    tail_bytes: u64,
    /// The error after which nothing is acknowledged any more.
    poisoned: Option<String>,
}

/// SQLite's report on its write-ahead log after each commit.
#[derive(Debug, Default)]
pub(super) struct LogState {
    /// Its length.
    pub(super) frames: AtomicU64,
    /// With `synchronous=FULL` each commit is one sync. Copying the log has syncs of its own, off the commit path.
    pub(super) commits: AtomicU64,
}

/// The checkpoint that counts.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) id: u64,
    pub(super) upto: Position,
    pub(super) bytes: u64,
}

/// The checkpoint that is being written.
#[derive(Debug)]
struct Unfinished {
    id: u64,
    upto: Position,
    chunks: u32,
    bytes: u64,
    /// Batches after `upto`.
    tail_bytes: u64,
}

impl SqliteStore {
    #[expect(clippy::too_many_arguments, reason = "the parts of one opening, put together once")]
    pub(super) fn new(
        backfill: Backfill,
        connection: Connection,
        lock: DirectoryLock,
        watch: Watch,
        directory: PathBuf,
        upkeep: Upkeep,
        log: Arc<LogState>,
        epoch: Epoch,
        secret: [u8; 32],
        found: Found,
    ) -> Self {
        let Found { epoch: _, head, checkpoint, tail_bytes } = found;
        SqliteStore {
            backfill,
            connection,
            _lock: lock,
            watch,
            place: directory.join(DATABASE_FILE).display().to_string(),
            directory,
            upkeep,
            epoch,
            secret,
            head,
            log,
            backfill_at_frames: upkeep.wal_soft_frames,
            checkpoint,
            unfinished: None,
            // The last session may have ended in the middle of sweeping or of a checkpoint.
            is_dirty: true,
            tail_bytes,
            poisoned: None,
        }
    }

    fn check_alive(&self) -> Result<(), StoreError> {
        match &self.poisoned {
            None => Ok(()),
            Some(why) => Err(StoreError::Poisoned { why: why.clone() }),
        }
    }

    /// An error of SQLite is final: only opening again shows whether the write took effect.
    fn or_poison<T>(&mut self, doing: &str, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| {
            let error = store_error(doing, &self.place, error);
            self.poisoned = Some(error.to_string());
            error
        })
    }

    /// Checks that the files are where they were. If not, they are left as they are, for a person to look at: closing
    /// would copy the log, and delete any file that has its name now.
    fn check_files(&mut self) -> Result<(), StoreError> {
        self.watch.look(self.log.frames.load(Ordering::Relaxed)).inspect_err(|error| {
            self.poisoned = Some(error.to_string());
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        })
    }

    fn execute(&mut self, doing: &str, sql: &str, params: impl rusqlite::Params) -> Result<usize, StoreError> {
        let result = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params));
        self.or_poison(doing, result)
    }

    /// Why a batch was not inserted.
    fn why_not(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let found = self.connection.query_row("SELECT epoch FROM stream", (), |row| row.get(0)).map(Epoch);
        let owner = self.or_poison("reading the epoch", found)?;
        if owner != batch.epoch {
            return Err(StoreError::Fenced(format!(
                "the batch is of epoch {}, epoch {owner} owns the stream",
                batch.epoch
            )));
        }
        let newest = self
            .connection
            .query_row("SELECT position, record FROM batch ORDER BY position DESC LIMIT 1", (), |row| {
                Ok((Position(row.get(0)?), row.get::<_, Vec<u8>>(1)?))
            })
            .optional();
        match self.or_poison("reading the head", newest)? {
            Some((position, record)) if position == batch.last && record == batch.record => Ok(()),
            newest => {
                let head = newest.map_or(Position::START, |(position, _)| position);
                Err(StoreError::Fenced(format!("the batch begins at {}, but the head is {head}", batch.first)))
            }
        }
    }

    /// Keeps the write-ahead log short.
    fn tend_wal(&mut self) -> Result<(), StoreError> {
        if let Some(outcome) = self.backfill.poll() {
            let left_frames = self.or_poison("copying the write-ahead log", outcome)?;
            return self.start_log_over(left_frames);
        }
        if self.log.frames.load(Ordering::Relaxed) >= self.backfill_at_frames {
            // Copying would make a file that was cut as long as it was, with nothing in it.
            self.check_files()?;
            self.backfill.order();
        }
        Ok(())
    }

    /// The thread has copied most of the log: copies the rest, so that the next commit starts it over.
    fn start_log_over(&mut self, left_frames: u64) -> Result<(), StoreError> {
        // Many frames are left where a reader was in the way. If that reader left at this very moment, all callers
        // would wait here for frames that the thread can copy next time.
        let is_done = left_frames <= self.upkeep.wal_soft_frames && {
            let copied = backfill::copy(&self.connection);
            self.or_poison("copying the write-ahead log", copied)? == 0
        };
        // When a reader is in the way the log has to grow on; the next try comes after as much again.
        if is_done {
            self.watch.copied();
        }
        let left = if is_done { 0 } else { self.log.frames.load(Ordering::Relaxed) };
        self.log.frames.store(left, Ordering::Relaxed);
        self.backfill_at_frames = left + self.upkeep.wal_soft_frames;
        Ok(())
    }

    /// Deletes a slice of the data that the checkpoint replaced. True when there was such data.
    fn sweep(&mut self) -> Result<bool, StoreError> {
        Ok(self.sweep_batches()? || self.sweep_chunks()? || self.vacuum()?)
    }

    fn sweep_batches(&mut self) -> Result<bool, StoreError> {
        // The newest batch stays even when it is replaced: it holds the position of the head.
        let upto = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.upto.0);
        let bound = upto.min(self.head.0.saturating_sub(1));
        let cut = (|| {
            let sql = "SELECT position, length(record) FROM batch WHERE position <= ?1 ORDER BY position LIMIT ?2";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query((bound, self.upkeep.sweep_batches))?;
            let (mut cut, mut bytes) = (None, 0);
            while let Some(row) = rows.next()?
                && bytes < SWEEP_BYTES
            {
                cut = Some(row.get::<_, u64>(0)?);
                bytes += row.get::<_, u64>(1)?;
            }
            Ok(cut)
        })();
        let Some(cut) = self.or_poison("looking for replaced batches", cut)? else { return Ok(false) };
        self.execute("deleting replaced batches", "DELETE FROM batch WHERE position <= ?1", (cut,))?;
        Ok(true)
    }

    fn sweep_chunks(&mut self) -> Result<bool, StoreError> {
        let current = self.checkpoint.as_ref().map(|checkpoint| checkpoint.id);
        let unfinished = self.unfinished.as_ref().map(|unfinished| unfinished.id);
        let sql = "SELECT id FROM checkpoint WHERE id IS NOT ?1 AND id IS NOT ?2 LIMIT 1";
        let replaced = self.connection.query_row(sql, (current, unfinished), |row| row.get::<_, u64>(0)).optional();
        let Some(id) = self.or_poison("looking for replaced checkpoints", replaced)? else { return Ok(false) };
        let sql = "DELETE FROM chunk WHERE checkpoint = ?1
            AND number IN (SELECT number FROM chunk WHERE checkpoint = ?1 ORDER BY number LIMIT ?2)";
        if self.execute("deleting replaced chunks", sql, (id, self.upkeep.sweep_chunks))? == 0 {
            self.execute("deleting a replaced checkpoint", "DELETE FROM checkpoint WHERE id = ?1", (id,))?;
        }
        Ok(true)
    }

    fn vacuum(&mut self) -> Result<bool, StoreError> {
        let count = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        let counts = count("freelist_count").and_then(|free| Ok((free, count("page_count")?)));
        let (free, all) = self.or_poison("looking for free pages", counts)?;
        let excess = free.saturating_sub(self.upkeep.slack_pages + 2 * (all - free));
        if excess == 0 {
            return Ok(false);
        }
        let given_back = excess.min(self.upkeep.vacuum_pages);
        // This comes before the change: the thread may copy the log, and so cut the file, at any time after.
        self.watch.shrinks_to(all.saturating_sub(given_back));
        let vacuumed = self.connection.execute_batch(&format!("PRAGMA incremental_vacuum({given_back})"));
        self.or_poison("giving back free pages", vacuumed)?;
        Ok(true)
    }
}

impl Store for SqliteStore {
    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.check_alive()?;
        self.check_files()?;
        if self.log.frames.load(Ordering::Relaxed) >= self.upkeep.wal_hard_frames.max(self.backfill_at_frames) {
            self.backfill.order();
            let outcome = self.backfill.wait();
            let left_frames = self.or_poison("copying the write-ahead log", outcome)?;
            self.start_log_over(left_frames)?;
        }
        let params = (batch.last.0, batch.record.as_slice(), batch.epoch.0, batch.first.0 - 1);
        if self.execute("appending a batch", APPEND, params)? == 0 {
            return self.why_not(batch);
        }
        self.head = batch.last;
        let bytes = batch.record.len() as u64;
        self.tail_bytes += bytes;
        if let Some(unfinished) = &mut self.unfinished
            && batch.last > unfinished.upto
        {
            unfinished.tail_bytes += bytes;
        }
        Ok(())
    }

    fn begin_checkpoint(&mut self, upto: Position) -> Result<(), StoreError> {
        self.check_alive()?;
        self.unfinished = None;
        self.is_dirty = true;
        let sql = "INSERT INTO checkpoint (upto, chunks) SELECT ?1, 0 WHERE (SELECT epoch FROM stream) = ?2";
        if self.execute("beginning a checkpoint", sql, (upto.0, self.epoch.0))? == 0 {
            return Err(StoreError::Fenced(format!("epoch {} does not own the stream any more", self.epoch)));
        }
        let id = self.connection.last_insert_rowid().unsigned_abs();
        let tail = self.connection.query_row(
            "SELECT ifnull(sum(length(record)), 0) FROM batch WHERE position > ?1",
            (upto.0,),
            |row| row.get(0),
        );
        let tail_bytes = self.or_poison("measuring the tail", tail)?;
        self.unfinished = Some(Unfinished { id, upto, chunks: 0, bytes: 0, tail_bytes });
        Ok(())
    }

    fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        self.check_alive()?;
        let unfinished = self.unfinished.as_ref().ok_or(StoreError::Misused("no checkpoint was begun"))?;
        let params = (unfinished.id, unfinished.chunks, chunk);
        let sql = "INSERT INTO chunk (checkpoint, number, record) VALUES (?1, ?2, ?3)";
        match self.execute("writing a chunk", sql, params) {
            Ok(_) => {}
            Err(full @ StoreError::Full { .. }) => {
                // SQLite took the row back and an append may still fit: only the checkpoint is lost.
                self.poisoned = None;
                self.unfinished = None;
                return Err(full);
            }
            Err(error) => return Err(error),
        }
        if let Some(unfinished) = &mut self.unfinished {
            unfinished.chunks += 1;
            unfinished.bytes += chunk.len() as u64;
        }
        self.tend_wal()
    }

    fn finish_checkpoint(&mut self) -> Result<(), StoreError> {
        self.check_alive()?;
        let Unfinished { id, upto, chunks, bytes, tail_bytes } =
            *self.unfinished.as_ref().ok_or(StoreError::Misused("no checkpoint was begun"))?;
        if upto > self.head {
            return Err(StoreError::NotYet { upto, head: self.head });
        }
        let flipped = (|| {
            let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            transaction.execute("UPDATE checkpoint SET chunks = ?1 WHERE id = ?2", (chunks, id))?;
            let sql = "UPDATE stream SET checkpoint = ?1 WHERE epoch = ?2";
            let flipped = transaction.execute(sql, (id, self.epoch.0))?;
            transaction.commit()?;
            Ok(flipped)
        })();
        if self.or_poison("finishing a checkpoint", flipped)? == 0 {
            return Err(StoreError::Fenced(format!("epoch {} does not own the stream any more", self.epoch)));
        }
        self.unfinished = None;
        self.checkpoint = Some(Finished { id, upto, bytes });
        self.tail_bytes = tail_bytes;
        self.is_dirty = true;
        Ok(())
    }

    fn maintain(&mut self) -> Result<bool, StoreError> {
        self.check_alive()?;
        self.tend_wal()?;
        if self.is_dirty {
            self.is_dirty = self.sweep()?;
        }
        Ok(self.is_dirty)
    }

    fn room(&self) -> Room {
        match rustix::fs::statvfs(&self.directory) {
            Ok(disk) => match disk.f_bavail.saturating_mul(disk.f_frsize) {
                left_bytes if left_bytes < ROOM_LOW_BYTES => Room::Low { left_bytes },
                _ => Room::Enough,
            },
            // A failed check is no reason to refuse a caller; a full disk shows on the next append.
            Err(_) => Room::Enough,
        }
    }

    fn secret(&self) -> Option<[u8; 32]> {
        Some(self.secret)
    }

    fn sizes(&self) -> Sizes {
        let file_bytes = |name| std::fs::metadata(self.directory.join(name)).map_or(0, |file| file.len());
        Sizes {
            tail_bytes: self.tail_bytes,
            checkpoint_bytes: self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.bytes),
            file_bytes: file_bytes(DATABASE_FILE) + file_bytes(WAL_FILE),
        }
    }

    fn syncs(&self) -> u64 {
        self.log.commits.load(Ordering::Relaxed)
    }
}
