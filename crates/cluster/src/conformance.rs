//! The suite that every shared store has to pass. A store joins with one factory:
//!
//! ```
//! use leasehold_cluster::{MemoryStore, conformance};
//!
//! for (name, test) in conformance::TESTS {
//!     let first = MemoryStore::new(); // an empty store
//!     println!("{name}");
//!     conformance::block_on(test(Box::new(move || Box::new(first.connect())))); // or the executor that the store needs
//! }
//! ```
//!
//! Each test gets a store of its own, empty, and connects to it as often as it likes.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a suite of tests")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use leasehold_engine::{Change, Moment, Time, Wall};
use leasehold_journal::record::BatchReader;
use leasehold_journal::{BatchWriter, Epoch, Position};

use crate::hash::Partitions;
use crate::ids::{Link, NodeId, Sum};
use crate::map::{Map, Mark, Meta, NodeRecord, Owner, Reign, Seen, Stage, Transfer};
use crate::store::{Append, Birth, CheckpointId, Cursor, Landing, Page, Piece, SharedError, SharedStore, Taking};

/// Makes one more connection to the store of this test.
pub type Connect = Box<dyn Fn() -> Box<dyn SharedStore>>;

/// A test under way.
pub type Running = Pin<Box<dyn Future<Output = ()>>>;

/// A test: it panics when the store breaks the contract.
pub type Test = fn(Connect) -> Running;

macro_rules! tests {
    ($($name:ident),+ $(,)?) => {
        /// Every test with its name.
        pub const TESTS: &[(&str, Test)] = &[$((stringify!($name), |connect| Box::pin($name(connect)))),+];
    };
}

tests! {
    the_first_join_makes_the_cluster,
    a_join_with_other_facts_is_refused,
    a_format_only_rises_and_nodes_that_do_not_know_it_cannot_join,
    a_join_is_recognised_when_it_is_sent_again,
    a_beat_is_seen_and_may_be_sent_again,
    an_older_beat_changes_nothing,
    a_buried_node_neither_beats_nor_confirms,
    burying_compares_what_was_seen,
    a_node_is_forgotten_only_when_buried_and_named_by_no_partition,
    a_free_partition_is_taken_once,
    an_epoch_may_jump_and_never_stays,
    a_partition_of_the_living_is_not_taken,
    a_partition_of_the_dead_is_taken_with_its_time,
    a_taking_compares_the_burial_it_saw,
    a_taking_is_recognised_when_it_is_sent_again,
    letting_go_leaves_it_to_the_next,
    a_batch_is_appended_once_however_often_it_is_sent,
    an_append_of_an_old_reign_lands_never,
    an_append_that_landed_is_durable_under_any_owner,
    an_append_elsewhere_than_at_the_end_is_behind,
    a_transaction_may_hold_batches_of_several_partitions,
    another_batch_at_the_same_place_is_not_ours,
    a_long_stream_is_read_page_by_page,
    a_page_shows_the_owner_of_its_instant,
    a_checkpoint_replaces_what_it_covers,
    a_checkpoint_of_an_old_reign_counts_for_nothing,
    a_checkpoint_waits_for_its_changes_and_chunks,
    what_was_swept_is_lost_not_moved,
    a_large_batch_and_a_large_chunk_come_back_whole,
    a_change_of_the_map_wakes,
    draining_is_in_the_map,
    a_keyring_is_replaced_by_the_one_that_read_it,
    the_revision_rises,
    a_cluster_that_is_moved_in_lets_no_node_join_before_its_end,
    a_move_that_did_not_come_to_its_end_is_cleared,
    a_stream_that_begins_with_a_checkpoint_goes_on_from_there,
}

/// Runs a future that is woken by nothing but itself: enough for a store in memory.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return value;
        }
    }
    panic!("a future that no call will wake")
}

const PARTITIONS: u32 = 4;

fn birth() -> Birth {
    Birth { partitions: Partitions::new(PARTITIONS), format: 1, secret: [7; 32] }
}

fn node(number: u128) -> NodeRecord {
    NodeRecord::new(NodeId(number << 96 | number), &format!("node-{number}:8081"))
}

struct Rig {
    connect: Connect,
}

struct Member {
    store: Box<dyn SharedStore>,
    record: NodeRecord,
}

impl Rig {
    fn new(connect: Connect) -> Self {
        Rig { connect }
    }

