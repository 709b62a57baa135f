//! Keeps etcd small: looks at its size, and compacts its history, which grows with every beat and append. One node at a
//! time compacts, agreed on by a compare on one key.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_journal::Room;
use tokio::time::{Instant, sleep};

use super::{EtcdSizes, Inner, PATIENCE};
use crate::txn::{Txn, get, put, unsigned, version_is};
use crate::wire::{CompactionRequest, StatusRequest};

/// A compaction is due sooner when so much has been written.
const COMPACT_REVISIONS: u64 = 200_000;
/// Percents of the quota at which the store is low on room: of what is in use, and of the file, in which free pages
/// may be too scattered for a chunk.
const LOW_IN_USE: u64 = 80;
const LOW_FILE: u64 = 95;

pub(super) async fn run(inner: Arc<Inner>) {
    let mut compaction = Compaction::default();
    loop {
        let revision = inner.look().await;
        if inner.compacts
            && let Some(revision) = revision
            && compaction.is_due(revision, inner.upkeep.compact_every)
        {
            compaction = inner.compact(compaction).await;
        }
        sleep(inner.upkeep.look_every).await;
    }
}

/// The last compaction, as far as this node knows.
#[derive(Debug)]
struct Compaction {
    /// The version of the key that the nodes agree by.
    version: u64,
    /// The revision at that time: a minute later it is old enough.
    revision: u64,
    at: Instant,
}

impl Default for Compaction {
    fn default() -> Self {
        Compaction { version: 0, revision: 0, at: Instant::now() }
    }
}

impl Compaction {
    fn is_due(&self, revision: u64, every: Duration) -> bool {
        // Before the first one, the key is looked at once.
        self.revision == 0 || self.at.elapsed() >= every || revision.saturating_sub(self.revision) > COMPACT_REVISIONS
    }
}

impl Inner {
    /// Asks etcd for its size and who leads, and returns its revision.
    async fn look(&self) -> Option<u64> {
        let status = self.beats.call(&StatusRequest {}, PATIENCE).await.ok()?;
        let sizes = &self.sizes;
        sizes.file_bytes.store(status.db_size, Ordering::Relaxed);
        sizes.in_use_bytes.store(status.db_size_in_use, Ordering::Relaxed);
        let is_full = status.errors.iter().any(|error| error.contains("NOSPACE"));
        if is_full && !sizes.is_full.swap(true, Ordering::Relaxed) {
            tracing::error!(
                store = self.place,
                "etcd is full and takes no changes: compact, defragment, disarm its alarm"
            );
        }
        sizes.is_full.store(is_full, Ordering::Relaxed);
        self.beats.go_to_leader(&status).await;
        Some(unsigned(status.header?.revision))
    }

    pub(super) fn sizes(&self) -> EtcdSizes {
        EtcdSizes {
            file_bytes: unsigned(self.sizes.file_bytes.load(Ordering::Relaxed)),
            in_use_bytes: unsigned(self.sizes.in_use_bytes.load(Ordering::Relaxed)),
            compactions: self.compactions.load(Ordering::Relaxed),
            resent: self.main.resent(),
        }
    }

    pub(super) fn room(&self) -> Room {
        let EtcdSizes { file_bytes, in_use_bytes, .. } = self.sizes();
        room(file_bytes, in_use_bytes, self.sizes.is_full.load(Ordering::Relaxed), self.quota_bytes)
    }

    /// Compacts to the revision that was current when the key was last changed, if no other node was faster.
    async fn compact(&self, last: Compaction) -> Compaction {
        let key = self.keys.compact();
        let txn = Txn::default()
            .when(version_is(key.clone(), last.version))
            .then(put(key.clone(), format!("{}", last.revision)))
            .or_else(get(key));
        let Ok(mut outcome) = self.transact(&self.beats, &txn).await else { return last };
        let revision = outcome.revision;
        if !outcome.succeeded {
            let version = outcome.key().map_or(0, |kv| unsigned(kv.mod_revision));
            return Compaction { version, revision, at: Instant::now() };
        }
        if last.revision > 0 {
            let request = CompactionRequest { revision: i64::try_from(last.revision).unwrap_or(i64::MAX) };
            match self.bulk.call(&request, PATIENCE).await {
                Ok(_) => {
                    self.compactions.fetch_add(1, Ordering::Relaxed);
                }
                // Compacted already, by the operator or by etcd itself, is as good.
                Err(error) => tracing::debug!(store = self.place, %error, "no compaction"),
            }
        }
        Compaction { version: revision, revision, at: Instant::now() }
    }
}

fn room(file_bytes: u64, in_use_bytes: u64, is_full: bool, quota_bytes: u64) -> Room {
    if is_full {
        return Room::Low { left_bytes: 0 };
    }
    let is_low = in_use_bytes >= quota_bytes / 100 * LOW_IN_USE || file_bytes >= quota_bytes / 100 * LOW_FILE;
    if is_low { Room::Low { left_bytes: quota_bytes.saturating_sub(in_use_bytes) } } else { Room::Enough }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_low_at_four_fifths_of_the_quota() {
        assert_eq!(room(0, 0, false, 1000), Room::Enough);
        assert_eq!(room(900, 799, false, 1000), Room::Enough);
        assert_eq!(room(900, 800, false, 1000), Room::Low { left_bytes: 200 });
        assert_eq!(room(949, 10, false, 1000), Room::Enough);
        assert_eq!(room(950, 10, false, 1000), Room::Low { left_bytes: 990 });
        assert_eq!(room(2000, 2000, false, 1000), Room::Low { left_bytes: 0 });
        assert_eq!(room(1, 1, true, 1000), Room::Low { left_bytes: 0 });
    }

    #[test]
    fn a_compaction_is_due_at_first_and_after_many_revisions() {
        assert!(Compaction::default().is_due(5, Duration::MAX));
        let last = Compaction { version: 1, revision: 10, at: Instant::now() };
        assert!(last.is_due(11, Duration::ZERO));
        assert!(!last.is_due(10 + COMPACT_REVISIONS, Duration::MAX));
        assert!(last.is_due(11 + COMPACT_REVISIONS, Duration::MAX));
    }
}
