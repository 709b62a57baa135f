//! Nodes in the map: joining, beating, burying, and which partitions they have.

use leasehold_engine::Time;
use leasehold_journal::Epoch;

use super::{Connect, Member, Rig, is_fenced, is_refused};
use crate::hash::Partitions;
use crate::ids::NodeId;
use crate::kit::{Chain, PARTITIONS, birth, node};
use crate::map::{Mark, NodeRecord, Owner, Seen};
use crate::store::{Birth, Landing, Taking};

pub(super) async fn the_first_join_makes_the_cluster(connect: Connect) {
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

pub(super) async fn a_join_with_other_facts_is_refused(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let store = (world.connect)();
    is_refused(store.join(node(2), Birth { partitions: Partitions::new(2 * PARTITIONS), ..birth() }).await);
    is_refused(store.join(node(2), Birth { format: 0, ..birth() }).await);
    assert_eq!(first.map().await.nodes.len(), 1, "nothing was written");
    store.join(node(2), Birth { partitions: None, ..birth() }).await.unwrap();
    is_refused((world.connect)().join(NodeRecord { address: "other:1".to_owned(), ..node(1) }, birth()).await);
}

pub(super) async fn a_format_only_rises_and_nodes_that_do_not_know_it_cannot_join(connect: Connect) {
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

pub(super) async fn a_join_is_recognised_when_it_is_sent_again(connect: Connect) {
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

pub(super) async fn a_beat_is_seen_and_may_be_sent_again(connect: Connect) {
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

pub(super) async fn an_older_beat_changes_nothing(connect: Connect) {
    let world = Rig::new(connect);
    let mut first = world.join(1).await;
    first.beat().await;
    let old = first.record.clone();
    first.record.marks = vec![Mark { partition: 0, epoch: Epoch(1), at: Time(5) }];
    first.beat().await;
    first.store.beat(old).await.unwrap();
    assert_eq!(first.seen(first.id()).await.value, first.record, "a belated beat does not put older marks back");
}

pub(super) async fn a_buried_node_neither_beats_nor_confirms(connect: Connect) {
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

pub(super) async fn burying_compares_what_was_seen(connect: Connect) {
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

pub(super) async fn a_node_is_forgotten_only_when_buried_and_named_by_no_partition(connect: Connect) {
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

pub(super) async fn a_free_partition_is_taken_once(connect: Connect) {
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

pub(super) async fn an_epoch_may_jump_and_never_stays(connect: Connect) {
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

pub(super) async fn a_partition_of_the_living_is_not_taken(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    first.take(0).await;
    let taking = second.taking(0).await;
    is_fenced(second.store.take(taking.clone()).await);
    is_fenced(second.store.take(Taking { dead: None, ..taking }).await);
}

pub(super) async fn a_partition_of_the_dead_is_taken_with_its_time(connect: Connect) {
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

pub(super) async fn a_taking_compares_the_burial_it_saw(connect: Connect) {
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

pub(super) async fn a_taking_is_recognised_when_it_is_sent_again(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    let taking = first.taking(3).await;
    let reign = first.store.take(taking.clone()).await.unwrap();
    assert_eq!(first.store.take(taking.clone()).await.unwrap(), reign);
    first.store.let_go(reign, Time(1)).await.unwrap();
    is_fenced(first.store.take(taking).await);
}

pub(super) async fn letting_go_leaves_it_to_the_next(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    let reign = first.take(0).await;
    first.store.let_go(reign, Time(9)).await.unwrap();
    first.store.let_go(reign, Time(9)).await.unwrap();
    assert_eq!(first.map().await.owners[0].value, Owner { epoch: Epoch(2), node: None, at: Time(9) });
    let next = second.take(0).await;
    assert_eq!(next.owner, Owner { epoch: Epoch(3), node: Some(second.id()), at: Time(9) });
    is_fenced(first.store.let_go(reign, Time(9)).await);
    assert_eq!(first.append(&Chain::new(reign).next(1)).await, Landing::Moved);
}

pub(super) async fn a_change_of_the_map_wakes(connect: Connect) {
    let world = Rig::new(connect);
    let first = world.join(1).await;
    first.store.changed().await.unwrap();
    let second = world.join(2).await;
    first.store.changed().await.unwrap();
    second.take(0).await;
    first.store.changed().await.unwrap();
}

pub(super) async fn draining_is_in_the_map(connect: Connect) {
    let world = Rig::new(connect);
    let (first, second) = (world.join(1).await, world.join(2).await);
    second.store.drain(first.id(), true).await.unwrap();
    second.store.drain(first.id(), true).await.unwrap();
    assert_eq!(first.map().await.drained, [first.id()]);
    second.store.drain(first.id(), false).await.unwrap();
    assert_eq!(first.map().await.drained, []);
    is_refused(second.store.drain(NodeId(99), true).await);
}

pub(super) async fn a_keyring_is_replaced_by_the_one_that_read_it(connect: Connect) {
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

pub(super) async fn the_revision_rises(connect: Connect) {
    let world = Rig::new(connect);
    let mut first = world.join(1).await;
    let mut last = first.map().await.revision;
    let mut stream = Chain::new(first.take(0).await);
    for _ in 0..3 {
        first.beat().await;
        let revision = first.map().await.revision;
        assert!(revision > last);
        assert_eq!(first.append(&stream.next(1)).await, Landing::Durable);
        last = first.map().await.revision;
        assert!(last >= revision);
    }
}