    async fn join(&self, number: u128) -> Member {
        let (store, record) = ((self.connect)(), node(number));
        store.join(record.clone(), birth()).await.unwrap();
        Member { store, record }
    }
}

impl Member {
    fn id(&self) -> NodeId {
        self.record.node
    }

    async fn map(&self) -> Map {
        self.store.map().await.unwrap()
    }

    async fn seen(&self, node: NodeId) -> Seen<NodeRecord> {
        self.map().await.node(node).cloned().unwrap()
    }

    async fn beat(&mut self) {
        self.record.beat += 1;
        self.store.beat(self.record.clone()).await.unwrap();
    }

    async fn bury(&self, node: NodeId) {
        let seen = self.seen(node).await;
        self.store.bury(seen).await.unwrap();
    }

    async fn taking(&self, partition: u32) -> Taking {
        let map = self.map().await;
        let seen = map.owners[partition as usize].clone();
        let dead = seen.value.node.and_then(|node| map.node(node).cloned());
        let mark = dead.as_ref().and_then(|dead| dead.value.mark_of(partition, seen.value.epoch));
        let at = seen.value.at.max(mark.unwrap_or_default());
        let epoch = seen.value.epoch.next();
        Taking { partition, seen, dead, node: self.id(), epoch, at }
    }

    async fn take(&self, partition: u32) -> Reign {
        let taking = self.taking(partition).await;
        self.store.take(taking).await.unwrap()
    }

    async fn append(&self, append: &Append) -> Landing {
        let landings = self.store.append(vec![append.clone()]).await.unwrap();
        assert_eq!(landings.len(), 1);
        landings.into_iter().next().unwrap()
    }

    async fn read_all(&self, partition: u32, from: Position) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut next = Some(Cursor::After(from));
        while let Some(from) = next {
            let page = self.store.read(partition, from).await.unwrap();
            pieces.extend(page.pieces);
            next = page.next;
        }
        pieces
    }
}

fn is_fenced<T: std::fmt::Debug>(result: Result<T, SharedError>) {
    assert!(matches!(result, Err(SharedError::Fenced(_))), "{result:?}");
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, SharedError>) {
    assert!(matches!(result, Err(SharedError::Refused(_))), "{result:?}");
}

/// Batches one after another under one reign.
struct Stream {
    reign: Reign,
    writer: BatchWriter,
    before: Link,
    at: u64,
}

impl Stream {
    fn new(reign: Reign) -> Self {
        Self::after(reign, Position::START, Link::default())
    }

    fn after(reign: Reign, head: Position, before: Link) -> Self {
        let writer = BatchWriter::new(reign.partition, reign.epoch(), head.next());
        Stream { reign, writer, before, at: 0 }
    }

    fn next(&mut self, changes: usize) -> Append {
        for _ in 0..changes {
            self.at += 1;
            self.writer.push(Moment { at: Time(self.at), wall: Wall(self.at) }, &Change::Marked);
        }
        let batch = self.writer.seal();
        let append = Append { reign: self.reign, before: self.before, batch };
        self.before = Link::to(&append.batch);
        append
    }
}

fn records(pieces: &[Piece]) -> Vec<&[u8]> {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Chunk { record, .. } | Piece::Batch { record, .. } => &record[..],
        })
        .collect()
}

async fn the_first_join_makes_the_cluster(connect: Connect) {
    let store = connect();
    let map = store.join(node(1), birth()).await.unwrap();
    assert_eq!(map.meta.partitions.number(), PARTITIONS);
    assert_eq!(map.meta.secret, [7; 32]);
    assert_eq!(map.owners, vec![Seen { value: Owner::default(), version: 0 }; PARTITIONS as usize]);
    assert_eq!(map.nodes.len(), 1);
    assert_eq!(map.nodes[0].value, node(1));
    let second = connect();
    let asked = Birth { secret: [8; 32], ..birth() };
    let map = second.join(node(2), asked).await.unwrap();
    assert_eq!(map.meta.secret, [7; 32], "the secret is that of the first");
    assert_eq!(map.nodes.iter().map(|seen| seen.value.node).collect::<Vec<_>>(), [node(1).node, node(2).node]);
    store.confirm().await.unwrap();
    second.confirm().await.unwrap();
}

async fn a_join_with_other_facts_is_refused(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let store = (world.connect)();
    is_refused(store.join(node(2), Birth { partitions: Partitions::new(8), ..birth() }).await);
    is_refused(store.join(node(2), Birth { format: 0, ..birth() }).await);
    assert_eq!(first.map().await.nodes.len(), 1, "nothing was written");
    store.join(node(2), Birth { partitions: None, ..birth() }).await.unwrap();
    is_refused((world.connect)().join(NodeRecord { address: "other:1".to_owned(), ..node(1) }, birth()).await);
}

