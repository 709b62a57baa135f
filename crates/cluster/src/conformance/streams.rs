//! Streams of partitions: batches, pages and checkpoints.

use leasehold_engine::Time;
use leasehold_journal::Position;

use super::{Connect, Member, Rig, is_fenced, is_refused, records};
use crate::ids::Link;
use crate::kit::{Chain, PARTITIONS};
use crate::map::{Reign, Seen};
use crate::store::{Append, CheckpointId, Cursor, Landing, Page, Piece, SharedError};

pub(super) async fn a_batch_is_appended_once_however_often_it_is_sent(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let mut stream = Chain::new(first.take(1).await);
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

pub(super) async fn an_append_of_an_old_reign_lands_never(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let mut old = Chain::new(first.take(0).await);
    assert_eq!(first.append(&old.next(2)).await, Landing::Durable);
    second.bury(first.id()).await;
    let still = old.next(1);
    assert_eq!(first.append(&still).await, Landing::Durable, "buried, but not taken: it is in the tail of the next");
    let reign = second.take(0).await;
    let late = old.next(1);
    assert_eq!(first.append(&late).await, Landing::Moved);
    let mut new = Chain::after(reign, still.batch.last, Link::to(&still.batch));
    assert_eq!(second.append(&new.next(1)).await, Landing::Durable);
    assert_eq!(first.append(&late).await, Landing::Moved);
    assert_eq!(second.read_all(0, Position::START).await.len(), 3);
}

pub(super) async fn an_append_that_landed_is_durable_under_any_owner(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    let append = Chain::new(reign).next(2);
    assert_eq!(first.append(&append).await, Landing::Durable);
    first.store.let_go(reign, Time(2)).await.unwrap();
    assert_eq!(first.append(&append).await, Landing::Durable);
    let mut new = Chain::after(second.take(0).await, append.batch.last, Link::to(&append.batch));
    assert_eq!(second.append(&new.next(1)).await, Landing::Durable);
    assert_eq!(first.append(&append).await, Landing::Durable);
}

pub(super) async fn an_append_elsewhere_than_at_the_end_is_behind(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let mut stream = Chain::new(reign);
    let (one, two) = (stream.next(1), stream.next(1));
    assert_eq!(first.append(&two).await, Landing::Behind, "a gap");
    assert_eq!(first.append(&one).await, Landing::Durable);
    let mut fork = Chain::after(reign, Position::START, Link::default());
    fork.at(100_000);
    assert_eq!(first.append(&fork.next(2)).await, Landing::Behind, "the place is taken");
    let other = Append { before: Link { sum: crate::ids::Sum(1), ..two.before }, ..two.clone() };
    assert_eq!(first.append(&other).await, Landing::Behind, "it goes on from another batch");
    assert_eq!(first.append(&two).await, Landing::Durable);
}

pub(super) async fn a_transaction_may_hold_batches_of_several_partitions(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let mut streams = Vec::new();
    for partition in 0..PARTITIONS {
        streams.push(Chain::new(first.take(partition).await));
    }
    let round: Vec<Append> = streams.iter_mut().map(|stream| stream.next(2)).collect();
    assert_eq!(first.store.append(round).await.unwrap(), vec![Landing::Durable; PARTITIONS as usize]);
    first.store.let_go(streams[2].reign, Time(5)).await.unwrap();
    second.take(2).await;
    let round: Vec<Append> = streams.iter_mut().map(|stream| stream.next(1)).collect();
    let landings = first.store.append(round).await.unwrap();
    let mut expected = vec![Landing::Durable; PARTITIONS as usize];
    expected[2] = Landing::Moved;
    assert_eq!(landings, expected, "one does not fail all");
    assert_eq!(first.store.append(Vec::new()).await.unwrap(), []);
}

pub(super) async fn another_batch_at_the_same_place_is_not_ours(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let old = Chain::new(first.take(0).await).next(2);
    second.bury(first.id()).await;
    let new = Chain::new(second.take(0).await).next(2);
    assert_eq!(second.append(&new).await, Landing::Durable);
    assert_eq!(first.append(&old).await, Landing::Moved);
    assert_eq!(records(&second.read_all(0, Position::START).await), [&new.batch.record[..]]);
}

pub(super) async fn a_long_stream_is_read_page_by_page(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let mut stream = Chain::new(first.take(0).await);
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

pub(super) async fn a_page_shows_the_owner_of_its_instant(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let page = first.store.read(0, Cursor::After(Position::START)).await.unwrap();
    assert_eq!(page, Page { owner: Seen::default(), pieces: Vec::new(), next: None });
    let reign = first.take(0).await;
    let page = first.store.read(0, Cursor::After(Position::START)).await.unwrap();
    assert_eq!(page.owner, Seen { value: reign.owner, version: reign.version });
}

pub(super) async fn checkpointed(first: &Member, reign: Reign, upto: Position, chunks: u32) -> CheckpointId {
    let id = CheckpointId { epoch: reign.epoch(), upto };
    for number in 0..chunks {
        first.store.put_chunk(reign, id, number, format!("chunk {number} of {upto}").into_bytes()).await.unwrap();
    }
    first.store.finish_checkpoint(reign, id, chunks).await.unwrap();
    id
}

pub(super) async fn sweep_all(first: &Member, reign: Reign) {
    for _ in 0..100 {
        if !first.store.sweep(reign).await.unwrap() {
            return;
        }
    }
    panic!("sweeping never ends");
}

pub(super) async fn a_checkpoint_replaces_what_it_covers(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let mut stream = Chain::new(reign);
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

pub(super) async fn a_checkpoint_of_an_old_reign_counts_for_nothing(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    let append = Chain::new(reign).next(3);
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

pub(super) async fn a_checkpoint_waits_for_its_changes_and_chunks(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let mut stream = Chain::new(reign);
    assert_eq!(first.append(&stream.next(3)).await, Landing::Durable);
    let id = CheckpointId { epoch: reign.epoch(), upto: Position(4) };
    first.store.put_chunk(reign, id, 0, b"facts".to_vec()).await.unwrap();
    is_refused(first.store.finish_checkpoint(reign, id, 1).await);
    assert_eq!(first.append(&stream.next(1)).await, Landing::Durable);
    is_refused(first.store.finish_checkpoint(reign, id, 2).await);
    first.store.finish_checkpoint(reign, id, 1).await.unwrap();
}

pub(super) async fn what_was_swept_is_lost_not_moved(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let mut old = Chain::new(first.take(0).await);
    let one = old.next(2);
    assert_eq!(first.append(&one).await, Landing::Durable);
    second.bury(first.id()).await;
    let reign = second.take(0).await;
    let mut new = Chain::after(reign, one.batch.last, Link::to(&one.batch));
    for _ in 0..3 {
        assert_eq!(second.append(&new.next(1)).await, Landing::Durable);
    }
    checkpointed(&second, reign, Position(5), 1).await;
    sweep_all(&second, reign).await;
    assert_eq!(first.append(&one).await, Landing::Lost);
    let mut ahead = Chain::after(old.reign, Position(5), Link::default());
    assert_eq!(first.append(&ahead.next(1)).await, Landing::Moved, "nothing was ever there");
}

pub(super) async fn a_large_batch_and_a_large_chunk_come_back_whole(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let reign = first.take(0).await;
    let append = Chain::new(reign).next(700_000);
    assert!(append.batch.record.len() > 512 << 10);
    assert_eq!(first.append(&append).await, Landing::Durable);
    assert_eq!(records(&first.read_all(0, Position::START).await), [&append.batch.record[..]]);
    let id = CheckpointId { epoch: reign.epoch(), upto: Position(1) };
    let chunk: Vec<u8> = (0..256 << 10).map(|n: u32| n.to_le_bytes()[0]).collect();
    first.store.put_chunk(reign, id, 0, chunk.clone()).await.unwrap();
    first.store.finish_checkpoint(reign, id, 1).await.unwrap();
    assert_eq!(records(&first.read_all(0, Position::START).await)[0], &chunk[..]);
}
