//! The keys of proofs in the database: one small record, opaque here, that is replaced whole. It is read and written by
//! a connection of its own, seldom, and beside the journal: nothing else depends on the table, so the version of the
//! tables stays, and an older build passes it over. A backup is a copy of the database and so has it, too.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::DATABASE_FILE;
use super::schema::{self, store_error};
use crate::store::error::StoreError;

/// The record of keys in the database of a directory that a server has open.
#[derive(Clone, Debug)]
pub struct SqliteKeyring {
    path: PathBuf,
}

impl SqliteKeyring {
    /// Touches nothing yet.
    pub fn of_directory(directory: &Path) -> Self {
        SqliteKeyring { path: directory.join(DATABASE_FILE) }
    }

    /// The record, if there is one.
    pub fn read(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let read = || -> rusqlite::Result<_> {
            let connection = schema::connect(&self.path)?;
            if has_table(&connection)? { record_in(&connection) } else { Ok(None) }
        };
        read().map_err(|error| self.failed("reading the keys of proofs", error))
    }

    /// Replaces the record if it is `before`, durably. Returns whether it is `after` now.
    pub fn replace(&self, before: Option<&[u8]>, after: &[u8]) -> Result<bool, StoreError> {
        let replace = || -> rusqlite::Result<bool> {
            let mut connection = schema::connect(&self.path)?;
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if !has_table(&transaction)? {
                transaction.execute_batch("CREATE TABLE keyring (record BLOB NOT NULL) STRICT")?;
            }
            let found = record_in(&transaction)?;
            if found.as_deref() == Some(after) {
                return Ok(true);
            }
            if found.as_deref() != before {
                return Ok(false);
            }
            transaction.execute("DELETE FROM keyring", ())?;
            transaction.execute("INSERT INTO keyring VALUES (?1)", (after,))?;
            transaction.commit()?;
            Ok(true)
        };
        replace().map_err(|error| self.failed("replacing the keys of proofs", error))
    }

    fn failed(&self, doing: &str, error: rusqlite::Error) -> StoreError {
        store_error(doing, &self.path.display().to_string(), error)
    }
}

fn has_table(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'keyring'", (), |row| row.get(0))
}

fn record_in(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.query_row("SELECT record FROM keyring", (), |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Opener as _, SqliteOpener};

    #[test]
    fn a_record_is_replaced_only_by_the_one_who_read_it_and_stays_beside_the_journal() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("data");
        let opened = SqliteOpener::new(&directory).open(0, &mut |_| Ok(())).unwrap();
        let keyring = SqliteKeyring::of_directory(&directory);
        assert_eq!(keyring.read().unwrap(), None);
        assert!(keyring.replace(None, b"first").unwrap());
        assert!(!keyring.replace(None, b"other").unwrap(), "another process was first");
        assert!(keyring.replace(None, b"first").unwrap(), "the same call again");
        assert!(!keyring.replace(Some(b"none"), b"other").unwrap());
        assert!(keyring.replace(Some(b"first"), b"second").unwrap());
        drop(opened);
        let _again = SqliteOpener::new(&directory).open(0, &mut |_| Ok(())).unwrap();
        assert_eq!(keyring.read().unwrap().as_deref(), Some(&b"second"[..]));
    }
}