async fn a_format_only_rises_and_nodes_that_do_not_know_it_cannot_join(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let before = first.map().await;
    first.store.raise_format(3).await.unwrap();
    first.store.raise_format(2).await.unwrap();
    let map = first.map().await;
    assert_eq!(map.meta.format, 3);
    assert_eq!((map.meta.secret, map.owners), (before.meta.secret, before.owners), "nothing else has changed");
    let store = (world.connect)();
    is_refused(store.join(node(2), Birth { format: 2, ..birth() }).await);
    store.join(node(2), Birth { format: 3, ..birth() }).await.unwrap();
    first.store.confirm().await.unwrap();
}

async fn a_join_is_recognised_when_it_is_sent_again(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    first.store.join(node(1), birth()).await.unwrap();
    first.store.confirm().await.unwrap();
    assert_eq!(first.map().await.nodes.len(), 1);
    world.join(2).await.bury(first.id()).await;
    let again = first.store.join(node(1), birth()).await;
    assert!(again.is_err(), "a join that comes late does not bring a buried node back: {again:?}");
    is_fenced(first.store.confirm().await);
}

async fn a_beat_is_seen_and_may_be_sent_again(connect: Connect) {
    let world = Rig::new(connect);
    let (mut first, second) = (world.join(1).await, world.join(2).await);
    let before = second.seen(first.id()).await;
    first.record.marks = vec![Mark { partition: 3, epoch: Epoch(9), at: Time(77) }];
    first.record.unreachable = vec![second.id()];
    first.record.is_draining = true;
    first.beat().await;
    let after = second.seen(first.id()).await;
    assert_eq!(after.value, first.record);
    assert!(after.version > before.version);
    first.store.beat(first.record.clone()).await.unwrap();
    first.beat().await;
    assert_eq!(second.seen(first.id()).await.value, first.record);
}

async fn an_older_beat_changes_nothing(connect: Connect) {
    let world = Rig::new(connect);
    let mut first = world.join(1).await;
    first.beat().await;
    let old = first.record.clone();
    first.record.marks = vec![Mark { partition: 0, epoch: Epoch(1), at: Time(5) }];
    first.beat().await;
    first.store.beat(old).await.unwrap();
    assert_eq!(first.seen(first.id()).await.value, first.record, "a belated beat does not put older marks back");
}

async fn a_buried_node_neither_beats_nor_confirms(connect: Connect) {
    let world = Rig::new(connect);
    let (mut first, second) = (world.join(1).await, world.join(2).await);
    first.beat().await;
    second.bury(first.id()).await;
    first.record.beat += 1;
    is_fenced(first.store.beat(first.record.clone()).await);
    is_fenced(first.store.confirm().await);
    second.store.confirm().await.unwrap();
    let buried = second.seen(first.id()).await;
    assert!(buried.value.is_buried && !second.map().await.is_alive(first.id()));
    second.store.bury(buried).await.unwrap();
    // The same connection may join again under another id.
    first.store.join(node(3), birth()).await.unwrap();
    first.store.confirm().await.unwrap();
}

async fn burying_compares_what_was_seen(connect: Connect) {
    let world = Rig::new(connect);
    let (mut first, second) = (world.join(1).await, world.join(2).await);
    let seen = second.seen(first.id()).await;
    first.record.marks = vec![Mark { partition: 1, epoch: Epoch(2), at: Time(3) }];
    first.beat().await;
    is_fenced(second.store.bury(seen).await);
    first.store.confirm().await.unwrap();
    second.bury(first.id()).await;
    let buried = second.seen(first.id()).await.value;
    assert_eq!(buried, NodeRecord { is_buried: true, ..first.record.clone() }, "the marks stay readable");
}

async fn a_node_is_forgotten_only_when_buried_and_named_by_no_partition(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    first.take(0).await;
    let seen = second.seen(first.id()).await;
    is_fenced(second.store.forget(seen).await);
    second.bury(first.id()).await;
    let seen = second.seen(first.id()).await;
    is_fenced(second.store.forget(seen.clone()).await);
    second.take(0).await;
    second.store.forget(seen.clone()).await.unwrap();
    assert!(second.map().await.node(first.id()).is_none());
    second.store.forget(seen).await.unwrap();
    is_fenced(first.store.confirm().await);
}

