//! The process that is traced: uses the store in every way there is, and says on its standard error what it is about to
//! do and what was acknowledged.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use leasehold_engine::{Change, Counters, Fact, Holds, Moment, ResourceFact, ResourceKey, Time, Token, Wall};
use leasehold_journal::record::{BatchWriter, ChunkWriter};
use leasehold_journal::store::sqlite::Upkeep;
use leasehold_journal::{Opener as _, Position, SqliteOpener, Store};

use super::trace::MARK;
use crate::conformance::PARTITION;

/// Small enough that the log is started over, the past is swept and room is given back many times.
const UPKEEP: Upkeep = Upkeep {
    wal_soft_frames: 6,
    wal_hard_frames: 16,
    sweep_batches: 3,
    sweep_chunks: 1,
    slack_pages: 2,
    vacuum_pages: 3,
};

/// The tasks of a traced process.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Begin,
    Grow,
    Again,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Begin => "begin",
            Role::Grow => "grow",
            Role::Again => "again",
        }
    }

    pub(super) fn play(name: &str, directory: &Path) {
        match name {
            "begin" => begin(directory),
            "grow" => grow(directory),
            "again" => again(directory),
            unknown => panic!("{unknown}"),
        }
    }
}

/// From nothing: batches of all sizes, checkpoints that replace each other between appends, a clean end and two more
/// lives, the last one without an end.
fn grow(directory: &Path) {
    let mut life = Life::open(directory);
    for changes in [1, 2, 1, 9, 1, 1, 24, 1, 1, 2] {
        life.append(changes);
        life.maintain();
    }
    life.checkpoint(4, 1);
    for changes in [1, 5, 1] {
        life.append(changes);
        life.maintain();
    }
    // `maintain` is never called, so appends have to do its work.
    for _ in 0..10 {
        life.append(2);
    }
    life.checkpoint(3, 2);
    life.come_to_rest();
    life.append(1);
    life.abandon_checkpoint();
    life.append(10);
    drop(life);

    let mut life = Life::open(directory);
    life.come_to_rest();
    for changes in [1, 1, 3] {
        life.append(changes);
    }
    life.checkpoint(1, 0);
    life.come_to_rest();
    drop(life);

    let mut life = Life::open(directory);
    life.append(1);
    life.append(2);
}

/// From nothing, just far enough that there is something to lose; the last batch is of several pages.
fn begin(directory: &Path) {
    let mut life = Life::open(directory);
    life.append(1);
    life.append(24);
}

/// After a crash: goes on from what was found.
fn again(directory: &Path) {
    let mut life = Life::open(directory);
    life.append(1);
    life.append(12);
    life.maintain();
    life.append(1);
    drop(life);
    Life::open(directory).append(1);
}

/// One owner's time.
struct Life {
    directory: PathBuf,
    store: Box<dyn Store>,
    writer: BatchWriter,
    at: Time,
}

impl Life {
    fn open(directory: &Path) -> Life {
        say(directory, "open", b"");
        let opener = SqliteOpener::new(directory).with_upkeep(UPKEEP);
        let opened = opener.open(PARTITION, &mut |_| Ok(())).unwrap();
        say(directory, "done", b"");
        Life {
            directory: directory.to_owned(),
            store: opened.store,
            writer: BatchWriter::new(PARTITION, opened.epoch, opened.head.next()),
            // Service time goes on from epoch to epoch.
            at: Time(opened.epoch.0 * 1_000_000),
        }
    }

    /// A batch that makes as many resources, each named after its position.
    fn append(&mut self, changes: usize) -> Position {
        for _ in 0..changes {
            self.at = self.at.plus(1);
            let resource = resource(self.writer.next_position().0);
            self.writer.push(Moment { at: self.at, wall: Wall(0) }, &Change::Configured { resource, capacity: 1 });
        }
        let batch = self.writer.seal();
        say(&self.directory, "append", &batch.record);
        self.store.append(&batch).unwrap();
        say(&self.directory, "done", b"");
        batch.last
    }

    fn maintain(&mut self) {
        self.store.maintain().unwrap();
    }

    fn come_to_rest(&mut self) {
        while self.store.maintain().unwrap() {}
    }

    /// A checkpoint of the state, with appends and upkeep between its chunks.
    fn checkpoint(&mut self, chunks: u64, appends_between: usize) {
        let upto = self.append(1);
        say(&self.directory, "checkpoint", b"");
        self.store.begin_checkpoint(upto).unwrap();
        for chunk in self.chunks(upto, chunks) {
            say(&self.directory, "chunk", &chunk);
            self.store.put_chunk(&chunk).unwrap();
            for _ in 0..appends_between {
                self.append(7);
                self.maintain();
            }
        }
        say(&self.directory, "finish", b"");
        self.store.finish_checkpoint().unwrap();
        say(&self.directory, "done", b"");
        self.maintain();
    }

    fn abandon_checkpoint(&mut self) {
        let upto = self.append(1);
        self.store.begin_checkpoint(upto).unwrap();
        self.store.put_chunk(&self.chunks(upto, 1)[0]).unwrap();
    }

    /// The state after `upto`: a resource for every position.
    fn chunks(&self, upto: Position, count: u64) -> Vec<Vec<u8>> {
        let mut writer = ChunkWriter::new(PARTITION, upto, Moment { at: self.at, wall: Wall(0) });
        writer.push(&Fact::Counters(Counters { last_token: Token(0), last_order: 0 }));
        let fact = |position| {
            let resource = resource(position);
            let (label, holds) = (None, Holds::default());
            let (last_token, fittings) = (Token(0), None);
            Fact::Resource(ResourceFact { resource, capacity: 1, configured: true, last_token, label, holds, fittings })
        };
        let seal = |number: u64| {
            (1..=upto.0)
                .filter(|position| position % count == number)
                .for_each(|position| writer.push(&fact(position)));
            writer.seal()
        };
        (0..count).map(seal).collect()
    }
}

/// A long name, so that a few of them fill a page.
fn resource(position: u64) -> ResourceKey {
    ResourceKey::Claim(Arc::from(format!("{position:0>400}")))
}

/// In one write, so that it is one line of the trace.
fn say(directory: &Path, word: &str, bytes: &[u8]) {
    let mark = [MARK, directory.as_os_str().as_encoded_bytes(), b" ", word.as_bytes(), b" ", bytes].concat();
    let written = std::io::stderr().write(&mark).unwrap();
    assert_eq!(written, mark.len());
}
