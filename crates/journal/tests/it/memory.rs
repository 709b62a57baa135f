//! The store in memory.

use leasehold_journal::store::{MemoryOpener, Opener};
use leasehold_journal::{Epoch, Position};

use crate::conformance::{self, Appender, Found, PARTITION, Subject};

struct Memory(MemoryOpener);

impl Subject for Memory {
    const IS_EXCLUSIVE: bool = false;

    fn opener(&self) -> Box<dyn Opener> {
        Box::new(self.0.clone())
    }

    fn damage(&self, position: Position) {
        self.0.flip_bit(PARTITION, position);
    }
}

conformance::conformance!(Memory(MemoryOpener::keeping()));

#[test]
fn a_forgetful_one_keeps_nothing_but_where_it_got_to() {
    let opener = MemoryOpener::forgetful();
    let Found { mut opened, .. } = conformance::try_open(&opener).unwrap();
    let mut appender = Appender::new(&opened);
    for _ in 0..100 {
        appender.append(&mut *opened.store, 10);
    }
    opened.store.begin_checkpoint(Position(1_000)).unwrap();
    opened.store.put_chunk(&[0; 1_000]).unwrap();
    opened.store.finish_checkpoint().unwrap();
    assert_eq!(opened.store.sizes(), leasehold_journal::store::Sizes::default());
    let again = conformance::try_open(&opener).unwrap();
    assert_eq!((again.opened.epoch, again.opened.head), (Epoch(2), Position(1_000)));
    assert_eq!((again.chunks.len(), again.batches.len()), (0, 0));
}

#[test]
fn partitions_are_streams_of_their_own() {
    let opener = MemoryOpener::keeping();
    let Found { mut opened, .. } = conformance::try_open(&opener).unwrap();
    Appender::new(&opened).append(&mut *opened.store, 1);
    let other = opener.open(PARTITION + 1, &mut |_| panic!("there is nothing")).unwrap();
    assert_eq!((other.epoch, other.head), (Epoch(1), Position(0)));
}