async fn a_free_partition_is_taken_once(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let (mine, yours) = (first.taking(2).await, second.taking(2).await);
    let reign = first.store.take(mine).await.unwrap();
    assert_eq!(reign.owner, Owner { epoch: Epoch(1), node: Some(first.id()), at: Time(0) });
    is_fenced(second.store.take(yours).await);
    let owners = second.map().await.owners;
    assert_eq!(owners[2], Seen { value: reign.owner, version: reign.version });
    assert_eq!(owners[1], Seen::default());
    let beyond = Taking { partition: PARTITIONS, ..first.taking(1).await };
    is_refused(first.store.take(beyond).await);
}

async fn an_epoch_may_jump_and_never_stays(connect: Connect) {
    let world = Rig::new(connect);
    let node = world.join(1).await;
    let taking = node.taking(1).await;
    is_refused(node.store.take(Taking { epoch: taking.seen.value.epoch, ..taking.clone() }).await);
    let far = Epoch(taking.epoch.0 + (1 << 40));
    let reign = node.store.take(Taking { epoch: far, ..taking.clone() }).await.unwrap();
    assert_eq!(reign.epoch(), far);
    is_fenced(node.store.take(taking).await);
    node.store.let_go(reign, Time(0)).await.unwrap();
    assert_eq!(node.take(1).await.epoch(), Epoch(far.0 + 2));
}

async fn a_partition_of_the_living_is_not_taken(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    first.take(0).await;
    let taking = second.taking(0).await;
    is_fenced(second.store.take(taking.clone()).await);
    is_fenced(second.store.take(Taking { dead: None, ..taking }).await);
}

async fn a_partition_of_the_dead_is_taken_with_its_time(connect: Connect) {
    let world = Rig::new(connect);
    let (mut first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    first.record.marks = vec![Mark { partition: 0, epoch: reign.epoch(), at: Time(50) }];
    first.beat().await;
    second.bury(first.id()).await;
    let taking = second.taking(0).await;
    is_refused(
        second
            .store
            .take(Taking {
                at: Time(50),
                seen: Seen { value: Owner { at: Time(51), ..taking.seen.value }, ..taking.seen.clone() },
                ..taking.clone()
            })
            .await,
    );
    let taken = second.store.take(taking).await.unwrap();
    assert_eq!(taken.owner, Owner { epoch: Epoch(2), node: Some(second.id()), at: Time(50) });
}

async fn a_taking_compares_the_burial_it_saw(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    first.take(0).await;
    let alive = second.taking(0).await;
    second.bury(first.id()).await;
    is_fenced(second.store.take(alive.clone()).await);
    is_fenced(second.store.take(Taking { dead: None, ..alive }).await);
    second.take(0).await;
    // Gone is as good as buried, if it was seen to be gone: a partition that names a node is never without its record,
    // so the record of another life stands for it here.
    let owners = second.map().await.owners;
    assert_eq!(owners[0].value.epoch, Epoch(2));
}

async fn a_taking_is_recognised_when_it_is_sent_again(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let taking = first.taking(3).await;
    let reign = first.store.take(taking.clone()).await.unwrap();
    assert_eq!(first.store.take(taking.clone()).await.unwrap(), reign);
    first.store.let_go(reign, Time(1)).await.unwrap();
    is_fenced(first.store.take(taking).await);
}

async fn letting_go_leaves_it_to_the_next(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    first.store.let_go(reign, Time(9)).await.unwrap();
    first.store.let_go(reign, Time(9)).await.unwrap();
    assert_eq!(first.map().await.owners[0].value, Owner { epoch: Epoch(2), node: None, at: Time(9) });
    let next = second.take(0).await;
    assert_eq!(next.owner, Owner { epoch: Epoch(3), node: Some(second.id()), at: Time(9) });
    is_fenced(first.store.let_go(reign, Time(9)).await);
    assert_eq!(first.append(&Stream::new(reign).next(1)).await, Landing::Moved);
}

async fn a_batch_is_appended_once_however_often_it_is_sent(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let mut stream = Stream::new(first.take(1).await);
    let appends: Vec<Append> = [3, 1, 2].into_iter().map(|changes| stream.next(changes)).collect();
    for append in &appends {
        assert_eq!(first.append(append).await, Landing::Durable);
        assert_eq!(first.append(append).await, Landing::Durable);
    }
    assert_eq!(first.append(&appends[0]).await, Landing::Durable);
    let pieces = first.read_all(1, Position::START).await;
    assert_eq!(records(&pieces), appends.iter().map(|append| &append.batch.record[..]).collect::<Vec<_>>());
    let links: Vec<Link> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Batch { before, .. } => *before,
            Piece::Chunk { .. } => panic!(),
        })
        .collect();
    assert_eq!(links, appends.iter().map(|append| append.before).collect::<Vec<_>>());
}

