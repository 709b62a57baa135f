//! An answer on its way to the peer: the bytes left, its last progress, and the receipt in case it never leaves.
//!
//! ```text
//!  Body ─ pieces ─▶ hyper ─ HTTP/1.1: its write buffer ──────────────▶ socket ─▶ flushed: the receipt is settled
//!                         └ HTTP/2: waits for the stream's window ──┘
//! ```
//!
//! On HTTP/1.1 a piece that hyper takes is in its write buffer, and the connection's own deadline watches the rest. On
//! HTTP/2 each stream has a window, and only the piece itself sees which bytes it holds back: [`Piece`] counts the
//! bytes as they are framed, and the stream's deadline uses its [`Tally`].

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use bytes::{Buf, Bytes};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::activity::Activity;
use super::response::{Body, Receipt};
use super::unsent::Charge;
use crate::limits::PIECE_MAX;
use crate::planted::{Bug, is_armed};

/// The pieces of one answer on HTTP/2 that its stream's window, or the connection's, holds back.
#[derive(Debug)]
pub(super) struct Tally {
    activity: Arc<Activity>,
    /// Bytes given to HTTP/2 and not yet framed.
    unsent: AtomicUsize,
    /// There are no more pieces to come.
    is_whole: AtomicBool,
    /// When bytes last began to wait, or were framed.
    progress_us: AtomicU64,
    held: Mutex<Held>,
    /// The body, when it waits for the last bytes to be framed.
    waiting: AtomicWaker,
}

/// Kept for as long as a piece of the answer is.
#[derive(Debug, Default)]
struct Held {
    receipt: Option<Receipt>,
    _charge: Option<Charge>,
}

impl Tally {
    pub(super) fn new(activity: &Arc<Activity>) -> Arc<Self> {
        Arc::new(Tally {
            activity: Arc::clone(activity),
            unsent: AtomicUsize::new(0),
            is_whole: AtomicBool::new(false),
            progress_us: AtomicU64::new(0),
            held: Mutex::default(),
            waiting: AtomicWaker::new(),
        })
    }

    /// When the peer has taken nothing for too long, if it owes us to take something.
    pub(super) fn deadline(&self, stall_timeout: Duration) -> Option<Instant> {
        if self.unsent.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(self.activity.at(self.progress_us.load(Ordering::Relaxed)) + stall_timeout)
    }

    pub(super) fn is_sent(&self) -> bool {
        self.unsent.load(Ordering::Acquire) == 0
    }

    fn hold(&self, receipt: Option<Receipt>, charge: Option<Charge>) {
        *self.held() = Held { receipt, _charge: charge };
    }

    fn give(&self, len: usize, is_last: bool) {
        if self.unsent.fetch_add(len, Ordering::AcqRel) == 0 {
            self.progress_us.store(self.activity.now_us(), Ordering::Relaxed);
        }
        if is_last {
            self.is_whole.store(true, Ordering::Release);
        }
    }

    /// There are no more pieces, which became clear after the last.
    fn end(&self) {
        self.is_whole.store(true, Ordering::Release);
        if self.is_sent() {
            self.settle();
        }
    }

    fn on_framed(&self, len: usize) {
        self.progress_us.store(self.activity.now_us(), Ordering::Relaxed);
        if self.unsent.fetch_sub(len, Ordering::AcqRel) == len {
            if self.is_whole.load(Ordering::Acquire) {
                self.settle();
            }
            self.waiting.wake();
        }
    }

    /// All of it is framed: once that is flushed, it has left.
    fn settle(&self) {
        let receipt = self.held().receipt.take();
        if let Some(receipt) = receipt {
            self.activity.on_taken(receipt);
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Every step under this lock is whole.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Part of an answer, as hyper sees it.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    /// On HTTP/2.
    tally: Option<Arc<Tally>>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, cnt: usize) {
        self.bytes.advance(cnt);
        if let Some(tally) = self.tally.as_ref().filter(|_| cnt > 0) {
            tally.on_framed(cnt);
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // Thrown away with its stream: no task is to wait for it.
        if let Some(tally) = self.tally.as_ref().filter(|_| !self.bytes.is_empty()) {
            tally.unsent.fetch_sub(self.bytes.len(), Ordering::AcqRel);
            tally.waiting.wake();
        }
    }
}

/// Held while a request is being answered: by the service until there is a response, then by its body.
#[derive(Debug)]
pub(super) struct Answering {
    activity: Arc<Activity>,
    /// On HTTP/2.
    tally: Option<Arc<Tally>>,
    length: Length,
}

/// The length of an answer, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    /// One piece, or not known yet.
    Short,
    Long,
    /// No client expects its end.
    Endless,
}

impl Answering {
    /// A head is complete on HTTP/1.1.
    pub(super) fn one(activity: &Arc<Activity>) -> Self {
        activity.begin_answer(false);
        Answering { activity: Arc::clone(activity), tally: None, length: Length::Short }
    }

