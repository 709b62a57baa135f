//! The activity of a connection, as far as its deadlines care: reading a head, answering, or idle between requests.
//! Kept by the socket wrapper and the service, read by the connection's driver. It arms no timers itself.
//!
//! hyper's own `header_read_timeout` is not used: it starts when the last answer is done, so ten seconds for a head
//! would also be ten seconds between requests, and it makes and drops a timer for every request. This notes points in
//! time instead, and the driver keeps one lazy timer a connection.
//!
//! ```text
//!          connect                first byte               head complete
//! ────────────▶ reading a head ◀──────────────── idle ◀──────────────┐
//!                     │   head_timeout              idle_timeout      │ last answer done
//!                     └──────────────────▶ answering ─────────────────┘
//!                        head complete      (none while it is made; stall_timeout since the last write while it is sent)
//! ```

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::limits::HttpLimits;
use super::response::Receipt;
use super::turn::{self, Turn};
use crate::planted::{Bug, is_armed};

/// `head_began_us` when no head is being read.
const NO_HEAD: u64 = u64::MAX;

/// One connection's state. HTTP/2 answers streams on other tasks than the connection's own, hence the atomics; each is
/// meaningful alone and a deadline read a moment early or late does no harm, hence relaxed.
#[derive(Debug)]
pub(super) struct Activity {
    connected_at: Instant,
    /// Requests whose head is complete and whose answer is not.
    answering: AtomicU32,
    /// Requests whose answer is a stream, which no client expects to end.
    streaming: AtomicU32,
    /// Those of them whose answer is long or a stream, on HTTP/1.1.
    long: AtomicU32,
    /// When the first byte of the head being read came, in microseconds since `connected_at`.
    head_began_us: AtomicU64,
    /// When the last answer made progress, in microseconds since `connected_at`.
    idle_since_us: AtomicU64,
    /// HTTP/2 peers send frames that belong to no request (settings, pings), so bytes begin nothing there.
    multiplexed: AtomicBool,
    /// hyper waits for bytes from the peer, and so hears of the connection's end.
    is_reading: AtomicBool,
    /// There is something to write, and the peer has no room for it.
    is_blocked: AtomicBool,
    /// Something is in `untold`.
    has_untold: AtomicBool,
    /// Answers that were taken by hyper and are not flushed yet.
    untold: Mutex<Vec<Receipt>>,
}

