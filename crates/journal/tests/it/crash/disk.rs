//! A disk that promises as little as a real one may. Nothing is durable before it is synced: each sector of a write,
//! the new length of a file, a cut, a name in a directory may be there after a crash or not, independently of all
//! others. A sync of a file says nothing about another file, nor about its own name; a name needs a sync of its
//! directory.
//!
//! ```text
//!   steps ──▶ Disk ── pending() ──▶ pieces ── any subset of them ──▶ image()
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use super::recording::{FileCall, Step};

/// The unit that is written in one go or not at all.
const SECTOR_BYTES: u64 = 512;
/// The unit that many disks and file systems write in one go.
const BLOCK_BYTES: u64 = 4096;

/// The files of a data directory by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Image {
    pub(super) files: BTreeMap<String, Vec<u8>>,
}

impl Image {
    /// Tells images apart. Two images with the same hash are rare enough that one of them may be skipped.
    pub(super) fn hash(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for (name, bytes) in &self.files {
            hasher.update(name.as_bytes());
            hasher.update(bytes);
        }
        hasher.finalize()
    }

    /// Makes a directory look like this.
    pub(super) fn put(&self, directory: &Path) {
        // For its owner alone, as the store demands.
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(builder.recursive(true), 0o700);
        builder.create(directory).unwrap();
        for entry in std::fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            if !self.files.contains_key(entry.file_name().to_str().unwrap()) {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        for (name, bytes) in &self.files {
            std::fs::write(directory.join(name), bytes).unwrap();
        }
    }
}

/// The disk at one moment: what is durable, and what is being written.
#[derive(Debug)]
pub(super) struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    /// Changes of names, in order. `None` is an unlink.
    pending_names: Vec<Pending<(String, Option<usize>)>>,
    has_directory: bool,
    pending_directory: Option<Pending<()>>,
    syncs: Vec<Sync>,
}

#[derive(Debug, Default)]
struct File {
    durable: Vec<u8>,
    /// As the process sees it.
    len: u64,
    pending: Vec<Pending<Change>>,
}

#[derive(Clone, Debug)]
struct Pending<T> {
    step: usize,
    ended: usize,
    what: T,
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Vec<u8>, grows: bool },
    Truncate { len: u64 },
}

/// A sync that has begun.
#[derive(Debug)]
struct Sync {
    begun: usize,
    ended: usize,
    of: Synced,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Synced {
    File(usize),
    Directory,
    Parent,
}

/// A part of a write that is kept or lost as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The step it is of.
    pub(super) step: usize,
    /// Which block of its file it is in.
    pub(super) block: u64,
    of: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Sector {
        file: usize,
        pending: usize,
        from: u64,
        to: u64,
    },
    /// A write made the file longer: its length without its bytes.
    Length {
        file: usize,
        len: u64,
    },
    Truncate {
        file: usize,
        len: u64,
    },
    Name {
        pending: usize,
    },
    Directory,
}