async fn an_append_of_an_old_reign_lands_never(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let mut old = Stream::new(first.take(0).await);
    assert_eq!(first.append(&old.next(2)).await, Landing::Durable);
    second.bury(first.id()).await;
    let still = old.next(1);
    assert_eq!(first.append(&still).await, Landing::Durable, "buried, but not taken: it is in the tail of the next");
    let reign = second.take(0).await;
    let late = old.next(1);
    assert_eq!(first.append(&late).await, Landing::Moved);
    let mut new = Stream::after(reign, still.batch.last, Link::to(&still.batch));
    assert_eq!(second.append(&new.next(1)).await, Landing::Durable);
    assert_eq!(first.append(&late).await, Landing::Moved);
    assert_eq!(second.read_all(0, Position::START).await.len(), 3);
}

async fn an_append_that_landed_is_durable_under_any_owner(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    let append = Stream::new(reign).next(2);
    assert_eq!(first.append(&append).await, Landing::Durable);
    first.store.let_go(reign, Time(2)).await.unwrap();
    assert_eq!(first.append(&append).await, Landing::Durable);
    let mut new = Stream::after(second.take(0).await, append.batch.last, Link::to(&append.batch));
    assert_eq!(second.append(&new.next(1)).await, Landing::Durable);
    assert_eq!(first.append(&append).await, Landing::Durable);
}

async fn an_append_elsewhere_than_at_the_end_is_behind(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let mut stream = Stream::new(reign);
    let (one, two) = (stream.next(1), stream.next(1));
    assert_eq!(first.append(&two).await, Landing::Behind, "a gap");
    assert_eq!(first.append(&one).await, Landing::Durable);
    let mut fork = Stream::after(reign, Position::START, Link::default());
    fork.at = 100;
    assert_eq!(first.append(&fork.next(2)).await, Landing::Behind, "the place is taken");
    let other = Append { before: Link { sum: crate::ids::Sum(1), ..two.before }, ..two.clone() };
    assert_eq!(first.append(&other).await, Landing::Behind, "it goes on from another batch");
    assert_eq!(first.append(&two).await, Landing::Durable);
}

async fn a_transaction_may_hold_batches_of_several_partitions(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let mut streams = Vec::new();
    for partition in 0..PARTITIONS {
        streams.push(Stream::new(first.take(partition).await));
    }
    let round: Vec<Append> = streams.iter_mut().map(|stream| stream.next(2)).collect();
    assert_eq!(first.store.append(round).await.unwrap(), vec![Landing::Durable; PARTITIONS as usize]);
    first.store.let_go(streams[2].reign, Time(5)).await.unwrap();
    second.take(2).await;
    let round: Vec<Append> = streams.iter_mut().map(|stream| stream.next(1)).collect();
    let landings = first.store.append(round).await.unwrap();
    assert_eq!(
        landings,
        [Landing::Durable, Landing::Durable, Landing::Moved, Landing::Durable],
        "one does not fail all"
    );
    assert_eq!(first.store.append(Vec::new()).await.unwrap(), []);
}

async fn another_batch_at_the_same_place_is_not_ours(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let old = Stream::new(first.take(0).await).next(2);
    second.bury(first.id()).await;
    let new = Stream::new(second.take(0).await).next(2);
    assert_eq!(second.append(&new).await, Landing::Durable);
    assert_eq!(first.append(&old).await, Landing::Moved);
    assert_eq!(records(&second.read_all(0, Position::START).await), [&new.batch.record[..]]);
}

async fn a_long_stream_is_read_page_by_page(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let mut stream = Stream::new(first.take(0).await);
    let mut all = Vec::new();
    for _ in 0..150 {
        let append = stream.next(2);
        assert_eq!(first.append(&append).await, Landing::Durable);
        all.push(append.batch.record);
    }
    assert_eq!(
        records(&first.read_all(0, Position::START).await),
        all.iter().map(|record| &record[..]).collect::<Vec<_>>()
    );
    // From the middle of a batch, that batch comes first.
    for (after, rest) in [(0, 0), (1, 0), (2, 1), (299, 149), (300, 150)] {
        let pieces = first.read_all(0, Position(after)).await;
        assert_eq!(records(&pieces), all[rest..].iter().map(|record| &record[..]).collect::<Vec<_>>(), "after {after}");
    }
    assert_eq!(first.read_all(1, Position::START).await, []);
}

