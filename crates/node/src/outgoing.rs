//! The messages on their way to a peer, as frames: a frame is its length in four bytes and its messages; an empty one
//! is a sign of life. Messages that are ready together leave together. Bytes that a peer does not take are bounded.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_cluster::{Message, wire};
use tokio::sync::Notify;
use tokio::time::timeout;

/// A silent link shows that it is there.
const PING_EVERY: Duration = Duration::from_secs(1);
/// Bytes that a peer has not taken: from here on callers are turned away.
const SLOW_BYTES: usize = 4 << 20;
/// From here on the link is given up.
const PENDING_BYTES_MAX: usize = 8 << 20;
/// The first bytes of a frame.
pub(crate) const HEADER_BYTES: usize = 4;

/// The messages on their way to a peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pending: Mutex<Pending>,
    bell: Notify,
    is_slow: AtomicBool,
    slow_links: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Pending {
    /// A frame that is being filled, with room for its length at the beginning.
    frame: Vec<u8>,
    is_closed: bool,
}

impl Outgoing {
    pub(crate) fn new(slow_links: Arc<AtomicUsize>) -> Outgoing {
        Outgoing { pending: Mutex::default(), bell: Notify::new(), is_slow: AtomicBool::new(false), slow_links }
    }

    pub(crate) fn push(&self, message: &Message) {
        let mut pending = self.pending();
        if pending.is_closed {
            return;
        }
        if pending.frame.is_empty() {
            pending.frame.extend([0; HEADER_BYTES]);
        }
        wire::encode(message, &mut pending.frame);
        let len = pending.frame.len();
        pending.is_closed = len > PENDING_BYTES_MAX;
        drop(pending);
        self.set_slow(len > SLOW_BYTES);
        self.bell.notify_one();
    }

    pub(crate) fn close(&self) {
        self.pending().is_closed = true;
        self.bell.notify_one();
    }

    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slow(&self, is_slow: bool) {
        if self.is_slow.swap(is_slow, Ordering::Relaxed) != is_slow {
            if is_slow {
                self.slow_links.fetch_add(1, Ordering::Relaxed);
            } else {
                self.slow_links.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// The frame that has been filled; an empty one if nothing came for a while. `None` when the link is closed.
    pub(crate) async fn next_frame(&self) -> Option<Vec<u8>> {
        loop {
            {
                let mut pending = self.pending();
                if pending.is_closed {
                    return None;
                }
                if !pending.frame.is_empty() {
                    let mut frame = std::mem::take(&mut pending.frame);
                    let len = u32::try_from(frame.len() - HEADER_BYTES).expect("a frame is bounded");
                    frame[..HEADER_BYTES].copy_from_slice(&len.to_be_bytes());
                    return Some(frame);
                }
            }
            if timeout(PING_EVERY, self.bell.notified()).await.is_err() {
                return Some(vec![0; HEADER_BYTES]);
            }
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        // Every step under this lock is whole.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.set_slow(false);
    }
}
