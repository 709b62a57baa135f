//! The audit log: one JSON line for every change a caller asked for. This file decides where lines go and what happens
//! when they cannot be written; `auth::audit` makes their content.
//!
//! A renamed file is left to the program that renamed it, and a new one is made under its name, so that any rotation by
//! name works without a signal. Lines are appended in one write each. A line that could not be written is kept and goes
//! first once that is possible again; where the log is required, no change is made meanwhile.

use std::collections::VecDeque;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines kept while they cannot be written. Past it the oldest are lost, and the log of the service says so.
const KEPT_MAX: usize = 10_000;

#[derive(Debug)]
pub struct AuditLog {
    is_required: bool,
    state: Mutex<Sink>,
}

#[derive(Debug)]
struct Sink {
    to: To,
    kept: VecDeque<Vec<u8>>,
    /// A line was written in part: the next one begins on a line of its own.
    is_torn: bool,
    is_failing: bool,
    lost: u64,
}

#[derive(Debug)]
enum To {
    Stderr,
    File { path: PathBuf, open: Option<File> },
}

impl AuditLog {
    pub fn to_stderr(is_required: bool) -> Self {
        AuditLog::to(To::Stderr, is_required)
    }

    /// Goes on with a file that is there, or makes one for its owner alone.
    pub fn to_file(path: &Path, is_required: bool) -> io::Result<Self> {
        let open = Some(open(path)?);
        Ok(AuditLog::to(To::File { path: path.to_owned(), open }, is_required))
    }

    fn to(to: To, is_required: bool) -> Self {
        let state = Sink { to, kept: VecDeque::new(), is_torn: false, is_failing: false, lost: 0 };
        AuditLog { is_required, state: Mutex::new(state) }
    }

    /// Returns whether a change has to be in the log before it is made.
    pub(crate) fn is_required(&self) -> bool {
        self.is_required
    }

    /// Before a change, where the log is required: an error says why it cannot be written, and the line is not in it.
    pub(crate) fn begin(&self, line: &[u8]) -> Result<(), String> {
        let mut state = self.state();
        let outcome = state.write_kept().and_then(|()| state.write(line));
        state.say(&outcome);
        outcome.map_err(|error| error.to_string())
    }

    /// After a change. A line that cannot be written is kept.
    pub(crate) fn end(&self, line: Vec<u8>) {
        let mut state = self.state();
        if state.kept.len() == KEPT_MAX {
            state.kept.pop_front();
            state.lost += 1;
        }
        state.kept.push_back(line);
        let outcome = state.write_kept();
        state.say(&outcome);
    }

    fn state(&self) -> MutexGuard<'_, Sink> {
        // A line is in the queue until it was written whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink {
    fn write_kept(&mut self) -> io::Result<()> {
        while let Some(line) = self.kept.pop_front() {
            if let Err(error) = self.write(&line) {
                self.kept.push_front(line);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let mut text = Vec::with_capacity(line.len() + 2);
        if self.is_torn {
            text.push(b'\n');
        }
        text.extend_from_slice(line);
        text.push(b'\n');
        match &mut self.to {
            To::Stderr => write_all(&mut io::stderr(), &text, &mut self.is_torn),
            To::File { path, open } => write_all(current(path, open)?, &text, &mut self.is_torn),
        }
    }

    /// Once when it begins to fail, and once when it is over.
    fn say(&mut self, outcome: &io::Result<()>) {
        match outcome {
            Err(error) if !self.is_failing => tracing::error!("the audit log cannot be written: {error}"),
            Ok(()) if self.is_failing => {
                let lost = std::mem::take(&mut self.lost);
                tracing::info!(lost, "the audit log can be written again");
            }
            _ => {}
        }
        self.is_failing = outcome.is_err();
    }
}

/// Writes a text, and notes whether it is there in part.
fn write_all(out: &mut impl io::Write, mut text: &[u8], is_torn: &mut bool) -> io::Result<()> {
    while !text.is_empty() {
        match out.write(text) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => (text, *is_torn) = (&text[written..], true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    *is_torn = false;
    Ok(())
}

/// The file of that name, opened again if another has the name now, or none.
fn current<'a>(path: &Path, open_file: &'a mut Option<File>) -> io::Result<&'a mut File> {
    let is_current = match (&*open_file, std::fs::metadata(path)) {
        (Some(file), Ok(named)) => is_same(&file.metadata()?, &named),
        _ => false,
    };
    if !is_current {
        *open_file = None;
        *open_file = Some(open(path)?);
    }
    Ok(open_file.as_mut().expect("it was opened"))
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    close_to_others(path, &file)?;
    Ok(file)
}

/// A file that was there before keeps its mode, but for other users: it names callers, their addresses and resources. A
/// group may read it, where the operator lets a tool collect logs that way.
#[cfg(unix)]
fn close_to_others(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    const OTHERS: u32 = 0o007;
    let found = file.metadata()?;
    let mode = found.permissions().mode() & 0o7777;
    if !found.is_file() || mode & OTHERS == 0 {
        return Ok(());
    }
    file.set_permissions(std::fs::Permissions::from_mode(mode & !OTHERS))?;
    tracing::warn!("{} could be used by every user (mode {mode:o}), and is closed to others now", path.display());
    Ok(())
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on unix")]
fn close_to_others(_: &Path, _: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// Elsewhere a file that is open cannot be renamed.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_closed_to_them_and_its_group_is_left_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        for (before, after) in [(0o600, 0o600), (0o640, 0o640), (0o644, 0o640), (0o666, 0o660), (0o601, 0o600)] {
            let path = directory.path().join(format!("{before:o}"));
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
            AuditLog::to_file(&path, true).unwrap().begin(b"1").unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, after, "{before:o}");
        }
    }

    #[test]
    fn a_line_that_could_not_be_written_is_kept_and_goes_first() {
        let directory = tempfile::tempdir().unwrap();
        let (there, away) = (directory.path().join("there"), directory.path().join("away"));
        std::fs::create_dir(&there).unwrap();
        let path = there.join("audit.log");
        let log = AuditLog::to_file(&path, true).unwrap();
        log.begin(b"1").unwrap();
        std::fs::rename(&there, &away).unwrap();
        log.end(b"2".to_vec());
        log.begin(b"3").unwrap_err();
        assert_eq!(std::fs::read_to_string(away.join("audit.log")).unwrap(), "1\n");
        std::fs::rename(&away, &there).unwrap();
        log.begin(b"4").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n2\n4\n");
        // Rotated: the old one is left alone.
        std::fs::rename(&path, there.join("audit.log.1")).unwrap();
        log.end(b"5".to_vec());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "5\n");
        assert_eq!(std::fs::read_to_string(there.join("audit.log.1")).unwrap(), "1\n2\n4\n");
    }
}
