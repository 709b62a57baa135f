//! A database that begins with a checkpoint: made of the state of a whole service that came from elsewhere. It is
//! written in one go while no other process knows of it, so nothing in it has to be undone.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::lock::DirectoryLock;
use super::staging::Staging;
use super::{DATABASE_FILE, directory, schema};
use crate::ids::{Epoch, Position};
use crate::record::Batch;
use crate::store::error::StoreError;

/// The number of the only checkpoint.
const CHECKPOINT: u64 = 1;

/// A database under construction.
#[derive(Debug)]
pub struct Founding {
    connection: Connection,
    path: PathBuf,
    place: String,
    chunks: u32,
}

impl Founding {
    /// Makes the file, private to its owner, with a stream that has the secret of its service.
    pub fn begin(path: &Path, partition: u32, secret: [u8; 32]) -> Result<Founding, StoreError> {
        let place = path.display().to_string();
        let mut options = OpenOptions::new();
        directory::private(options.write(true).create_new(true))
            .open(path)
            .map_err(|error| StoreError::failed(format!("making {place}"), error))?;
        let made = (|| {
            let mut connection = Connection::open(path)?;
            schema::lay_out(&connection)?;
            // A file that was not finished is thrown away.
            connection.pragma_update_and_check(None, "journal_mode", "OFF", |_| Ok(()))?;
            connection.pragma_update(None, "synchronous", "OFF")?;
            schema::create(&mut connection, partition)?;
            schema::set_secret(&connection, secret)?;
            connection.execute_batch("BEGIN")?;
            Ok(connection)
        })();
        let connection = made.map_err(|error| schema::store_error("making", &place, error))?;
        Ok(Founding { connection, path: path.to_owned(), place, chunks: 0 })
    }

    /// Adds the next chunk of the checkpoint.
    pub fn put_chunk(&mut self, chunk: &[u8]) -> Result<(), StoreError> {
        let put = self
            .connection
            .prepare_cached("INSERT INTO chunk (checkpoint, number, record) VALUES (?1, ?2, ?3)")
            .and_then(|mut statement| statement.execute((CHECKPOINT, self.chunks, chunk)));
        put.map_err(|error| schema::store_error("writing", &self.place, error))?;
        self.chunks += 1;
        Ok(())
    }

    /// Adds the batch after the checkpoint, and makes the file durable, but for its name.
    pub fn finish(self, epoch: Epoch, upto: Position, batch: &Batch) -> Result<(), StoreError> {
        let Founding { connection, path, place, chunks } = self;
        let written = (|| {
            connection.execute(
                "INSERT INTO checkpoint (id, upto, chunks) VALUES (?1, ?2, ?3)",
                (CHECKPOINT, upto.0, chunks),
            )?;
            connection.execute("UPDATE stream SET epoch = ?1, checkpoint = ?2", (epoch.0, CHECKPOINT))?;
            connection
                .execute("INSERT INTO batch (position, record) VALUES (?1, ?2)", (batch.last.0, &batch.record))?;
            connection.execute_batch("COMMIT")
        })();
        written.map_err(|error| schema::store_error("writing", &place, error))?;
        connection.close().map_err(|(_, error)| schema::store_error("closing", &place, error))?;
        std::fs::File::open(&path)
            .and_then(|file| file.sync_all())
            .map_err(|error| StoreError::failed(format!("syncing {place}"), error))
    }
}

/// A data directory that gets a database, unless it has one. No server starts on it meanwhile.
#[derive(Debug)]
pub struct NewDirectory {
    staging: Staging,
}

impl NewDirectory {
    /// Takes the directory, which is made where it is missing. One that holds data is refused.
    pub fn begin(directory: &Path) -> Result<NewDirectory, StoreError> {
        let staging = Staging::begin(directory)?;
        if staging.is_taken() {
            return Err(StoreError::Taken { directory: directory.to_owned() });
        }
        Ok(NewDirectory { staging })
    }

    /// Where to make the database.
    pub fn database(&self) -> PathBuf {
        self.staging.database()
    }

    /// Moves the database, which is finished, to its place. From here on a server may start.
    pub fn put_in_place(self) -> Result<(), StoreError> {
        self.staging.put_in_place("")
    }
}

/// Marks the data of a directory as moved elsewhere, durably: no server starts on it from here on. `Fenced` when a
/// server had it since it was opened in `epoch`.
pub fn mark_moved(directory: &Path, partition: u32, epoch: Epoch, id: u128, other: &str) -> Result<(), StoreError> {
    let _lock = DirectoryLock::acquire(directory)?;
    let path = directory.join(DATABASE_FILE);
    let place = path.display().to_string();
    let failed = |error| schema::store_error("marking as moved", &place, error);
    let mut connection = schema::connect(&path).map_err(failed)?;
    schema::recognise(&connection, &place, partition)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let now: u64 = transaction.query_row("SELECT epoch FROM stream", (), |row| row.get(0)).map_err(failed)?;
    if now != epoch.0 {
        return Err(StoreError::Fenced(format!("a server started on {} meanwhile", directory.display())));
    }
    schema::set_moved(&transaction, id, other).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    directory::sync(directory)
}
