//! What a connection is doing, as far as its deadlines care: reading a head, answering, or idle between requests.
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
//!                        head complete      (no deadline of its own; a stream: stall_timeout since the last write)
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::limits::HttpLimits;
use super::response::Body;

/// `head_began_us` when no head is being read.
const NO_HEAD: u64 = u64::MAX;

/// One connection's state. HTTP/2 answers streams on other tasks than the connection's own, hence the atomics; each is
/// meaningful alone and a deadline read a moment early or late does no harm, hence relaxed.
#[derive(Debug)]
pub(super) struct Activity {
    connected_at: Instant,
    /// Requests whose head is complete and whose answer is not.
    answering: AtomicU32,
    /// Those of them whose answer is a stream, which nobody waits for to end.
    streaming: AtomicU32,
    /// When the first byte of the head being read came, in microseconds since `connected_at`.
    head_began_us: AtomicU64,
    /// When the last answer made progress, in microseconds since `connected_at`.
    idle_since_us: AtomicU64,
    /// HTTP/2 peers send frames that belong to no request (settings, pings), so bytes begin nothing there.
    multiplexed: AtomicBool,
}

impl Activity {
    /// A connection just accepted owes a head.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Activity {
            connected_at: Instant::now(),
            answering: AtomicU32::new(0),
            streaming: AtomicU32::new(0),
            head_began_us: AtomicU64::new(0),
            idle_since_us: AtomicU64::new(0),
            multiplexed: AtomicBool::new(false),
        })
    }

    /// Bytes came from the peer. Between requests they begin a head. (The rest of a request that was sent along with the
    /// one before is not seen here, as those bytes were read earlier; it has until the idle deadline.)
    pub(super) fn on_read(&self) {
        if self.answering.load(Relaxed) == 0
            && self.head_began_us.load(Relaxed) == NO_HEAD
            && !self.multiplexed.load(Relaxed)
        {
            self.head_began_us.store(self.now_us(), Relaxed);
        }
    }

    /// Bytes went to the peer: a slow reader of a long answer is not idle.
    pub(super) fn on_written(&self) {
        self.idle_since_us.store(self.now_us(), Relaxed);
    }

    /// A head is complete. The connection has no deadline until what is returned here is dropped.
    pub(super) fn begin_answer(self: &Arc<Self>, multiplexed: bool) -> Answering {
        if multiplexed {
            self.multiplexed.store(true, Relaxed);
        }
        self.answering.fetch_add(1, Relaxed);
        self.head_began_us.store(NO_HEAD, Relaxed);
        Answering { activity: Arc::clone(self), is_stream: false }
    }

    /// When this connection has to be closed, as things stand. `None` while an answer is under way, unless it is a
    /// stream: there something is written every few seconds, and if it is not, the peer has stopped reading.
    pub(super) fn deadline(&self, limits: &HttpLimits) -> Option<Instant> {
        if self.streaming.load(Relaxed) > 0 {
            let written_us = self.idle_since_us.load(Relaxed);
            return Some(self.connected_at + Duration::from_micros(written_us) + limits.stall_timeout);
        }
        if self.answering.load(Relaxed) > 0 {
            return None;
        }
        let (since_us, allowed) = match self.head_began_us.load(Relaxed) {
            NO_HEAD => (self.idle_since_us.load(Relaxed), limits.idle_timeout),
            began_us => (began_us, limits.head_timeout),
        };
        Some(self.connected_at + Duration::from_micros(since_us) + allowed)
    }

    /// Whether all that is under way are streams. Nobody is left without an answer if those are cut.
    pub(super) fn is_only_streaming(&self) -> bool {
        let streaming = self.streaming.load(Relaxed);
        streaming > 0 && streaming == self.answering.load(Relaxed)
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.connected_at.elapsed().as_micros()).expect("no connection lives for 500 000 years")
    }
}

/// Held while a request is being answered: by the service until there is a response, then by its body.
#[derive(Debug)]
pub(super) struct Answering {
    activity: Arc<Activity>,
    is_stream: bool,
}

impl Answering {
    fn with_stream(mut self) -> Self {
        self.activity.on_written();
        self.activity.streaming.fetch_add(1, Relaxed);
        self.is_stream = true;
        self
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.activity.on_written();
        if self.is_stream {
            self.activity.streaming.fetch_sub(1, Relaxed);
        }
        let before = self.activity.answering.fetch_sub(1, Relaxed);
        assert!(before > 0, "every answer that ends has begun");
    }
}

/// A response body that keeps its connection from counting as idle until the last of it was taken.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: Body,
    _answering: Answering,
}

impl TrackedBody {
    pub(super) fn new(body: Body, answering: Answering) -> Self {
        let answering = if body.is_stream() { answering.with_stream() } else { answering };
        TrackedBody { body, _answering: answering }
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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
        let first = activity.begin_answer(false);
        let second = activity.begin_answer(false);
        assert_eq!(deadline_s(&activity), None);
        activity.on_read();
        drop(first);
        assert_eq!(deadline_s(&activity), None, "one answer is still under way");
        drop(second);
        assert_eq!(deadline_s(&activity), Some(75));
    }

    #[test]
    fn the_first_byte_after_idling_starts_the_head_deadline() {
        let activity = Activity::new();
        drop(activity.begin_answer(false));
        activity.on_read();
        assert_eq!(deadline_s(&activity), Some(10));
    }

    #[test]
    fn on_http2_bytes_begin_no_head() {
        let activity = Activity::new();
        drop(activity.begin_answer(true));
        activity.on_read();
        assert_eq!(deadline_s(&activity), Some(75));
    }

    #[test]
    fn a_stream_lives_as_long_as_something_is_written() {
        let activity = Activity::new();
        let body = TrackedBody::new(Body::stream((), |()| std::future::pending()), activity.begin_answer(false));
        assert_eq!(deadline_s(&activity), Some(30), "not the idle deadline");
        assert!(activity.is_only_streaming());
        let answer = activity.begin_answer(true);
        assert!(!activity.is_only_streaming(), "somebody else waits for an answer");
        drop((body, answer));
        assert_eq!(deadline_s(&activity), Some(75));
        assert!(!activity.is_only_streaming());
    }
}
