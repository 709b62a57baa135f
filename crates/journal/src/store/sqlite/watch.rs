//! Watches that the open files are still those that the data directory names, and that none became shorter. SQLite goes
//! on with files that were removed, replaced or cut, and its writes to them are gone with the process: a change that no
//! restart would find must not be acknowledged. One check costs two calls of `statx`, so every append makes one. It
//! asks for no times: a kernel that was asked for them gives the next write a time of its own, and then each
//! `fdatasync` has the inode to write as well.
//!
//! A log that was cut looks like one that was never written, so a mark is left for the next start to find.

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::{DATABASE_FILE, PAGE_BYTES, WAL_FILE, directory, wal};
use crate::armed::{Bug, is_armed};
use crate::store::error::StoreError;

/// Exists after a file was cut. A restore moves it away with the rest.
pub(super) const CUT_FILE: &str = "leasehold.cut";

/// Refuses a directory in which a file was cut while a server had it open.
pub(super) fn refuse_cut(directory: &Path) -> Result<(), StoreError> {
    let mark = directory.join(CUT_FILE);
    if mark.exists() {
        return Err(StoreError::Damaged {
            place: directory.display().to_string(),
            what: format!("a file was truncated while it was in use, as {} says", mark.display()),
            advice: format!(
                "restore the data from a backup; removing {} goes on with what is left, where acknowledged changes are \
                 missing and tokens repeat",
                mark.display()
            ),
        });
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct Watch {
    database: Watched,
    log: Watched,
    /// Pages were given back, and the file has not been cut to the new end of the database yet.
    is_shrinking: bool,
}

#[derive(Debug)]
struct Watched {
    path: PathBuf,
    identity: Option<(u64, u64)>,
    /// The file has been this long, and this store has not cut it since.
    floor_bytes: u64,
}

impl Watch {
    /// Starts with files that were opened a moment ago and that no thread writes to yet.
    pub(super) fn start(directory: &Path) -> Result<Self, StoreError> {
        let database = Watched::start(directory.join(DATABASE_FILE))?;
        let log = Watched::start(directory.join(WAL_FILE))?;
        Ok(Watch { database, log, is_shrinking: false })
    }

    /// Called before an append: `log_frames` have been committed to the log since it was started over.
    pub(super) fn look(&mut self, log_frames: u64) -> Result<(), StoreError> {
        self.log.floor_bytes = self.log.floor_bytes.max(wal::bytes_of_frames(log_frames));
        self.log.look()?;
        let database_bytes = self.database.look()?;
        if !self.is_shrinking {
            self.database.floor_bytes = database_bytes;
        }
        Ok(())
    }

    /// The database has this many pages now, less than before. Copying the log cuts the file, some time later.
    pub(super) fn shrinks_to(&mut self, pages: u64) {
        self.is_shrinking = true;
        self.database.floor_bytes = self.database.floor_bytes.min(pages * u64::from(PAGE_BYTES));
    }

    /// All of the log is in the database, so the file has been cut if it had to be.
    pub(super) fn copied(&mut self) {
        self.is_shrinking = false;
    }
}

impl Watched {
    fn start(path: PathBuf) -> Result<Self, StoreError> {
        let found =
            Found::at(&path).map_err(|error| StoreError::failed(format!("looking at {}", path.display()), error))?;
        Ok(Watched { path, identity: found.identity, floor_bytes: found.len })
    }

    /// Returns its length.
    fn look(&self) -> Result<u64, StoreError> {
        let disturbed = |what| StoreError::Disturbed { place: self.path.display().to_string(), what };
        match Found::at(&self.path) {
            Ok(found) if found.identity != self.identity && !is_armed(Bug::ReplacedNotMissed) => {
                Err(disturbed("replaced"))
            }
            Ok(found) if found.len < self.floor_bytes && !is_armed(Bug::CutNotMissed) => {
                let error = disturbed("truncated");
                self.leave_mark(&error);
                Err(error)
            }
            Ok(found) => Ok(found.len),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(disturbed("removed or renamed"))
            }
            Err(error) => Err(StoreError::failed(format!("looking at {}", self.path.display()), error)),
        }
    }

    /// Best effort: the server stops in any case.
    fn leave_mark(&self, why: &StoreError) {
        let directory = self.path.parent().expect("it is a file in a directory");
        let mut options = std::fs::OpenOptions::new();
        let marked = directory::private(options.write(true).create(true).truncate(true))
            .open(directory.join(CUT_FILE))
            .and_then(|mut mark| {
                writeln!(mark, "{why}")?;
                mark.sync_all()
            });
        let _ = marked.map(|()| directory::sync(directory));
    }
}

/// A file as its name leads to it.
#[derive(Debug)]
struct Found {
    /// Device and number. `None` on platforms where an open file can be neither removed nor replaced.
    identity: Option<(u64, u64)>,
    len: u64,
}

impl Found {
    #[cfg(target_os = "linux")]
    fn at(path: &Path) -> io::Result<Found> {
        use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};
        use rustix::io::Errno;

        match statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::SIZE) {
            Ok(found) => {
                let device = makedev(found.stx_dev_major, found.stx_dev_minor);
                Ok(Found { identity: Some((device, found.stx_ino)), len: found.stx_size })
            }
            // An old kernel, or a filter that is older than the call.
            Err(Errno::NOSYS | Errno::PERM) => Found::by_metadata(path),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn at(path: &Path) -> io::Result<Found> {
        Found::by_metadata(path)
    }

    fn by_metadata(path: &Path) -> io::Result<Found> {
        let found = std::fs::metadata(path)?;
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt as _;
            Some((found.dev(), found.ino()))
        };
        #[cfg(not(unix))]
        let identity = None;
        Ok(Found { identity, len: found.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_looking_find_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [7; 300]).unwrap();
        let (found, by_metadata) = (Found::at(&path).unwrap(), Found::by_metadata(&path).unwrap());
        assert_eq!((found.identity, found.len), (by_metadata.identity, 300));
        assert_eq!(Found::at(&path.join("x")).unwrap_err().kind(), ErrorKind::NotADirectory);
        assert_eq!(Found::at(&directory.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