async fn a_page_shows_the_owner_of_its_instant(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let page = first.store.read(0, Cursor::After(Position::START)).await.unwrap();
    assert_eq!(page, Page { owner: Seen::default(), pieces: Vec::new(), next: None });
    let reign = first.take(0).await;
    let page = first.store.read(0, Cursor::After(Position::START)).await.unwrap();
    assert_eq!(page.owner, Seen { value: reign.owner, version: reign.version });
}

async fn checkpointed(first: &Member, reign: Reign, upto: Position, chunks: u32) -> CheckpointId {
    let id = CheckpointId { epoch: reign.epoch(), upto };
    for number in 0..chunks {
        first.store.put_chunk(reign, id, number, format!("chunk {number} of {upto}").into_bytes()).await.unwrap();
    }
    first.store.finish_checkpoint(reign, id, chunks).await.unwrap();
    id
}

async fn sweep_all(first: &Member, reign: Reign) {
    for _ in 0..100 {
        if !first.store.sweep(reign).await.unwrap() {
            return;
        }
    }
    panic!("sweeping never ends");
}

async fn a_checkpoint_replaces_what_it_covers(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let mut stream = Stream::new(reign);
    for _ in 0..5 {
        assert_eq!(first.append(&stream.next(10)).await, Landing::Durable);
    }
    sweep_all(&first, reign).await;
    assert_eq!(first.read_all(0, Position::START).await.len(), 5, "without a checkpoint nothing is swept");
    let old = checkpointed(&first, reign, Position(12), 1).await;
    let id = checkpointed(&first, reign, Position(35), 40).await;
    checkpointed(&first, reign, Position(35), 40).await;
    let pieces = first.read_all(0, Position::START).await;
    assert_eq!(pieces.len(), 42, "all chunks, then the batch that spans its end and the one after");
    for (number, piece) in (0..40).zip(&pieces) {
        let record = format!("chunk {number} of 35").into_bytes();
        assert_eq!(*piece, Piece::Chunk { of: id, number, is_last: number == 39, record });
    }
    assert_eq!(first.read_all(0, Position(10)).await.len(), 4, "batches that are there are read as they are");
    sweep_all(&first, reign).await;
    assert_eq!(first.read_all(0, Position::START).await.len(), 42);
    assert_eq!(first.read_all(0, Position(10)).await.len(), 42, "what was swept is read from the checkpoint");
    assert_eq!(first.read_all(0, Position(36)).await.len(), 2);
    let gone = first.store.read(0, Cursor::Chunk(old, 0)).await;
    assert_eq!(gone, Err(SharedError::Gone));
    // The newest batch stays, since the next one links to it.
    checkpointed(&first, reign, Position(50), 1).await;
    sweep_all(&first, reign).await;
    assert_eq!(first.append(&stream.next(1)).await, Landing::Durable);
    assert_eq!(first.read_all(0, Position::START).await.len(), 2);
}

async fn a_checkpoint_of_an_old_reign_counts_for_nothing(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    let append = Stream::new(reign).next(3);
    assert_eq!(first.append(&append).await, Landing::Durable);
    let id = CheckpointId { epoch: reign.epoch(), upto: Position(2) };
    first.store.put_chunk(reign, id, 0, b"facts".to_vec()).await.unwrap();
    first.store.let_go(reign, Time(3)).await.unwrap();
    is_fenced(first.store.put_chunk(reign, id, 1, b"more".to_vec()).await);
    is_fenced(first.store.finish_checkpoint(reign, id, 1).await);
    is_fenced(first.store.sweep(reign).await);
    second.take(0).await;
    assert_eq!(records(&second.read_all(0, Position::START).await), [&append.batch.record[..]]);
}

