//! Helpers for tests of a shared store beside the suite: nodes, takings, and batches one after another.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use leasehold_engine::{Change, Moment, Time, Wall};
use leasehold_journal::{BatchWriter, Position};

use crate::hash::Partitions;
use crate::ids::{Link, NodeId};
use crate::map::{NodeRecord, Reign};
use crate::store::{Append, Birth, Cursor, Landing, Piece, SharedError, SharedStore, Taking};

/// Partitions of the clusters of these tests.
pub const PARTITIONS: u32 = 8;
/// A store that is away for so many calls is away for good.
const CALLS_MAX: usize = 20;

/// The facts of these clusters.
pub fn birth() -> Birth {
    Birth { partitions: Partitions::new(PARTITIONS), format: 1, secret: [7; 32] }
}

/// The record of a node.
pub fn node(number: u128) -> NodeRecord {
    NodeRecord::new(NodeId(number << 96 | number), &format!("node-{number}:8081"))
}

/// Takes a partition for a node, from no node or a dead one.
pub async fn take(store: &dyn SharedStore, partition: u32, number: u128) -> Reign {
    let map = store.map().await.unwrap();
    let seen = map.owners[partition as usize].clone();
    let dead = seen.value.node.and_then(|node| map.node(node).cloned());
    let (epoch, at) = (seen.value.epoch.next(), seen.value.at);
    store.take(Taking { partition, seen, dead, node: node(number).node, epoch, at }).await.unwrap()
}

/// Buries a node.
pub async fn bury(store: &dyn SharedStore, number: u128) {
    let seen = store.map().await.unwrap().node(node(number).node).cloned().unwrap();
    store.bury(seen).await.unwrap();
}

/// Appends until the store says what became of it, as a node does.
pub async fn persist(store: &dyn SharedStore, append: &Append) -> Landing {
    let mut last = String::new();
    for _ in 0..CALLS_MAX {
        match store.append(vec![append.clone()]).await {
            Ok(landings) => return landings.into_iter().next().unwrap(),
            Err(SharedError::Away(why)) => last = why,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store is away for good: {last}");
}

/// Gives the last partition up, if it has an owner, and takes it for node 1: something has to be written for that.
pub async fn settle(store: &dyn SharedStore) {
    let partition = PARTITIONS - 1;
    for _ in 0..CALLS_MAX {
        let seen = match store.map().await {
            Ok(map) => map.owners[partition as usize].clone(),
            Err(SharedError::Away(_)) => continue,
            Err(error) => panic!("{error}"),
        };
        let (at, node) = (seen.value.at, node(1).node);
        let ended = if seen.value.node.is_some() {
            let reign = Reign { partition, owner: seen.value, version: seen.version };
            store.let_go(reign, at).await.map(|()| false)
        } else {
            let epoch = seen.value.epoch.next();
            store.take(Taking { partition, at, seen, dead: None, node, epoch }).await.map(|_| true)
        };
        match ended {
            Ok(true) => return,
            Ok(false) | Err(SharedError::Away(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store is away for good");
}

/// The records of a stream, chunks and batches.
pub async fn read_all(store: &dyn SharedStore, partition: u32) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut next = Some(Cursor::After(Position::START));
    while let Some(from) = next {
        let page = match store.read(partition, from).await {
            Err(SharedError::Away(_)) => continue,
            page => page.unwrap(),
        };
        records.extend(page.pieces.into_iter().map(|piece| match piece {
            Piece::Chunk { record, .. } | Piece::Batch { record, .. } => record,
        }));
        next = page.next;
    }
    records
}

/// Batches one after another under one reign.
#[derive(Debug)]
pub struct Chain {
    /// The reign.
    pub reign: Reign,
    /// The records of the batches so far.
    pub records: Vec<Vec<u8>>,
    writer: BatchWriter,
    before: Link,
    at: u64,
}

impl Chain {
    /// From the beginning.
    pub fn new(reign: Reign) -> Self {
        Self::after(reign, Position::START, Link::default())
    }

    /// After the batch of another reign.
    pub fn after(reign: Reign, head: Position, before: Link) -> Self {
        let writer = BatchWriter::new(reign.partition, reign.epoch(), head.next());
        Chain { reign, records: Vec::new(), writer, before, at: 0 }
    }

    /// The next batch, of so many changes of about three bytes each.
    pub fn next(&mut self, changes: usize) -> Append {
        for _ in 0..changes {
            self.change();
        }
        self.seal()
    }

    /// The next batch, of so many bytes or a few more.
    pub fn next_of(&mut self, bytes: usize) -> Append {
        while self.writer.is_empty() || self.writer.bytes() < bytes {
            self.change();
        }
        self.seal()
    }

    /// The next change is of this service time and not an earlier one, so that its bytes differ from those of another
    /// chain.
    pub fn at(&mut self, at: u64) {
        self.at = at;
    }

    /// The position of its last change.
    pub fn head(&self) -> Position {
        Position(self.writer.next_position().0 - 1)
    }

    fn change(&mut self) {
        self.at += 1000;
        self.writer.push(Moment { at: Time(self.at), wall: Wall(self.at) }, &Change::Marked);
    }

    fn seal(&mut self) -> Append {
        let batch = self.writer.seal();
        let append = Append { reign: self.reign, before: self.before, batch };
        self.before = Link::to(&append.batch);
        self.records.push(append.batch.record.clone());
        append
    }
}
