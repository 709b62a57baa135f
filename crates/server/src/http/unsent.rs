//! The bytes of answers that wait for their clients to take them, counted for the whole process. A client decides how
//! fast it reads, so without a bound on all of them together clients that do not read would decide how much memory is
//! used. Bodies that clients send and do not end are counted in the same way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Answers up to this long are sent in any case. A refusal would not be much shorter, and holders of leases depend on
/// these answers: a client that does not read its lists must not keep others from renewing.
const SMALL_MAX: usize = 1024;

/// How many bytes may wait. Clones share the count.
#[derive(Clone, Debug)]
pub struct Unsent {
    max: usize,
    bytes: Arc<AtomicUsize>,
}

impl Unsent {
    pub fn at_most(max: usize) -> Self {
        Unsent { max, bytes: Arc::default() }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    pub fn max(&self) -> usize {
        self.max
    }

    /// Room for an answer of this length, until it is dropped; `Err` when there is none.
    pub(super) fn charge(&self, len: usize) -> Result<Option<Charge>, NoRoom> {
        if len <= SMALL_MAX {
            return Ok(None);
        }
        let before = self.bytes.fetch_add(len, Relaxed);
        // Given back right away if it is too much.
        let charge = Charge { bytes: Arc::clone(&self.bytes), len };
        if before.saturating_add(len) > self.max { Err(NoRoom) } else { Ok(Some(charge)) }
    }
}

/// Equal when they allow the same.
impl PartialEq for Unsent {
    fn eq(&self, other: &Self) -> bool {
        self.max == other.max
    }
}

impl Eq for Unsent {}

/// Too many bytes wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// Held while the bytes of an answer wait.
#[derive(Debug)]
pub(super) struct Charge {
    bytes: Arc<AtomicUsize>,
    len: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.len, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_up_to_the_bound_and_again_once_some_is_taken() {
        let unsent = Unsent::at_most(5_000);
        let first = unsent.charge(3_000).unwrap();
        assert_eq!(unsent.charge(2_001).unwrap_err(), NoRoom);
        let second = unsent.charge(2_000).unwrap();
        assert_eq!(unsent.bytes(), 5_000);
        assert!(unsent.charge(SMALL_MAX).unwrap().is_none(), "a small answer always goes, and is not counted");
        assert_eq!(unsent.charge(SMALL_MAX + 1).unwrap_err(), NoRoom);
        drop(first);
        assert_eq!((unsent.bytes(), unsent.charge(3_000).is_ok()), (2_000, true));
        drop(second);
        assert_eq!(unsent.bytes(), 0);
    }
}