impl Disk {
    /// A disk with these files, `None` without even a directory for them. The files are numbered in the order of names.
    pub(super) fn new(start: Option<&Image>) -> Disk {
        let files = start.into_iter().flat_map(|image| image.files.values());
        let names = start.into_iter().flat_map(|image| image.files.keys());
        Disk {
            files: files
                .map(|bytes| File { durable: bytes.clone(), len: bytes.len() as u64, pending: vec![] })
                .collect(),
            names: names.cloned().zip(0..).collect(),
            pending_names: Vec::new(),
            has_directory: start.is_some(),
            pending_directory: None,
            syncs: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, number: usize, step: &Step) {
        let &Step { begun, ended, ref action } = step;
        match action {
            FileCall::MakeDirectory => self.pending_directory = Some(Pending { step: number, ended, what: () }),
            FileCall::Create { name, file } => {
                assert_eq!(*file, self.files.len(), "files are numbered as they are made");
                self.files.push(File::default());
                self.pending_names.push(Pending { step: number, ended, what: (name.clone(), Some(*file)) });
            }
            FileCall::Unlink { name } => {
                self.pending_names.push(Pending { step: number, ended, what: (name.clone(), None) });
            }
            FileCall::Write { file, offset, bytes } => {
                let file = &mut self.files[*file];
                let end = offset + bytes.len() as u64;
                let what = Change::Write { offset: *offset, bytes: bytes.clone(), grows: end > file.len };
                file.len = file.len.max(end);
                file.pending.push(Pending { step: number, ended, what });
            }
            FileCall::Truncate { file, len } => {
                let file = &mut self.files[*file];
                file.len = *len;
                file.pending.push(Pending { step: number, ended, what: Change::Truncate { len: *len } });
            }
            FileCall::Sync(of) => self.syncs.push(Sync { begun, ended, of: *of }),
            FileCall::Mark => {}
        }
        // Those of other threads may have ended in the meantime.
        let (done, under_way) = std::mem::take(&mut self.syncs).into_iter().partition(|sync| sync.ended <= begun + 1);
        self.syncs = under_way;
        let done: Vec<Sync> = done;
        for sync in &done {
            self.sync(sync);
        }
    }

    fn sync(&mut self, sync: &Sync) {
        match sync.of {
            Synced::File(file) => {
                let file = &mut self.files[file];
                for pending in take_ended(&mut file.pending, sync.begun) {
                    match pending.what {
                        Change::Write { offset, bytes, .. } => write(&mut file.durable, offset, &bytes),
                        Change::Truncate { len } => resize(&mut file.durable, len),
                    }
                }
            }
            Synced::Directory => {
                for pending in take_ended(&mut self.pending_names, sync.begun) {
                    rename(&mut self.names, &pending.what);
                }
            }
            Synced::Parent => {
                if self.pending_directory.take_if(|pending| pending.ended <= sync.begun).is_some() {
                    self.has_directory = true;
                }
            }
        }
    }

    /// Everything that a crash would keep or lose now.
    pub(super) fn pending(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(pending) = &self.pending_directory {
            pieces.push(Piece { step: pending.step, block: 0, of: Part::Directory });
        }
        for (number, pending) in self.pending_names.iter().enumerate() {
            pieces.push(Piece { step: pending.step, block: 0, of: Part::Name { pending: number } });
        }
        for (file, changes) in self.files.iter().enumerate() {
            for (number, Pending { step, what, .. }) in changes.pending.iter().enumerate() {
                match what {
                    Change::Write { offset, bytes, grows } => {
                        let end = offset + bytes.len() as u64;
                        if *grows {
                            pieces.push(Piece { step: *step, block: u64::MAX, of: Part::Length { file, len: end } });
                        }
                        let mut from = *offset;
                        while from < end {
                            let to = end.min((from / SECTOR_BYTES + 1) * SECTOR_BYTES);
                            let of = Part::Sector { file, pending: number, from, to };
                            pieces.push(Piece { step: *step, block: from / BLOCK_BYTES, of });
                            from = to;
                        }
                    }
                    Change::Truncate { len } => {
                        pieces.push(Piece { step: *step, block: 0, of: Part::Truncate { file, len: *len } });
                    }
                }
            }
        }
        pieces
    }

    /// The files after a crash that kept some of the pieces.
    pub(super) fn image(&self, pieces: &[Piece], keep: &[bool]) -> Image {
        let kept = || pieces.iter().zip(keep).filter(|(_, keep)| **keep).map(|(piece, _)| piece.of);
        if !self.has_directory && !kept().any(|part| part == Part::Directory) {
            return Image::default();
        }
        let mut names = self.names.clone();
        let mut contents: Vec<Option<Vec<u8>>> = vec![None; self.files.len()];
        for part in kept() {
            if let Part::Name { pending } = part {
                rename(&mut names, &self.pending_names[pending].what);
            }
        }
        for &file in names.values() {
            contents[file] = Some(self.files[file].durable.clone());
        }
        for part in kept() {
            let (Part::Sector { file, .. } | Part::Length { file, .. } | Part::Truncate { file, .. }) = part else {
                continue;
            };
            let Some(content) = &mut contents[file] else { continue };
            match part {
                Part::Sector { pending, from, to, .. } => {
                    let Change::Write { offset, bytes, .. } = &self.files[file].pending[pending].what else {
                        unreachable!("only writes have sectors")
                    };
                    let inner = |at: u64| usize::try_from(at - offset).unwrap();
                    write(content, from, &bytes[inner(from)..inner(to)]);
                }
                Part::Length { len, .. } if content.len() as u64 <= len => resize(content, len),
                Part::Truncate { len, .. } => resize(content, len),
                Part::Length { .. } | Part::Name { .. } | Part::Directory => {}
            }
        }
        let files = names.into_iter().map(|(name, file)| (name, contents[file].take().expect("one name a file")));
        Image { files: files.collect() }
    }
}

/// Those that had ended before a sync began.
fn take_ended<T: Clone>(pending: &mut Vec<Pending<T>>, begun: usize) -> Vec<Pending<T>> {
    pending.extract_if(.., |pending| pending.ended <= begun).collect()
}

fn rename(names: &mut BTreeMap<String, usize>, (name, file): &(String, Option<usize>)) {
    match file {
        Some(file) => names.insert(name.clone(), *file),
        None => names.remove(name),
    };
}

fn write(content: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    let offset = usize::try_from(offset).unwrap();
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

fn resize(content: &mut Vec<u8>, len: u64) {
    content.resize(usize::try_from(len).unwrap(), 0);
}