impl Activity {
    /// A connection just accepted owes a head.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Activity {
            connected_at: Instant::now(),
            answering: AtomicU32::new(0),
            streaming: AtomicU32::new(0),
            long: AtomicU32::new(0),
            head_began_us: AtomicU64::new(0),
            idle_since_us: AtomicU64::new(0),
            multiplexed: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
            is_blocked: AtomicBool::new(false),
            has_untold: AtomicBool::new(false),
            untold: Mutex::default(),
        })
    }

    /// Bytes came from the peer. Between requests they begin a head. (The rest of a request that was sent along with
    /// the one before is not seen here, as those bytes were read earlier; it has until the idle deadline.)
    pub(super) fn on_read(&self) {
        if self.answering.load(Relaxed) == 0
            && self.head_began_us.load(Relaxed) == NO_HEAD
            && !self.multiplexed.load(Relaxed)
        {
            self.head_began_us.store(self.now_us(), Relaxed);
        }
    }

    /// hyper asked for bytes and waits for them.
    pub(super) fn on_reading(&self) {
        self.is_reading.store(true, Relaxed);
    }

    /// Bytes went to the peer: a slow reader of a long answer is not idle.
    pub(super) fn on_written(&self) {
        self.idle_since_us.store(self.now_us(), Relaxed);
        if self.is_blocked.load(Relaxed) {
            self.is_blocked.store(false, Relaxed);
        }
    }

    /// The peer takes no more bytes for now.
    pub(super) fn on_blocked(&self) {
        if !self.is_blocked.swap(true, Relaxed) {
            // A connection that was idle for long did not stall before this.
            self.idle_since_us.store(self.now_us(), Relaxed);
        }
    }

    /// An answer is in hyper's hands as a whole. It has left once that is flushed.
    pub(super) fn on_taken(&self, receipt: Receipt) {
        self.untold().push(receipt);
        self.has_untold.store(true, Relaxed);
    }

    /// All that hyper had to write is written.
    pub(super) fn on_flushed(&self) {
        if self.has_untold.load(Relaxed) {
            self.has_untold.store(false, Relaxed);
            // In place, so that the next answer finds room.
            self.untold().drain(..).for_each(Receipt::settle);
        }
    }

    /// The connection is over: answers that were not flushed never left.
    pub(super) fn close(&self) {
        let untold = std::mem::take(&mut *self.untold());
        drop(untold);
    }

    /// hyper is about to run: whether it waits for bytes is seen afterwards.
    pub(super) fn begin_turn(&self) -> Turn {
        self.is_reading.store(false, Relaxed);
        Turn::begin()
    }

    /// Returns whether a caller waits for an answer while hyper would not notice that it leaves. hyper looks for the
    /// end of the peer's bytes only while it has none of them left to work on.
    pub(super) fn is_unwatched(&self) -> bool {
        !self.is_reading.load(Relaxed) && self.answering.load(Relaxed) > 0 && !is_armed(Bug::LeaverBehindBytes)
    }

    /// A head is complete. The connection has no deadline until `end_answer`.
    pub(super) fn begin_answer(&self, multiplexed: bool) {
        if multiplexed {
            self.multiplexed.store(true, Relaxed);
        }
        self.answering.fetch_add(1, Relaxed);
        self.head_began_us.store(NO_HEAD, Relaxed);
    }

    pub(super) fn end_answer(&self) {
        self.idle_since_us.store(self.now_us(), Relaxed);
        let before = self.answering.fetch_sub(1, Relaxed);
        assert!(before > 0, "every answer that ends has begun");
    }

    pub(super) fn begin_stream(&self) {
        self.streaming.fetch_add(1, Relaxed);
    }

    pub(super) fn end_stream(&self) {
        self.streaming.fetch_sub(1, Relaxed);
    }

    /// The answer under way takes more than one write.
    pub(super) fn begin_long(&self) {
        self.on_written();
        self.long.fetch_add(1, Relaxed);
    }

    pub(super) fn end_long(&self) {
        self.long.fetch_sub(1, Relaxed);
    }

    /// When this connection has to be closed, as things stand. `None` while an answer is being made. While one is being
    /// sent, something is written every few seconds, and if it is not, the peer has stopped reading.
    pub(super) fn deadline(&self, limits: &HttpLimits) -> Option<Instant> {
        let idle_since_us = self.idle_since_us.load(Relaxed);
        if self.long.load(Relaxed) > 0 || self.is_blocked.load(Relaxed) {
            return Some(self.at(idle_since_us) + limits.stall_timeout);
        }
        if self.answering.load(Relaxed) > 0 {
            return None;
        }
        let (since_us, allowed) = match self.head_began_us.load(Relaxed) {
            NO_HEAD => (idle_since_us, limits.idle_timeout),
            began_us => (began_us, limits.head_timeout),
        };
        Some(self.at(since_us) + allowed)
    }

    /// Returns whether all answers under way are streams. Cutting those leaves no caller without an answer.
    pub(super) fn is_only_streaming(&self) -> bool {
        let streaming = self.streaming.load(Relaxed);
        streaming > 0 && streaming == self.answering.load(Relaxed)
    }

    /// A point in time that `now_us` gave.
    pub(super) fn at(&self, since_connected_us: u64) -> Instant {
        self.connected_at + Duration::from_micros(since_connected_us)
    }

    /// Microseconds since it connected.
    pub(super) fn now_us(&self) -> u64 {
        let since = turn::now().saturating_duration_since(self.connected_at);
        u64::try_from(since.as_micros()).expect("no connection lives for 500 000 years")
    }

    fn untold(&self) -> MutexGuard<'_, Vec<Receipt>> {
        // Every step under this lock is whole.
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> HttpLimits {
        HttpLimits {
            head_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            ..HttpLimits::default()
        }
    }

    /// Seconds from connecting to the deadline, rounded: the test itself takes microseconds.
    fn deadline_s(activity: &Activity) -> Option<u64> {
        activity.deadline(&limits()).map(|at| (at - activity.connected_at).as_secs())
    }

    #[test]
    fn a_new_connection_owes_a_head_whether_or_not_bytes_trickle() {
        let activity = Activity::new();
        assert_eq!(deadline_s(&activity), Some(10));
        activity.on_read();
        assert_eq!(activity.deadline(&limits()), Some(activity.connected_at + Duration::from_secs(10)), "not moved");
    }

    #[test]
    fn answering_has_no_deadline_and_then_the_idle_one() {
        let activity = Activity::new();
        activity.begin_answer(false);
        activity.begin_answer(false);
        assert_eq!(deadline_s(&activity), None);
        activity.on_read();
        activity.end_answer();
        assert_eq!(deadline_s(&activity), None, "one answer is still under way");
        activity.end_answer();
        assert_eq!(deadline_s(&activity), Some(75));
    }

    #[test]
    fn the_first_byte_after_idling_starts_the_head_deadline() {
        let activity = Activity::new();
        activity.begin_answer(false);
        activity.end_answer();
        activity.on_read();
        assert_eq!(deadline_s(&activity), Some(10));
    }

    #[test]
    fn on_http2_bytes_begin_no_head() {
        let activity = Activity::new();
        activity.begin_answer(true);
        activity.end_answer();
        activity.on_read();
        assert_eq!(deadline_s(&activity), Some(75));
    }

    #[test]
    fn a_peer_that_takes_nothing_has_the_stall_deadline_whatever_else_is_under_way() {
        let activity = Activity::new();
        activity.begin_answer(true);
        activity.on_blocked();
        assert_eq!(deadline_s(&activity), Some(30));
        activity.on_written();
        assert_eq!(deadline_s(&activity), None);
    }

    #[test]
    fn a_caller_is_unwatched_while_hyper_does_not_wait_for_bytes() {
        let activity = Activity::new();
        drop(activity.begin_turn());
        assert!(!activity.is_unwatched(), "no caller waits");
        activity.begin_answer(false);
        assert!(activity.is_unwatched());
        activity.on_reading();
        assert!(!activity.is_unwatched());
        drop(activity.begin_turn());
        assert!(activity.is_unwatched());
    }
}
