//! The promises that every store has to keep, wherever it keeps its records. A new store joins by being a `Subject` and
//! one line of `conformance!`.

use leasehold_engine::{Change, Counters, Fact, Moment, Time, Token, Wall};
use leasehold_journal::record::{Batch, BatchWriter, ChunkWriter, decode_batch, decode_chunk};
use leasehold_journal::store::{Opened, Opener, Recovered, Store, StoreError};
use leasehold_journal::{Epoch, Position};

pub(crate) const PARTITION: u32 = 4;

/// One stream, empty at first, that can be opened again and again.
pub(crate) trait Subject {
    /// `true` if a second owner has to wait for the first to go (a data directory), `false` if it takes over (a shared
    /// store).
    const IS_EXCLUSIVE: bool;

    fn opener(&self) -> Box<dyn Opener>;

    /// Spoils the record that holds a position, behind the store's back. The store is closed.
    fn damage(&self, position: Position);
}

/// Every promise as a test of its own.
macro_rules! conformance {
    ($fresh:expr) => {
        $crate::conformance::conformance!($fresh;
            what_was_appended_is_there_after_opening_again
            every_opening_raises_the_epoch
            a_batch_that_does_not_go_on_from_the_head_is_refused
            a_batch_of_another_epoch_is_refused
            the_owner_before_is_fenced_or_has_to_be_gone
            the_identical_batch_again_happens_once
            a_checkpoint_replaces_the_past_while_appends_go_on
            a_checkpoint_may_end_within_a_batch
            an_unfinished_checkpoint_is_as_if_it_had_never_been
            a_checkpoint_is_not_finished_before_it_is_durable
            a_checkpoint_replaces_a_checkpoint
            chunks_without_a_beginning_are_refused
            a_big_batch_is_kept_whole
            maintaining_comes_to_an_end_and_leaves_the_tail
            damage_in_the_middle_is_refused_and_named
            what_the_visitor_objects_to_is_the_answer
        );
    };
    ($fresh:expr; $($name:ident)*) => {
        $(#[test]
        fn $name() {
            $crate::conformance::$name(&$fresh);
        })*
    };
}
pub(crate) use conformance;

/// The result of an opening.
pub(crate) struct Found {
    pub(crate) opened: Opened,
    pub(crate) chunks: Vec<Vec<u8>>,
    pub(crate) batches: Vec<Vec<u8>>,
}

pub(crate) fn try_open(opener: &dyn Opener) -> Result<Found, StoreError> {
    let (mut chunks, mut batches) = (Vec::new(), Vec::new());
    let opened = opener.open(PARTITION, &mut |recovered| {
        match recovered {
            Recovered::Chunk(record) => chunks.push(record.to_vec()),
            Recovered::Batch(record) => batches.push(record.to_vec()),
        }
        Ok(())
    })?;
    Ok(Found { opened, chunks, batches })
}

pub(crate) fn open(subject: &impl Subject) -> Found {
    try_open(&*subject.opener()).unwrap()
}

/// Makes the batches of a process that has just opened the stream.
pub(crate) struct Appender {
    writer: BatchWriter,
    at: Time,
}

impl Appender {
    pub(crate) fn new(opened: &Opened) -> Self {
        Appender::at(opened.epoch, opened.head.next())
    }

    pub(crate) fn at(epoch: Epoch, first: Position) -> Self {
        // Service time goes on from epoch to epoch.
        Appender { writer: BatchWriter::new(PARTITION, epoch, first), at: Time(epoch.0 * 1_000_000) }
    }

    /// The next batch, of so many changes.
    pub(crate) fn batch(&mut self, changes: usize) -> Batch {
        for _ in 0..changes {
            self.at = self.at.plus(1);
            self.writer.push(Moment { at: self.at, wall: Wall(0) }, &Change::Marked);
        }
        self.writer.seal()
    }

    pub(crate) fn append(&mut self, store: &mut dyn Store, changes: usize) -> Batch {
        let batch = self.batch(changes);
        store.append(&batch).unwrap();
        batch
    }
}

