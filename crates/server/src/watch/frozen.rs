//! Orders that hold still. A list by waiters or by expiry is in an order that changes all the time, so a page cannot
//! say where the next one begins: a resource that moves across that place is missed or shown twice. So the order is
//! kept as it was when the first page was asked for, and the pages after it are cut from that. Kept are keys alone,
//! bounded in number, in bytes and in time; the oldest make room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::limits::{ORDER_KEPT_US, ORDER_LENGTH_MAX};
use leasehold_engine::ResourceKey;

/// Orders kept at once …
const ORDERS_MAX: usize = 64;
/// … and the bytes that all of them may use.
const BYTES_MAX: usize = 32 << 20;
/// … fewer where their names are long.
const ORDER_BYTES_MAX: usize = BYTES_MAX / 4;

/// Orders of lists that a caller pages through. `Q` is the query of the list.
#[derive(Debug)]
pub(crate) struct Frozen<Q> {
    orders: Mutex<Orders<Q>>,
}

#[derive(Debug)]
struct Orders<Q> {
    /// The one used last is the last.
    kept: VecDeque<Order<Q>>,
    bytes: usize,
}

#[derive(Debug)]
struct Order<Q> {
    id: u64,
    query: Q,
    keys: Arc<[ResourceKey]>,
    bytes: usize,
    used_us: u64,
}

/// Why a page cannot be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It was kept long enough, or others needed the room, or the process is another.
    Expired,
    /// It is the order of another list.
    OfAnother,
}

impl<Q: PartialEq> Frozen<Q> {
    pub(crate) fn new() -> Self {
        Frozen { orders: Mutex::new(Orders { kept: VecDeque::new(), bytes: 0 }) }
    }

    /// Keeps an order. Returns the number to find it by, and as much of it as is kept.
    pub(crate) fn keep(&self, query: Q, mut keys: Vec<ResourceKey>, now_us: u64) -> (u64, Arc<[ResourceKey]>) {
        let mut bytes = 0;
        let mut length = 0;
        for key in keys.iter().take(ORDER_LENGTH_MAX) {
            if bytes + bytes_of(key) > ORDER_BYTES_MAX {
                break;
            }
            bytes += bytes_of(key);
            length += 1;
        }
        keys.truncate(length);
        let keys: Arc<[ResourceKey]> = keys.into();
        // Drawn, so that a cursor from before a restart finds nothing.
        let id = rand::random();
        let mut orders = self.orders();
        orders.bytes += bytes;
        orders.kept.push_back(Order { id, query, keys: Arc::clone(&keys), bytes, used_us: now_us });
        orders.make_room(now_us);
        (id, keys)
    }

    pub(crate) fn find(&self, id: u64, query: &Q, now_us: u64) -> Result<Arc<[ResourceKey]>, Lost> {
        let mut orders = self.orders();
        orders.make_room(now_us);
        let at = orders.kept.iter().position(|order| order.id == id).ok_or(Lost::Expired)?;
        if orders.kept[at].query != *query {
            return Err(Lost::OfAnother);
        }
        let mut order = orders.kept.remove(at).expect("it was just found");
        order.used_us = now_us;
        let keys = Arc::clone(&order.keys);
        orders.kept.push_back(order);
        Ok(keys)
    }

    fn orders(&self) -> MutexGuard<'_, Orders<Q>> {
        // Every step under this lock is whole.
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q> Orders<Q> {
    fn make_room(&mut self, now_us: u64) {
        while let Some(oldest) = self.kept.front()
            && (self.kept.len() > ORDERS_MAX
                || self.bytes > BYTES_MAX
                || now_us.saturating_sub(oldest.used_us) > ORDER_KEPT_US)
        {
            self.bytes -= oldest.bytes;
            self.kept.pop_front();
        }
    }
}

fn bytes_of(key: &ResourceKey) -> usize {
    size_of::<ResourceKey>() + key.name().map_or(0, |name| 16 + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize, name_len: usize) -> Vec<ResourceKey> {
        (0..count).map(|nth| ResourceKey::Lock(format!("{nth:0name_len$}").into())).collect()
    }

    #[test]
    fn an_order_is_found_by_its_number_and_its_query_as_long_as_it_is_used() {
        let frozen = Frozen::new();
        let (id, kept) = frozen.keep("waiting", keys(3, 4), 0);
        assert_eq!(kept.len(), 3);
        assert_eq!(frozen.find(id, &"waiting", ORDER_KEPT_US).as_deref(), Ok(&*kept));
        assert_eq!(frozen.find(id, &"expiry", ORDER_KEPT_US), Err(Lost::OfAnother));
        assert_eq!(frozen.find(id + 1, &"waiting", ORDER_KEPT_US), Err(Lost::Expired));
        assert!(frozen.find(id, &"waiting", 2 * ORDER_KEPT_US).is_ok(), "it was used meanwhile");
        assert_eq!(frozen.find(id, &"waiting", 3 * ORDER_KEPT_US + 1), Err(Lost::Expired));
    }

    #[test]
    fn the_oldest_make_room_in_number_and_in_bytes() {
        let frozen = Frozen::new();
        let ids: Vec<u64> = (0..=ORDERS_MAX).map(|_| frozen.keep((), keys(1, 4), 0).0).collect();
        assert_eq!(frozen.find(ids[0], &(), 0), Err(Lost::Expired));
        assert!(frozen.find(ids[1], &(), 0).is_ok(), "one more than fits pushes one out");

        let (long, kept) = frozen.keep((), keys(20_000, 1_000), 0);
        assert!(kept.len() < 20_000, "cut to {} by bytes", kept.len());
        assert!(kept.iter().map(bytes_of).sum::<usize>() <= ORDER_BYTES_MAX);
        let more: Vec<u64> = (0..4).map(|_| frozen.keep((), keys(20_000, 1_000), 0).0).collect();
        assert_eq!(frozen.find(long, &(), 0), Err(Lost::Expired));
        assert!(frozen.find(more[1], &(), 0).is_ok());
        assert!(frozen.orders().bytes <= BYTES_MAX);
        let (_, kept) = frozen.keep((), keys(ORDER_LENGTH_MAX + 1, 1), 0);
        assert_eq!(kept.len(), ORDER_LENGTH_MAX, "and by number");
    }
}
