//! Wakes a node when the map may have changed. Only a hint: the events are not looked at, and a watch that breaks wakes
//! as well.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_cluster::SharedError;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::{Inner, PATIENCE, lock};
use crate::wire::WatchCreateRequest;

/// After a watch broke.
const PAUSE: Duration = Duration::from_millis(200);

/// Counts the changes, from the first time they are asked for.
pub(super) struct Changes {
    inner: Arc<Inner>,
    watcher: Mutex<Option<Watcher>>,
}

struct Watcher {
    /// How many changes there were, of which `seen` were told.
    changes: Receiver<u64>,
    task: AbortHandle,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Changes {
    pub(super) fn new(inner: Arc<Inner>) -> Changes {
        Changes { inner, watcher: Mutex::new(None) }
    }

    /// Returns at once the first time, and then whenever something may have changed since it last returned.
    pub(super) async fn next(&self) -> Result<(), SharedError> {
        let mut changes = {
            let mut watcher = lock(&self.watcher);
            let Some(watcher) = &*watcher else {
                let (sender, changes) = channel(0);
                let task = tokio::spawn(watch(Arc::clone(&self.inner), sender)).abort_handle();
                *watcher = Some(Watcher { changes, task });
                return Ok(());
            };
            watcher.changes.clone()
        };
        let _ = changes.changed().await;
        if let Some(watcher) = &mut *lock(&self.watcher) {
            watcher.changes.mark_unchanged();
            // Unless there was one more since.
            if *watcher.changes.borrow() != *changes.borrow_and_update() {
                watcher.changes.mark_changed();
            }
        }
        Ok(())
    }
}

async fn watch(inner: Arc<Inner>, changes: Sender<u64>) {
    let range = inner.keys.map();
    let create = WatchCreateRequest { key: range.from, range_end: range.to };
    loop {
        if let Ok(mut stream) = inner.beats.watch(create.clone(), PATIENCE).await {
            // The first message says that the watch is there: whatever came before it is told of by this.
            while let Ok(Some(message)) = stream.message().await {
                if message.canceled {
                    break;
                }
                changes.send_modify(|count| *count += 1);
            }
        }
        changes.send_modify(|count| *count += 1);
        sleep(PAUSE).await;
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}