/// A checkpoint of so many chunks, told apart by `mark`.
pub(crate) fn chunks(upto: Position, count: usize, mark: u64) -> Vec<Vec<u8>> {
    let mut writer = ChunkWriter::new(PARTITION, upto, Moment::default());
    let seal = |number: usize| {
        writer.push(&Fact::Counters(Counters { last_token: Token(mark), last_order: number as u64 }));
        writer.seal()
    };
    (0..count).map(seal).collect()
}

fn put_checkpoint(store: &mut dyn Store, upto: Position, chunks: &[Vec<u8>]) {
    store.begin_checkpoint(upto).unwrap();
    for chunk in chunks {
        store.put_chunk(chunk).unwrap();
    }
    store.finish_checkpoint().unwrap();
}

pub(crate) fn records(batches: &[Batch]) -> Vec<Vec<u8>> {
    batches.iter().map(|batch| batch.record.clone()).collect()
}

fn assert_fenced(result: &Result<(), StoreError>) {
    assert!(matches!(result, Err(StoreError::Fenced(_))), "{result:?}");
}

pub(crate) fn what_was_appended_is_there_after_opening_again(subject: &impl Subject) {
    let Found { mut opened, chunks, batches } = open(subject);
    assert_eq!((opened.head, chunks.len(), batches.len()), (Position(0), 0, 0));
    let mut appender = Appender::new(&opened);
    let mut appended: Vec<_> = [1, 3, 2].map(|changes| appender.append(&mut *opened.store, changes)).into();
    drop(opened);

    let Found { mut opened, chunks, batches } = open(subject);
    assert_eq!((opened.head, chunks.len(), batches), (Position(6), 0, records(&appended)));
    appended.push(Appender::new(&opened).append(&mut *opened.store, 4));
    assert_eq!(appended[3].first, Position(7));
    assert_eq!(opened.store.sizes().tail_bytes, appended.iter().map(|batch| batch.record.len() as u64).sum::<u64>());
    drop(opened);

    let Found { opened, batches, .. } = open(subject);
    assert_eq!((opened.head, batches), (Position(10), records(&appended)));
}

pub(crate) fn every_opening_raises_the_epoch(subject: &impl Subject) {
    for epoch in 1..5 {
        assert_eq!(open(subject).opened.epoch, Epoch(epoch));
    }
}

pub(crate) fn a_batch_that_does_not_go_on_from_the_head_is_refused(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::at(opened.epoch, Position(1));
    let store = &mut *opened.store;
    let first = appender.append(store, 3);
    for wrong in [1, 2, 3, 5, 100] {
        assert_fenced(&store.append(&Appender::at(opened.epoch, Position(wrong)).batch(2)));
    }
    // Nothing of it was written, and the right one is still welcome.
    let second = appender.append(store, 2);
    drop(opened);
    assert_eq!(open(subject).batches, records(&[first, second]));
}

pub(crate) fn a_batch_of_another_epoch_is_refused(subject: &impl Subject) {
    drop(open(subject));
    let Found { mut opened, .. } = open(subject);
    for epoch in [1, 3] {
        assert_fenced(&opened.store.append(&Appender::at(Epoch(epoch), Position(1)).batch(1)));
    }
    drop(opened);
    assert_eq!(open(subject).batches.len(), 0);
}

pub(crate) fn the_owner_before_is_fenced_or_has_to_be_gone<S: Subject>(subject: &S) {
    let Found { opened: mut before, .. } = open(subject);
    let mut appender = Appender::new(&before);
    let kept = appender.append(&mut *before.store, 2);
    let late = appender.batch(1);
    if S::IS_EXCLUSIVE {
        let refused = try_open(&*subject.opener()).map(|found| found.opened);
        assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
        before.store.append(&late).unwrap();
        drop(before);
        let Found { mut opened, batches, .. } = open(subject);
        assert_eq!(batches, records(&[kept, late]));
        // A batch that it sends on its way out comes too late now.
        assert_fenced(&opened.store.append(&appender.batch(1)));
    } else {
        let Found { opened: mut after, .. } = open(subject);
        assert_fenced(&before.store.append(&late));
        assert_fenced(&before.store.begin_checkpoint(Position(2)));
        let new = Appender::new(&after).append(&mut *after.store, 1);
        assert_fenced(&before.store.append(&late));
        drop((before, after));
        assert_eq!(open(subject).batches, records(&[kept, new]));
    }
}

