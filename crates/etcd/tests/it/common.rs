//! Stores on a cluster, and batches for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_cluster::{
    Append, Birth, Cursor, Landing, Link, NodeId, NodeRecord, Partitions, Piece, Reign, SharedError, SharedStore,
    Taking,
};
use leasehold_engine::{Change, Moment, Time, Wall};
use leasehold_etcd::{Address, EtcdStore};
use leasehold_journal::{BatchWriter, Position};
use tokio::runtime::Runtime;

pub(crate) const PARTITIONS: u32 = 8;

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A store under a prefix that no other test uses.
pub(crate) fn address(hosts: &str, query: &str) -> Address {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("etcd://{hosts}/t{number}{query}").parse().unwrap()
}

pub(crate) fn birth() -> Birth {
    Birth { partitions: Partitions::new(PARTITIONS), format: 1, secret: [7; 32] }
}

pub(crate) fn node(number: u128) -> NodeRecord {
    NodeRecord::new(NodeId(number << 96 | number), &format!("node-{number}:8081"))
}

/// Joins.
pub(crate) async fn joined(address: &Address, number: u128) -> EtcdStore {
    let store = EtcdStore::new(address).unwrap();
    store.join(node(number), birth()).await.unwrap();
    store
}

pub(crate) async fn take(store: &EtcdStore, partition: u32, number: u128) -> Reign {
    let map = store.map().await.unwrap();
    let seen = map.owners[partition as usize].clone();
    let dead = seen.value.node.and_then(|node| map.node(node).cloned());
    let at = seen.value.at;
    store.take(Taking { partition, seen, dead, node: node(number).node, at }).await.unwrap()
}

pub(crate) async fn bury(store: &EtcdStore, number: u128) {
    let seen = store.map().await.unwrap().node(node(number).node).cloned().unwrap();
    store.bury(seen).await.unwrap();
}

/// Batches one after another under one reign.
pub(crate) struct Stream {
    pub(crate) reign: Reign,
    writer: BatchWriter,
    before: Link,
    at: u64,
    pub(crate) records: Vec<Vec<u8>>,
}

impl Stream {
    pub(crate) fn new(reign: Reign) -> Self {
        Self::after(reign, Position::START, Link::default())
    }

    pub(crate) fn after(reign: Reign, head: Position, before: Link) -> Self {
        let writer = BatchWriter::new(reign.partition, reign.epoch(), head.next());
        Stream { reign, writer, before, at: 0, records: Vec::new() }
    }

    /// The next batch, of so many changes of about three bytes each.
    pub(crate) fn next(&mut self, changes: usize) -> Append {
        for _ in 0..changes {
            self.at += 1000;
            self.writer.push(Moment { at: Time(self.at), wall: Wall(self.at) }, &Change::Marked);
        }
        let batch = self.writer.seal();
        let append = Append { reign: self.reign, before: self.before, batch };
        self.before = Link::to(&append.batch);
        self.records.push(append.batch.record.clone());
        append
    }
}

/// Appends until the store says what became of it, as a node does.
pub(crate) async fn persist(store: &EtcdStore, append: &Append) -> Landing {
    for _ in 0..20 {
        match store.append(vec![append.clone()]).await {
            Ok(landings) => return landings.into_iter().next().unwrap(),
            Err(SharedError::Away(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store is away for good");
}

pub(crate) async fn read_all(store: &EtcdStore, partition: u32) -> Vec<Vec<u8>> {
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

pub(crate) const SECOND: Duration = Duration::from_secs(1);