async fn a_checkpoint_waits_for_its_changes_and_chunks(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let mut stream = Stream::new(reign);
    assert_eq!(first.append(&stream.next(3)).await, Landing::Durable);
    let id = CheckpointId { epoch: reign.epoch(), upto: Position(4) };
    first.store.put_chunk(reign, id, 0, b"facts".to_vec()).await.unwrap();
    is_refused(first.store.finish_checkpoint(reign, id, 1).await);
    assert_eq!(first.append(&stream.next(1)).await, Landing::Durable);
    is_refused(first.store.finish_checkpoint(reign, id, 2).await);
    first.store.finish_checkpoint(reign, id, 1).await.unwrap();
}

async fn what_was_swept_is_lost_not_moved(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let mut old = Stream::new(first.take(0).await);
    let one = old.next(2);
    assert_eq!(first.append(&one).await, Landing::Durable);
    second.bury(first.id()).await;
    let reign = second.take(0).await;
    let mut new = Stream::after(reign, one.batch.last, Link::to(&one.batch));
    for _ in 0..3 {
        assert_eq!(second.append(&new.next(1)).await, Landing::Durable);
    }
    checkpointed(&second, reign, Position(5), 1).await;
    sweep_all(&second, reign).await;
    assert_eq!(first.append(&one).await, Landing::Lost);
    let mut ahead = Stream::after(old.reign, Position(5), Link::default());
    assert_eq!(first.append(&ahead.next(1)).await, Landing::Moved, "nothing was ever there");
}

async fn a_large_batch_and_a_large_chunk_come_back_whole(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let append = Stream::new(reign).next(700_000);
    assert!(append.batch.record.len() > 512 << 10);
    assert_eq!(first.append(&append).await, Landing::Durable);
    assert_eq!(records(&first.read_all(0, Position::START).await), [&append.batch.record[..]]);
    let id = CheckpointId { epoch: reign.epoch(), upto: Position(1) };
    let chunk: Vec<u8> = (0..256 << 10).map(|n: u32| n.to_le_bytes()[0]).collect();
    first.store.put_chunk(reign, id, 0, chunk.clone()).await.unwrap();
    first.store.finish_checkpoint(reign, id, 1).await.unwrap();
    assert_eq!(records(&first.read_all(0, Position::START).await)[0], &chunk[..]);
}

async fn a_change_of_the_map_wakes(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    first.store.changed().await.unwrap();
    let second = world.join(2).await;
    first.store.changed().await.unwrap();
    second.take(0).await;
    first.store.changed().await.unwrap();
}

async fn draining_is_in_the_map(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    second.store.drain(first.id(), true).await.unwrap();
    second.store.drain(first.id(), true).await.unwrap();
    assert_eq!(first.map().await.drained, [first.id()]);
    second.store.drain(first.id(), false).await.unwrap();
    assert_eq!(first.map().await.drained, []);
    is_refused(second.store.drain(NodeId(99), true).await);
}

async fn a_keyring_is_replaced_by_the_one_that_read_it(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    assert_eq!(first.store.keyring().await.unwrap(), None);
    let replace = async |member: &Member, before: Option<&[u8]>, after: &[u8]| {
        member.store.replace_keyring(before.map(<[u8]>::to_vec), after.to_vec()).await.unwrap()
    };
    assert!(replace(&first, None, b"one").await);
    assert!(!replace(&second, None, b"two").await, "the first was first");
    assert!(replace(&first, None, b"one").await, "the same call again");
    assert_eq!(second.store.keyring().await.unwrap().as_deref(), Some(&b"one"[..]));
    assert!(replace(&second, Some(b"one"), b"two").await);
    assert!(!replace(&first, Some(b"one"), b"three").await);
    assert_eq!(first.store.keyring().await.unwrap().as_deref(), Some(&b"two"[..]));
}

async fn the_revision_rises(connect: Connect) {
    let world = Rig::new(connect);
    let mut first = world.join(1).await;
    let mut last = first.map().await.revision;
    let mut stream = Stream::new(first.take(0).await);
    for _ in 0..3 {
        first.beat().await;
        let revision = first.map().await.revision;
        assert!(revision > last);
        assert_eq!(first.append(&stream.next(1)).await, Landing::Durable);
        last = first.map().await.revision;
        assert!(last >= revision);
    }
}

fn moving_in(other: &str) -> Meta {
    let Birth { partitions, format, secret } = birth();
    let way = Transfer { id: 7, other: other.to_owned() };
    Meta { partitions: partitions.unwrap(), format, secret, stage: Stage::MovingIn(way) }
}

