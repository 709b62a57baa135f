//! One data directory's part of a trace: what was done to it step by step, and what must be in it after a crash at each
//! of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_journal::record::{BatchReader, ChunkReader};

use super::disk::{Image, Synced};
use super::trace::{Call, Traced};

/// The content of the journal for a process that opens it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// The epoch of the last owner.
    pub(super) epoch: u64,
    /// The end of the checkpoint, and its chunks.
    pub(super) upto: u64,
    pub(super) chunks: Vec<Arc<[u8]>>,
    /// Batches that are not wholly in the checkpoint, with their last positions.
    pub(super) batches: Vec<(u64, Arc<[u8]>)>,
}

#[derive(Debug)]
pub(super) struct Recording {
    /// The disk before; `None` without even the directory.
    pub(super) start: Option<Image>,
    pub(super) steps: Vec<Step>,
    /// After each step: what must be there, or, while something is under way, may be there instead.
    pub(super) expected: Vec<Expected>,
}

#[derive(Debug)]
pub(super) struct Step {
    /// In the order of the whole trace, as is `ended`.
    pub(super) begun: usize,
    pub(super) ended: usize,
    pub(super) action: FileCall,
}

/// A call, its files numbered: a name that is given anew is another file.
#[derive(Debug)]
pub(super) enum FileCall {
    MakeDirectory,
    Create { name: String, file: usize },
    Unlink { name: String },
    Write { file: usize, offset: u64, bytes: Vec<u8> },
    Truncate { file: usize, len: u64 },
    Sync(Synced),
    Mark,
}

#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) sure: Arc<Content>,
    pub(super) maybe: Option<Arc<Content>>,
}

impl Recording {
    /// The calls that concern `directory`, which held `start`, and its parent.
    pub(super) fn new(traced: &[Traced], directory: &Path, start: Option<Image>, content: Content) -> Recording {
        let mut names = Names {
            directory: directory.to_owned(),
            files: start.iter().flat_map(|image| image.files.keys().cloned()).zip(0..).collect(),
            made: start.as_ref().map_or(0, |image| image.files.len()),
        };
        let mut story = Story::new(content);
        let (mut steps, mut expected) = (Vec::new(), Vec::new());
        for (begun, Traced { call, ended }) in traced.iter().enumerate() {
            let action = match call {
                Call::Mark(mark) if story.tell(mark, directory) => FileCall::Mark,
                call => match names.action(call) {
                    Some(action) => action,
                    None => continue,
                },
            };
            steps.push(Step { begun, ended: *ended, action });
            expected.push(story.now.clone());
        }
        assert!(story.now.maybe.is_none(), "the process did not end what it began");
        Recording { start, steps, expected }
    }
}

struct Names {
    directory: PathBuf,
    files: BTreeMap<String, usize>,
    made: usize,
}

impl Names {
    /// `None` when it is about other directories, or changes nothing.
    fn action(&mut self, call: &Call) -> Option<FileCall> {
        let name_of = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.filter(|_| path.parent() == Some(&self.directory)).map(str::to_owned)
        };
        let file_of = |path: &Path| {
            let name = name_of(path)?;
            Some(*self.files.get(&name).unwrap_or_else(|| panic!("{name} was changed without being there")))
        };
        Some(match call {
            Call::MakeDirectory(path) if *path == self.directory => FileCall::MakeDirectory,
            Call::Create(path) => {
                let name = name_of(path)?;
                if self.files.contains_key(&name) {
                    return None;
                }
                let file = self.made;
                self.made += 1;
                self.files.insert(name.clone(), file);
                FileCall::Create { name, file }
            }
            Call::Unlink(path) => {
                let name = name_of(path)?;
                self.files.remove(&name).expect("a missing file is not unlinked");
                FileCall::Unlink { name }
            }
            Call::Write { path, offset, bytes } => {
                FileCall::Write { file: file_of(path)?, offset: *offset, bytes: bytes.clone() }
            }
            Call::Truncate { path, len } => FileCall::Truncate { file: file_of(path)?, len: *len },
            Call::Sync(path) if *path == self.directory => FileCall::Sync(Synced::Directory),
            Call::Sync(path) if Some(&**path) == self.directory.parent() => FileCall::Sync(Synced::Parent),
            Call::Sync(path) => FileCall::Sync(Synced::File(file_of(path)?)),
            Call::MakeDirectory(_) | Call::Mark(_) => return None,
        })
    }
}

/// Follows the marks that the process wrote about itself.
struct Story {
    now: Expected,
    /// Chunks of the checkpoint under way.
    chunks: Vec<Arc<[u8]>>,
}

impl Story {
    fn new(content: Content) -> Self {
        Story { now: Expected { sure: Arc::new(content), maybe: None }, chunks: Vec::new() }
    }

    /// `directory word bytes`, as `workload` says it. False when it is about another directory.
    fn tell(&mut self, mark: &[u8], directory: &Path) -> bool {
        let mut parts = mark.splitn(3, |&byte| byte == b' ');
        let mut part = || parts.next().expect("a mark has three parts");
        let (about, word, bytes) = (part(), part(), part());
        if about != directory.as_os_str().as_encoded_bytes() {
            return false;
        }
        let mut next = Content::clone(&self.now.sure);
        match word {
            b"open" => next.epoch += 1,
            b"append" => next.append(bytes),
            b"checkpoint" => {
                self.chunks.clear();
                return true;
            }
            b"chunk" => {
                self.chunks.push(bytes.into());
                return true;
            }
            b"finish" => next.finish(std::mem::take(&mut self.chunks)),
            b"done" => {
                self.now.sure = self.now.maybe.take().expect("something was begun");
                return true;
            }
            word => panic!("{}", String::from_utf8_lossy(word)),
        }
        assert!(self.now.maybe.is_none(), "one thing at a time");
        self.now.maybe = Some(Arc::new(next));
        true
    }
}

impl Content {
    pub(super) fn append(&mut self, record: &[u8]) {
        let last = BatchReader::open(record).unwrap().header().last();
        self.batches.push((last.0, record.into()));
    }

    fn finish(&mut self, chunks: Vec<Arc<[u8]>>) {
        self.upto = ChunkReader::open(&chunks[0]).unwrap().header().upto.0;
        self.chunks = chunks;
        self.batches.retain(|(last, _)| *last > self.upto);
    }

    pub(super) fn head(&self) -> u64 {
        self.batches.last().map_or(self.upto, |(last, _)| *last)
    }
}
