//! One server at a time in a data directory: an operating-system lock on a file in it. The lock goes with the process,
//! however it ends; the process id in the file is only for messages.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::Path;

use super::{LOCK_FILE, directory};
use crate::store::error::StoreError;

#[derive(Debug)]
pub(super) struct DirectoryLock {
    /// Unlocked when it is closed.
    _file: File,
}

impl DirectoryLock {
    pub(super) fn acquire(directory: &Path) -> Result<Self, StoreError> {
        let path = directory.join(LOCK_FILE);
        let failed = |error| StoreError::failed(format!("locking {}", path.display()), error);
        // Never truncated on opening: it may hold the process id of another server.
        let mut options = OpenOptions::new();
        directory::private(options.read(true).write(true).create(true).truncate(false));
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
                Ok(DirectoryLock { _file: file })
            }
            Err(TryLockError::WouldBlock) => {
                Err(StoreError::Locked { directory: directory.to_owned(), holder: holder(&mut file) })
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

/// The state of the directory for a process that only reads.
#[derive(Debug)]
pub(super) enum Look {
    /// No server has the directory, and none gets it while this is kept. There is no file before the first server has
    /// started.
    Free(Option<File>),
    Held {
        holder: Option<u32>,
    },
}

/// Looks whether a server uses the directory, and keeps servers out if none does. Other readers are welcome.
pub(super) fn look(directory: &Path) -> Result<Look, StoreError> {
    let path = directory.join(LOCK_FILE);
    let failed = |error| StoreError::failed(format!("looking at {}", path.display()), error);
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Look::Free(None)),
        Err(error) => return Err(failed(error)),
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(Look::Free(Some(file))),
        Err(TryLockError::WouldBlock) => Ok(Look::Held { holder: holder(&mut file) }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok())
}
