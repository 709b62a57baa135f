//! Looks at the size of the tables. PostgreSQL does not tell how much room its disk has: the operator may say how much
//! the tables may use, and a disk that is full says so itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_journal::Room;
use tokio::time::sleep;

use super::{Inner, PATIENCE, PostgresSizes, unsigned};
use crate::client::Params;
use crate::sql;

/// Percents of the quota at which the store is low on room.
const LOW: u64 = 80;

pub(super) async fn run(inner: Arc<Inner>) {
    loop {
        if let Ok(rows) = inner.beats.call(sql::SIZE, Params::new(), PATIENCE).await
            && let Some(row) = rows.first()
        {
            inner.used_bytes.store(unsigned(row.get(0)), Ordering::Relaxed);
        }
        sleep(inner.upkeep.look_every).await;
    }
}

impl Inner {
    pub(super) fn sizes(&self) -> PostgresSizes {
        PostgresSizes {
            used_bytes: self.used_bytes.load(Ordering::Relaxed),
            resent: self.beats.resent(),
            connects: self.beats.connects(),
        }
    }

    /// The disk was full, or is no more, as an append has just found.
    pub(super) fn noticed(&self, is_full: bool) {
        if is_full && !self.is_full.swap(true, Ordering::Relaxed) {
            tracing::error!(store = self.place, "the disk of PostgreSQL is full: it takes no changes");
        }
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    pub(super) fn room(&self) -> Room {
        room(self.sizes().used_bytes, self.is_full.load(Ordering::Relaxed), self.quota_bytes)
    }
}

fn room(used_bytes: u64, is_full: bool, quota_bytes: Option<u64>) -> Room {
    match quota_bytes {
        _ if is_full => Room::Low { left_bytes: 0 },
        Some(quota) if used_bytes >= quota / 100 * LOW => Room::Low { left_bytes: quota.saturating_sub(used_bytes) },
        _ => Room::Enough,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_low_at_four_fifths_of_the_quota() {
        assert_eq!(room(u64::MAX, false, None), Room::Enough);
        assert_eq!(room(799, false, Some(1000)), Room::Enough);
        assert_eq!(room(800, false, Some(1000)), Room::Low { left_bytes: 200 });
        assert_eq!(room(2000, false, Some(1000)), Room::Low { left_bytes: 0 });
        assert_eq!(room(0, true, None), Room::Low { left_bytes: 0 });
    }
}