pub(crate) fn the_identical_batch_again_happens_once(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    let first = appender.append(store, 2);
    store.append(&first).unwrap();
    let second = appender.append(store, 1);
    store.append(&second).unwrap();
    // Also when a checkpoint has replaced it meanwhile.
    put_checkpoint(store, second.last, &chunks(second.last, 1, 0));
    while store.maintain().unwrap() {}
    store.append(&second).unwrap();
    // The same positions with something else in them are another batch.
    let mut other = Appender::at(opened.epoch, Position(3));
    other.at = Time(0);
    assert_fenced(&store.append(&other.batch(1)));
    let third = appender.append(store, 1);
    drop(opened);
    assert_eq!(open(subject).batches, records(&[third]));
}

pub(crate) fn a_checkpoint_replaces_the_past_while_appends_go_on(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    appender.append(store, 3);
    // The state is ahead of the store: the batch up to 5 is still on its way when the checkpoint begins.
    let upto = Position(5);
    let parts = chunks(upto, 3, 1);
    store.begin_checkpoint(upto).unwrap();
    store.put_chunk(&parts[0]).unwrap();
    appender.append(store, 2);
    store.put_chunk(&parts[1]).unwrap();
    let mut tail = vec![appender.append(store, 2)];
    store.put_chunk(&parts[2]).unwrap();
    store.finish_checkpoint().unwrap();
    tail.push(appender.append(store, 1));

    let sizes = store.sizes();
    assert_eq!(sizes.tail_bytes, tail.iter().map(|batch| batch.record.len() as u64).sum::<u64>());
    assert_eq!(sizes.checkpoint_bytes, parts.iter().map(|chunk| chunk.len() as u64).sum::<u64>());
    drop(opened);
    for _ in 0..2 {
        let Found { mut opened, chunks, batches } = open(subject);
        assert_eq!((opened.head, chunks), (Position(8), parts.clone()));
        assert_eq!(batches, records(&tail));
        assert_eq!(opened.store.sizes().tail_bytes, sizes.tail_bytes);
        while opened.store.maintain().unwrap() {}
    }
}

pub(crate) fn a_checkpoint_may_end_within_a_batch(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    appender.append(store, 2);
    let parts = chunks(Position(4), 1, 1);
    store.begin_checkpoint(Position(4)).unwrap();
    store.put_chunk(&parts[0]).unwrap();
    let around = appender.append(store, 5);
    store.finish_checkpoint().unwrap();
    while store.maintain().unwrap() {}
    drop(opened);
    let Found { opened, chunks, batches } = open(subject);
    assert_eq!((opened.head, chunks, batches), (Position(7), parts, records(&[around])));
}

pub(crate) fn an_unfinished_checkpoint_is_as_if_it_had_never_been(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    let first = appender.append(store, 3);
    store.begin_checkpoint(Position(3)).unwrap();
    store.put_chunk(&chunks(Position(3), 1, 1)[0]).unwrap();
    drop(opened);

    let Found { mut opened, chunks: found, batches } = open(subject);
    assert_eq!((found.len(), batches), (0, records(&[first])));
    let store = &mut *opened.store;
    assert!(matches!(store.finish_checkpoint(), Err(StoreError::Misused(_))), "the old one is gone");
    // One that is begun twice starts over.
    store.begin_checkpoint(Position(3)).unwrap();
    store.put_chunk(&chunks(Position(3), 1, 2)[0]).unwrap();
    let parts = chunks(Position(3), 2, 3);
    put_checkpoint(store, Position(3), &parts);
    while store.maintain().unwrap() {}
    drop(opened);
    let Found { opened, chunks, batches } = open(subject);
    assert_eq!((opened.head, chunks, batches.len()), (Position(3), parts, 0));
}

