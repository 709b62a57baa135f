//! The system calls of a process on its files: runs it under `strace` and reads the calls back. `disk` knows what they
//! mean for a disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Every call that changes a file or a directory, so that none can be missed: a call that this file does not understand
/// is refused.
const CALLS: &str = "trace=?open,?creat,openat,write,?pwrite64,?pwritev,?pwritev2,?writev,?ftruncate,?truncate,?fallocate,\
    fsync,fdatasync,?sync_file_range,?unlink,unlinkat,?rename,?renameat,?renameat2,?link,linkat,?mkdir,mkdirat,?rmdir";

/// More than any single write of the workload.
const STRING_MAX: &str = "262144";

/// Something that happened to the files, in the order of its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Opened with the wish to create it if it is not there.
    Create(PathBuf),
    MakeDirectory(PathBuf),
    Unlink(PathBuf),
    Write {
        path: PathBuf,
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate {
        path: PathBuf,
        len: u64,
    },
    /// Writes that were finished before are durable once this is.
    Sync(PathBuf),
    /// The process said something about itself.
    Mark(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) call: Call,
    /// So many calls had begun when this one ended, itself among them.
    pub(super) ended: usize,
}

/// The prefix of a mark on the standard error of the process.
pub(super) const MARK: &[u8] = b"crash-mark ";

/// Runs a program to its end, and returns its calls below `root`.
pub(super) fn trace(program: &mut Command, root: &Path) -> Vec<Traced> {
    let out = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", STRING_MAX, "-e", CALLS, "-e", "signal=none", "-o"])
        .arg(out.path())
        .arg(program.get_program())
        .args(program.get_args())
        .envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Only strace needs to see what is said there.
        .stderr(Stdio::null())
        .status()
        .expect("strace is not installed: scripts/need.sh installs it");
    assert!(status.success(), "the traced process ended with {status}");
    let text = std::fs::read_to_string(out.path()).unwrap();
    let mut reader = Reader { root: root.to_owned(), traced: Vec::new(), unfinished: BTreeMap::new() };
    for line in text.lines() {
        reader.line(line).unwrap_or_else(|| panic!("strace wrote what is not understood here: {line:.300}"));
    }
    reader.traced
}

struct Reader {
    root: PathBuf,
    traced: Vec<Traced>,
    /// Calls that were under way when another thread made one, by process id: the line as far as it got, and the
    /// place in `traced` where the call stands already.
    unfinished: BTreeMap<String, (String, Option<usize>)>,
}

impl Reader {
    /// `None` when it makes no sense.
    fn line(&mut self, line: &str) -> Option<()> {
        let (pid, rest) = line.split_once(' ')?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            return Some(());
        }
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            let begun = begun.trim_end_matches(',');
            // A write may reach the disk from here on; every other call has happened only when it has ended.
            let index = match self.call(begun)? {
                Some(call @ (Call::Write { .. } | Call::Truncate { .. } | Call::Sync(_) | Call::Mark(_))) => {
                    self.traced.push(Traced { call, ended: usize::MAX });
                    Some(self.traced.len() - 1)
                }
                _ => None,
            };
            self.unfinished.insert(pid.to_owned(), (begun.to_owned(), index));
            return Some(());
        }
        if let Some(resumed) = rest.strip_prefix("<... ") {
            let (_, ending) = resumed.split_once(" resumed>")?;
            let (begun, index) = self.unfinished.remove(pid)?;
            let Some(index) = index else { return self.finished(&format!("{begun}{ending}")) };
            assert!(!failed(ending)?, "a call that changes files failed: {begun:.200}{ending}");
            self.traced[index].ended = self.traced.len();
            return Some(());
        }
        self.finished(rest)
    }

    fn finished(&mut self, text: &str) -> Option<()> {
        let call = self.call(text)?;
        if failed(text)? {
            // Looking for what is not there, or making what is there.
            assert!(!matches!(call, Some(Call::Write { .. } | Call::Truncate { .. } | Call::Sync(_))), "{text:.200}");
            return Some(());
        }
        if let Some(call) = call {
            self.traced.push(Traced { call, ended: self.traced.len() + 1 });
        }
        Some(())
    }

    /// `Some(None)` when it is of no interest, `None` when it makes no sense.
    #[expect(clippy::option_option, reason = "the two kinds of nothing are said right above")]
    fn call(&self, text: &str) -> Option<Option<Call>> {
        let (name, args) = text.split_once('(')?;
        let strings = strings(args)?;
        let (path, call): (PathBuf, fn(PathBuf) -> Call) = match name {
            "openat" => {
                let path = path(strings.get(1)?);
                assert!(!(args.contains("O_TRUNC") && path.starts_with(&self.root)), "{text:.200}");
                return Some((args.contains("O_CREAT") && self.is_ours(&path)).then_some(Call::Create(path)));
            }
            "mkdir" => (path(strings.first()?), Call::MakeDirectory),
            "unlink" => (path(strings.first()?), Call::Unlink),
            "fsync" | "fdatasync" => (path(strings.first()?), Call::Sync),
            "ftruncate" => {
                let len = number(args.rsplit_once(", ")?.1)?;
                let path = path(strings.first()?);
                return Some(self.is_ours(&path).then_some(Call::Truncate { path, len }));
            }
            "write" if strings.get(1)?.starts_with(MARK) => {
                return Some(Some(Call::Mark(strings[1][MARK.len()..].to_vec())));
            }
            "pwrite64" => {
                let path = path(strings.first()?);
                if !self.is_ours(&path) {
                    return Some(None);
                }
                assert!(!args.contains("\"..."), "a write longer than {STRING_MAX} bytes");
                let (_, numbers) = args.rsplit_once("\", ")?;
                let (len, offset) = numbers.split_once(", ")?;
                let bytes = strings.get(1)?.clone();
                assert_eq!(number(len)?, bytes.len() as u64);
                return Some(Some(Call::Write { path, offset: number(offset)?, bytes }));
            }
            // No process here makes any other call; a new one must be understood first.
            _ => {
                let touches_ours = strings.iter().any(|string| self.is_ours(&path(string)));
                assert!(!touches_ours, "a call that is not understood here: {text:.300}");
                return Some(None);
            }
        };
        Some((path.starts_with(&self.root) && !is_fleeting(&path)).then(|| call(path)))
    }

    fn is_ours(&self, path: &Path) -> bool {
        path.starts_with(&self.root) && !is_fleeting(path)
    }
}

/// The first process to open the database makes it anew, so it does not matter what a crash leaves of it.
fn is_fleeting(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with("-shm") || path.extension().is_some_and(|extension| extension == "lock")
}

fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStringExt as _;
    PathBuf::from(std::ffi::OsString::from_vec(bytes.to_vec()))
}

/// The texts in quotes and in angle brackets, all of them in hexadecimal.
fn strings(args: &str) -> Option<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    let mut rest = args;
    while let Some(start) = rest.find(['"', '<']) {
        let end = if rest.as_bytes()[start] == b'"' { '"' } else { '>' };
        let (inner, after) = rest[start + 1..].split_once(end)?;
        // A socket or a pipe is shown in plain text.
        found.push(if inner.starts_with("\\x") { unhex(inner)? } else { Vec::new() });
        rest = after;
    }
    Some(found)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (quads, rest) = text.as_bytes().as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    quads.iter().map(|&[_, _, high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// The number at the beginning.
fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

fn failed(text: &str) -> Option<bool> {
    Some(text.rsplit_once(" = ")?.1.starts_with('-'))
}