    /// A head is complete on a stream of HTTP/2.
    pub(super) fn one_of_many(tally: Arc<Tally>) -> Self {
        tally.activity.begin_answer(true);
        Answering { activity: Arc::clone(&tally.activity), tally: Some(tally), length: Length::Short }
    }

    fn of_length(mut self, length: Length) -> Self {
        self.length = length;
        if length == Length::Endless {
            self.activity.begin_stream();
        }
        if self.is_watched_as_a_whole() {
            self.activity.begin_long();
        }
        self
    }

    /// HTTP/1.1 has one answer at a time, so the connection's progress is the answer's.
    fn is_watched_as_a_whole(&self) -> bool {
        self.length != Length::Short && self.tally.is_none()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if self.length == Length::Endless {
            self.activity.end_stream();
        }
        if self.is_watched_as_a_whole() {
            self.activity.end_long();
        }
        self.activity.end_answer();
    }
}

/// A response body that keeps its connection from counting as idle until the last of it was taken.
#[derive(Debug)]
pub(super) struct TrackedBody {
    body: Body,
    /// On HTTP/1.1; on HTTP/2 the tally has both, as its pieces outlive the body.
    receipt: Option<Receipt>,
    _charge: Option<Charge>,
    /// On HTTP/2 the end of a long body is said on its own, once the rest was framed. Along with the last piece it
    /// would end the stream's task, and no task could give up the bytes that its window still holds back.
    ends_apart: bool,
    /// There are no more pieces.
    is_over: bool,
    answering: Answering,
}

impl TrackedBody {
    pub(super) fn new(mut body: Body, mut charge: Option<Charge>, answering: Answering) -> Self {
        let mut receipt = body.take_receipt();
        let length = match body.size_hint().exact() {
            _ if body.is_stream() => Length::Endless,
            Some(len) if len <= PIECE_MAX as u64 => Length::Short,
            _ => Length::Long,
        };
        if body.is_end_stream() {
            // There is only the head, which waits for no window.
            if let Some(receipt) = receipt.take() {
                answering.activity.on_taken(receipt);
            }
        } else if let Some(tally) = &answering.tally {
            if is_armed(Bug::SettledWhenTaken)
                && let Some(receipt) = receipt.take()
            {
                receipt.settle();
            }
            tally.hold(receipt.take(), charge.take());
        }
        let answering = answering.of_length(length);
        let ends_apart = answering.tally.is_some() && length != Length::Short;
        TrackedBody { body, receipt, _charge: charge, ends_apart, is_over: false, answering }
    }
}

impl HttpBody for TrackedBody {
    type Data = Piece;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Piece>, Self::Error>>> {
        let TrackedBody { body, receipt, ends_apart, is_over, answering, .. } = &mut *self;
        let mut bytes = None;
        if !*is_over {
            bytes = match ready!(Pin::new(&mut *body).poll_frame(cx)) {
                Some(Ok(frame)) => frame.into_data().ok(),
                Some(Err(never)) => match never {},
                None => None,
            };
            *is_over = bytes.is_none() || body.is_end_stream();
        }
        let tally = answering.tally.as_ref();
        match (tally, &bytes) {
            (Some(tally), Some(bytes)) => tally.give(bytes.len(), *is_over),
            (Some(tally), None) => {
                // Before looking, so that bytes framed in between are heard of.
                tally.waiting.register(cx.waker());
                if *ends_apart && !tally.is_sent() {
                    return Poll::Pending;
                }
                tally.end();
            }
            (None, _) => {
                if *is_over && let Some(receipt) = receipt.take() {
                    answering.activity.on_taken(receipt);
                }
            }
        }
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(Piece { bytes, tally: tally.map(Arc::clone) }))))
    }

    fn is_end_stream(&self) -> bool {
        !self.ends_apart && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::super::limits::HttpLimits;
    use super::*;

    /// A body of this many bytes that counts how often it was handed back.
    fn body(len: usize, undone: &Arc<AtomicU32>) -> Body {
        let mut body = Body::from(vec![b'x'; len]);
        let undone = Arc::clone(undone);
        body.set_receipt(Some(Receipt::or_else(move || _ = undone.fetch_add(1, Ordering::Relaxed))));
        body
    }

    fn next(body: &mut TrackedBody) -> Poll<Option<Piece>> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        Pin::new(body).poll_frame(&mut cx).map(|frame| frame.map(|frame| frame.unwrap().into_data().unwrap()))
    }

    fn deadline_s(activity: &Activity) -> Option<u64> {
        activity.deadline(&HttpLimits::default()).map(|at| (at - activity.at(0)).as_secs())
    }

    #[test]
    fn an_answer_on_http1_has_left_once_it_was_taken_and_flushed() {
        for (is_taken, is_flushed, undone_after) in [(false, false, 1), (true, false, 1), (true, true, 0)] {
            let (activity, undone) = (Activity::new(), Arc::default());
            let mut body = TrackedBody::new(body(10, &undone), None, Answering::one(&activity));
            if is_taken {
                assert!(matches!(next(&mut body), Poll::Ready(Some(_))));
            }
            drop(body);
            if is_flushed {
                activity.on_flushed();
            }
            activity.close();
            assert_eq!(undone.load(Ordering::Relaxed), undone_after, "{is_taken} {is_flushed}");
        }
    }

    #[test]
    fn an_answer_on_http2_has_left_once_its_last_byte_was_framed_and_flushed() {
        for (framed, undone_after) in [(0, 1), (9, 1), (10, 0)] {
            let (activity, undone) = (Activity::new(), Arc::default());
            let tally = Tally::new(&activity);
            let answering = Answering::one_of_many(Arc::clone(&tally));
            let mut body = TrackedBody::new(body(10, &undone), None, answering);
            let Poll::Ready(Some(mut piece)) = next(&mut body) else { panic!("bytes are there") };
            assert!(body.is_end_stream(), "a short answer ends with its only piece");
            drop(body);
            assert!(!tally.is_sent());
            piece.advance(framed);
            activity.on_flushed();
            drop((piece, tally));
            activity.close();
            assert_eq!(undone.load(Ordering::Relaxed), undone_after, "{framed}");
        }
    }

    #[test]
    fn a_long_answer_on_http2_ends_once_all_of_it_was_framed() {
        let (activity, undone) = (Activity::new(), Arc::default());
        let tally = Tally::new(&activity);
        let long = body(PIECE_MAX + 1, &undone);
        let mut body = TrackedBody::new(long, None, Answering::one_of_many(Arc::clone(&tally)));
        let Poll::Ready(Some(mut first)) = next(&mut body) else { panic!("bytes are there") };
        let Poll::Ready(Some(mut last)) = next(&mut body) else { panic!("bytes are there") };
        assert_eq!((first.remaining(), last.remaining(), body.is_end_stream()), (PIECE_MAX, 1, false));
        first.advance(PIECE_MAX);
        assert!(next(&mut body).is_pending() && tally.deadline(Duration::ZERO).is_some());
        last.advance(1);
        assert!(matches!(next(&mut body), Poll::Ready(None)) && tally.deadline(Duration::ZERO).is_none());
        drop((first, last, body, tally));
        activity.on_flushed();
        activity.close();
        assert_eq!(undone.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_stream_or_a_long_answer_on_http1_lives_as_long_as_something_is_written() {
        let activity = Activity::new();
        let stream = Body::stream((), |()| std::future::pending());
        let stream = TrackedBody::new(stream, None, Answering::one(&activity));
        assert_eq!(deadline_s(&activity), Some(30), "not the idle deadline");
        assert!(activity.is_only_streaming());
        let answer = Answering::one(&activity);
        assert!(!activity.is_only_streaming(), "another caller waits for an answer");
        drop((stream, answer));
        assert_eq!(deadline_s(&activity), Some(75));
        assert!(!activity.is_only_streaming());
        let long = Body::from(vec![b'x'; PIECE_MAX + 1]);
        let long = TrackedBody::new(long, None, Answering::one(&activity));
        assert_eq!((deadline_s(&activity), activity.is_only_streaming()), (Some(30), false));
        drop(long);
        assert_eq!(deadline_s(&activity), Some(75));
    }
}
