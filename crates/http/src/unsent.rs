//! The bytes of answers that wait for their clients to take them, counted for the whole process. A client decides how
//! fast it reads, so without a bound on all of them together clients that do not read would decide how much memory is
//! used. Bodies that clients send and do not end are counted in the same way. One address may have three quarters, as
//! of connections.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::share::{Share, Shares};

/// Answers up to this long are sent in any case. A refusal would not be much shorter, and holders of leases depend on
/// these answers: a client that does not read its lists must not keep others from renewing.
pub(super) const SMALL_MAX: usize = 1024;

/// The bytes of addresses are counted in this unit.
const UNIT: usize = 1024;

/// How many bytes may wait. Clones share the count.
#[derive(Clone, Debug)]
pub struct Unsent(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    max: usize,
    bytes: AtomicUsize,
    by_address: Shares,
}

impl Unsent {
    pub fn at_most(max: usize) -> Self {
        let units = u32::try_from(max / UNIT).unwrap_or(u32::MAX);
        Unsent(Arc::new(Budget { max, bytes: AtomicUsize::new(0), by_address: Shares::of(units) }))
    }

    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Relaxed)
    }

    pub fn max(&self) -> usize {
        self.0.max
    }

    /// Room for so many bytes that wait for this address, until it is dropped; `Err` when there is none.
    pub(super) fn charge(&self, len: usize, ip: IpAddr) -> Result<Option<Charge>, NoRoom> {
        if len <= SMALL_MAX {
            return Ok(None);
        }
        let units = u32::try_from(len.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let share = self.0.by_address.take_all(ip, units).ok_or(NoRoom)?;
        let before = self.0.bytes.fetch_add(len, Relaxed);
        // Given back right away if it is too much.
        let charge = Charge { of: self.clone(), len, _share: share };
        if before.saturating_add(len) > self.0.max { Err(NoRoom) } else { Ok(Some(charge)) }
    }
}

/// Equal when they allow the same.
impl PartialEq for Unsent {
    fn eq(&self, other: &Self) -> bool {
        self.0.max == other.0.max
    }
}

impl Eq for Unsent {}

/// Too many bytes wait already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// Held while the bytes of an answer wait.
#[derive(Debug)]
pub(super) struct Charge {
    of: Unsent,
    len: usize,
    _share: Share,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.of.0.bytes.fetch_sub(self.len, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn there_is_room_up_to_the_bound_and_again_once_some_is_taken() {
        let unsent = Unsent::at_most(5_000);
        let first = unsent.charge(3_000, HERE).unwrap();
        assert_eq!(unsent.charge(2_001, HERE).unwrap_err(), NoRoom);
        let second = unsent.charge(2_000, HERE).unwrap();
        assert_eq!(unsent.bytes(), 5_000);
        assert!(unsent.charge(SMALL_MAX, HERE).unwrap().is_none(), "a small answer always goes, and is not counted");
        assert_eq!(unsent.charge(SMALL_MAX + 1, HERE).unwrap_err(), NoRoom);
        drop(first);
        assert_eq!((unsent.bytes(), unsent.charge(3_000, HERE).is_ok()), (2_000, true));
        drop(second);
        assert_eq!(unsent.bytes(), 0);
    }

    #[test]
    fn one_address_leaves_a_quarter_to_the_others() {
        let unsent = Unsent::at_most(16 * UNIT);
        let [one, other] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
        let kept: Vec<_> = (0..6).map(|_| unsent.charge(2 * UNIT, one).unwrap()).collect();
        assert_eq!(unsent.charge(2 * UNIT, one).unwrap_err(), NoRoom);
        assert_eq!(unsent.bytes(), 12 * UNIT, "nothing is left of a refusal");
        let rest = unsent.charge(4 * UNIT, other).unwrap();
        drop((kept, rest));
        assert!(unsent.charge(12 * UNIT, one).unwrap().is_some());
    }
}
