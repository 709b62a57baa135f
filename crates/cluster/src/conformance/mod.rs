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

mod moves;
mod nodes;
mod streams;

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use leasehold_journal::Position;

use crate::ids::NodeId;
use crate::kit::{birth, node};
use crate::map::{Map, NodeRecord, Reign, Seen};
use crate::store::{Append, Cursor, Landing, Piece, SharedError, SharedStore, Taking};

/// Makes one more connection to the store of this test.
pub type Connect = Box<dyn Fn() -> Box<dyn SharedStore>>;

/// A test under way.
pub type Running = Pin<Box<dyn Future<Output = ()>>>;

/// A test: it panics when the store breaks the contract.
pub type Test = fn(Connect) -> Running;

macro_rules! tests {
    ($($about:ident::$name:ident),+ $(,)?) => {
        /// Every test with its name.
        pub const TESTS: &[(&str, Test)] = &[$((stringify!($name), |connect| Box::pin($about::$name(connect)))),+];
    };
}

tests! {
    nodes::the_first_join_makes_the_cluster,
    nodes::a_join_with_other_facts_is_refused,
    nodes::a_format_only_rises_and_nodes_that_do_not_know_it_cannot_join,
    nodes::a_join_is_recognised_when_it_is_sent_again,
    nodes::a_beat_is_seen_and_may_be_sent_again,
    nodes::an_older_beat_changes_nothing,
    nodes::a_buried_node_neither_beats_nor_confirms,
    nodes::burying_compares_what_was_seen,
    nodes::a_node_is_forgotten_only_when_buried_and_named_by_no_partition,
    nodes::a_free_partition_is_taken_once,
    nodes::an_epoch_may_jump_and_never_stays,
    nodes::a_partition_of_the_living_is_not_taken,
    nodes::a_partition_of_the_dead_is_taken_with_its_time,
    nodes::a_taking_compares_the_burial_it_saw,
    nodes::a_taking_is_recognised_when_it_is_sent_again,
    nodes::letting_go_leaves_it_to_the_next,
    streams::a_batch_is_appended_once_however_often_it_is_sent,
    streams::an_append_of_an_old_reign_lands_never,
    streams::an_append_that_landed_is_durable_under_any_owner,
    streams::an_append_elsewhere_than_at_the_end_is_behind,
    streams::a_transaction_may_hold_batches_of_several_partitions,
    streams::another_batch_at_the_same_place_is_not_ours,
    streams::a_long_stream_is_read_page_by_page,
    streams::a_page_shows_the_owner_of_its_instant,
    streams::a_checkpoint_replaces_what_it_covers,
    streams::a_checkpoint_of_an_old_reign_counts_for_nothing,
    streams::a_checkpoint_waits_for_its_changes_and_chunks,
    streams::what_was_swept_is_lost_not_moved,
    streams::a_large_batch_and_a_large_chunk_come_back_whole,
    nodes::a_change_of_the_map_wakes,
    nodes::draining_is_in_the_map,
    nodes::a_keyring_is_replaced_by_the_one_that_read_it,
    nodes::the_revision_rises,
    moves::a_cluster_that_is_moved_in_lets_no_node_join_before_its_end,
    moves::a_move_that_did_not_come_to_its_end_is_cleared,
    moves::a_stream_that_begins_with_a_checkpoint_goes_on_from_there,
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

fn records(pieces: &[Piece]) -> Vec<&[u8]> {
    pieces
        .iter()
        .map(|piece| match piece {
            Piece::Chunk { record, .. } | Piece::Batch { record, .. } => &record[..],
        })
        .collect()
}