pub(crate) fn a_checkpoint_is_not_finished_before_it_is_durable(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    appender.append(store, 3);
    let parts = chunks(Position(4), 1, 1);
    store.begin_checkpoint(Position(4)).unwrap();
    store.put_chunk(&parts[0]).unwrap();
    let refused = store.finish_checkpoint();
    assert!(matches!(refused, Err(StoreError::NotYet { upto: Position(4), head: Position(3) })), "{refused:?}");
    appender.append(store, 1);
    store.finish_checkpoint().unwrap();
    drop(opened);
    let Found { opened, chunks, batches } = open(subject);
    assert_eq!((opened.head, chunks, batches.len()), (Position(4), parts, 0));
}

pub(crate) fn a_checkpoint_replaces_a_checkpoint(subject: &impl Subject) {
    for (mark, count) in [(1, 3), (2, 1), (3, 9)] {
        let Found { mut opened, .. } = open(subject);
        let mut appender = Appender::new(&opened);
        let store = &mut *opened.store;
        let upto = appender.append(store, 2).last;
        let parts = chunks(upto, count, mark);
        put_checkpoint(store, upto, &parts);
        while store.maintain().unwrap() {}
        drop(opened);
        let Found { opened, chunks, batches } = open(subject);
        assert_eq!((opened.head, chunks, batches.len()), (upto, parts, 0));
    }
}

pub(crate) fn chunks_without_a_beginning_are_refused(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let result = opened.store.put_chunk(&chunks(Position(0), 1, 1)[0]);
    assert!(matches!(result, Err(StoreError::Misused(_))), "{result:?}");
    assert!(matches!(opened.store.finish_checkpoint(), Err(StoreError::Misused(_))));
}

pub(crate) fn a_big_batch_is_kept_whole(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let big = appender.append(&mut *opened.store, 500_000);
    assert!(big.record.len() > 1_000_000);
    let small = appender.append(&mut *opened.store, 1);
    drop(opened);
    let Found { opened, batches, .. } = open(subject);
    assert_eq!(opened.head, Position(500_001));
    assert!(batches == records(&[big, small]), "not what was appended");
    assert_eq!(decode_batch(&batches[0]).unwrap().changes.len(), 500_000);
}

pub(crate) fn maintaining_comes_to_an_end_and_leaves_the_tail(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    let store = &mut *opened.store;
    let mut upto = Position(0);
    for _ in 0..300 {
        upto = appender.append(store, 200).last;
    }
    let past = store.sizes();
    let parts = chunks(upto, 6, 1);
    put_checkpoint(store, upto, &parts);
    let mut tail = Vec::new();
    let mut slices = 0;
    while store.maintain().unwrap() {
        tail.push(appender.append(store, 1));
        slices += 1;
        assert!(slices < 1_000, "there is no end to it");
    }
    tail.push(appender.append(store, 1));
    let sizes = store.sizes();
    assert!(sizes.tail_bytes < past.tail_bytes / 10, "{sizes:?}, before {past:?}");
    drop(opened);
    let Found { opened, chunks, batches } = open(subject);
    assert_eq!((opened.head, chunks, batches), (tail.last().unwrap().last, parts.clone(), records(&tail)));
    assert_eq!(decode_chunk(&parts[5]).unwrap().header.number, 5);
}

pub(crate) fn damage_in_the_middle_is_refused_and_named(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    let mut appender = Appender::new(&opened);
    for changes in [3, 4, 2] {
        appender.append(&mut *opened.store, changes);
    }
    drop(opened);
    subject.damage(Position(5));
    // Again and again: refusing changes nothing.
    for _ in 0..2 {
        let error = try_open(&*subject.opener()).map(|found| found.opened).expect_err("damage went unnoticed");
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("journal position 4 is damaged: checksum"), "{message}");
        assert!(message.contains("restore the data from a backup"), "{message}");
    }
}

pub(crate) fn what_the_visitor_objects_to_is_the_answer(subject: &impl Subject) {
    let Found { mut opened, .. } = open(subject);
    Appender::new(&opened).append(&mut *opened.store, 1);
    drop(opened);
    let result = subject.opener().open(PARTITION, &mut |_| Err(StoreError::Misused("no")));
    assert!(matches!(result, Err(StoreError::Misused("no"))), "{result:?}");
    assert_eq!(open(subject).batches.len(), 1);
}