async fn a_cluster_that_is_moved_in_lets_no_node_join_before_its_end(connect: Connect) {
    let store = connect();
    let closed = moving_in("here");
    store.found(closed.clone()).await.unwrap();
    store.found(closed.clone()).await.expect("the same again");
    is_refused(store.found(moving_in("elsewhere")).await);
    is_refused(connect().join(node(1), birth()).await);
    assert_eq!(store.map().await.unwrap().meta, closed);
    let open = Meta { stage: Stage::Serving, ..closed.clone() };
    is_fenced(store.restate(moving_in("elsewhere"), open.clone()).await);
    store.restate(closed.clone(), open.clone()).await.unwrap();
    store.restate(closed.clone(), open.clone()).await.expect("the same again");
    connect().join(node(1), birth()).await.unwrap();
    is_refused(store.found(closed.clone()).await);
    is_fenced(store.clear(closed).await);
    let away = Meta { stage: Stage::MovedOut(Transfer { id: 8, other: "there".to_owned() }), ..open.clone() };
    store.restate(open, away).await.unwrap();
    is_refused(connect().join(node(2), birth()).await);
}

async fn a_move_that_did_not_come_to_its_end_is_cleared(connect: Connect) {
    let store = connect();
    let closed = moving_in("here");
    store.found(closed.clone()).await.unwrap();
    let reign = founded(store.as_ref(), Position(40), 2).await;
    is_fenced(store.clear(moving_in("elsewhere")).await);
    store.clear(closed.clone()).await.unwrap();
    store.clear(closed.clone()).await.expect("the same again");
    is_refused(store.map().await);
    // What the move that was cleared still sends changes nothing.
    store.found(closed).await.unwrap();
    let late = CheckpointId { epoch: reign.epoch(), upto: Position(40) };
    is_fenced(store.put_chunk(reign, late, 0, b"late".to_vec()).await);
    founded(store.as_ref(), Position(50), 1).await;
}

/// Begins the stream of partition 1 with a checkpoint of `upto`, without a join.
async fn founded(store: &dyn SharedStore, upto: Position, chunks: u32) -> Reign {
    let seen = store.map().await.unwrap().owners[1].clone();
    let (node, epoch, at) = (node(9).node, Epoch(5), Time(0));
    let reign = store.take(Taking { partition: 1, seen, dead: None, node, epoch, at }).await.unwrap();
    let id = CheckpointId { epoch, upto };
    let batch = Stream::after(reign, upto, Link::default()).next(1).batch;
    is_refused(store.begin_stream(reign, id, chunks, batch.clone()).await);
    for number in 0..chunks {
        store.put_chunk(reign, id, number, format!("chunk {number} of {upto}").into_bytes()).await.unwrap();
    }
    store.begin_stream(reign, id, chunks, batch.clone()).await.unwrap();
    store.begin_stream(reign, id, chunks, batch).await.expect("the same again");
    let other = Stream::after(reign, upto.next(), Link::default()).next(1).batch;
    is_refused(store.begin_stream(reign, id, chunks, other).await);
    reign
}

async fn a_stream_that_begins_with_a_checkpoint_goes_on_from_there(connect: Connect) {
    let store = connect();
    let closed = moving_in("here");
    store.found(closed.clone()).await.unwrap();
    let reign = founded(store.as_ref(), Position(40), 2).await;
    store.let_go(reign, Time(0)).await.unwrap();
    let batch = Stream::after(reign, Position(40), Link::default()).next(1).batch;
    is_fenced(store.begin_stream(reign, CheckpointId { epoch: reign.epoch(), upto: Position(40) }, 2, batch).await);
    store.restate(closed.clone(), Meta { stage: Stage::Serving, ..closed }).await.unwrap();
    let first = Rig::new(connect).join(1).await;
    let pieces = first.read_all(1, Position::START).await;
    assert_eq!(pieces.len(), 3, "two chunks and a batch: {pieces:?}");
    let Piece::Batch { record, .. } = &pieces[2] else { panic!("{pieces:?}") };
    let header = BatchReader::open(record).unwrap().header();
    assert_eq!((header.first, header.epoch), (Position(41), Epoch(5)));
    let reign = first.take(1).await;
    let before = Link { first: Position(41), sum: Sum::of(record) };
    let mut stream = Stream::after(reign, Position(41), before);
    assert_eq!(first.append(&stream.next(3)).await, Landing::Durable);
    checkpointed(&first, reign, Position(44), 1).await;
    sweep_all(&first, reign).await;
    assert_eq!(first.read_all(1, Position::START).await.len(), 1, "the chunk is all of it");
}
