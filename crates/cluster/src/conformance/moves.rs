//! A service that moves in: streams that do not begin at the first position.

use leasehold_engine::Time;
use leasehold_journal::record::BatchReader;
use leasehold_journal::{Epoch, Position};

use super::streams::{checkpointed, sweep_all};
use super::{Connect, Rig, is_fenced, is_refused};
use crate::ids::{Link, Sum};
use crate::kit::{Chain, birth, node};
use crate::map::{Meta, Reign, Stage, Transfer};
use crate::store::{Birth, CheckpointId, Landing, Piece, SharedStore, Taking};

fn moving_in(other: &str) -> Meta {
    let Birth { partitions, format, secret } = birth();
    let way = Transfer { id: 7, other: other.to_owned() };
    Meta { partitions: partitions.unwrap(), format, secret, stage: Stage::MovingIn(way) }
}

pub(super) async fn a_cluster_that_is_moved_in_lets_no_node_join_before_its_end(connect: Connect) {
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

pub(super) async fn a_move_that_did_not_come_to_its_end_is_cleared(connect: Connect) {
    let store = connect();
    let closed = moving_in("here");
    store.found(closed.clone()).await.unwrap();
    let reign = founded(store.as_ref(), Position(40), 2).await;
    is_fenced(store.clear(moving_in("elsewhere")).await);
    store.clear(closed.clone()).await.unwrap();
    store.clear(closed.clone()).await.expect("the same again");
    is_refused(store.map().await);
    // A late call of the move that was cleared changes nothing.
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
    let batch = Chain::after(reign, upto, Link::default()).next(1).batch;
    is_refused(store.begin_stream(reign, id, chunks, batch.clone()).await);
    for number in 0..chunks {
        store.put_chunk(reign, id, number, format!("chunk {number} of {upto}").into_bytes()).await.unwrap();
    }
    store.begin_stream(reign, id, chunks, batch.clone()).await.unwrap();
    store.begin_stream(reign, id, chunks, batch).await.expect("the same again");
    let other = Chain::after(reign, upto.next(), Link::default()).next(1).batch;
    is_refused(store.begin_stream(reign, id, chunks, other).await);
    reign
}

pub(super) async fn a_stream_that_begins_with_a_checkpoint_goes_on_from_there(connect: Connect) {
    let store = connect();
    let closed = moving_in("here");
    store.found(closed.clone()).await.unwrap();
    let reign = founded(store.as_ref(), Position(40), 2).await;
    store.let_go(reign, Time(0)).await.unwrap();
    let batch = Chain::after(reign, Position(40), Link::default()).next(1).batch;
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
    let mut stream = Chain::after(reign, Position(41), before);
    assert_eq!(first.append(&stream.next(3)).await, Landing::Durable);
    checkpointed(&first, reign, Position(44), 1).await;
    sweep_all(&first, reign).await;
    assert_eq!(first.read_all(1, Position::START).await.len(), 1, "the chunk is all of it");
}
