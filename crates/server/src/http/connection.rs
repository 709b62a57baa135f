//! One connection from its first byte to its last: hyper, its settings, and the deadlines of [`Activity`].
//! Accepting and counting connections is left to `listen`.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use http::Response;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pin_project_lite::pin_project;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep_until, timeout};

use super::activity::{Activity, Answering, TrackedBody};
use super::door::{Door, NoHandshake, Opened, Unopened};
use super::farewell;
use super::limits::{
    H2_CONNECTION_WINDOW, H2_STREAM_WINDOW, H2_STREAMS_MAX, HEAD_BUFFER_MAX, HttpLimits, STREAM_DRAIN,
};
use super::listen::{ConnectionNews, Handler, Peer};
use super::response::Body;

/// What all connections of one listener share.
#[derive(Debug)]
pub(super) struct Shared<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: HttpLimits,
    pub(super) stopping: Stopping,
    protocols: Protocols,
}

impl<H> Shared<H> {
    pub(super) fn new(handler: Arc<H>, limits: HttpLimits) -> Self {
        let protocols = Protocols::new(&limits);
        Shared { handler, limits, stopping: Stopping::default(), protocols }
    }
}

/// The signal to stop. A flag, because every poll of every connection looks at it, and a bell for those asleep.
#[derive(Debug, Default)]
pub(super) struct Stopping {
    begun: AtomicBool,
    bell: Notify,
}

impl Stopping {
    pub(super) fn begin(&self) {
        // The flag first: a connection that is woken, or begins just now, must find it set.
        self.begun.store(true, Ordering::Release);
        self.bell.notify_waiters();
    }

    fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Resolves once stopping has begun.
    async fn wait(&self) {
        let rung = self.bell.notified();
        if !self.has_begun() {
            rung.await;
        }
    }
}

/// hyper's settings for both versions.
#[derive(Debug)]
struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

impl Protocols {
    fn new(limits: &HttpLimits) -> Self {
        let mut http1 = http1::Builder::new();
        http1
            // A client that closed its sending side has left: this ends the connection and drops the handler, which is
            // what takes a parked waiter out of its queue.
            .half_close(false)
            .keep_alive(true)
            .max_buf_size(HEAD_BUFFER_MAX)
            // `Activity` has the deadlines.
            .header_read_timeout(None)
            .timer(TokioTimer::new());
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .max_concurrent_streams(H2_STREAMS_MAX)
            .initial_stream_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_CONNECTION_WINDOW)
            .max_header_list_size(u32::try_from(HEAD_BUFFER_MAX).expect("32 KiB fits"))
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout)
            .timer(TokioTimer::new());
        Protocols { http1, http2 }
    }
}

/// Serves one connection until it is done, its peer left, a deadline passed, or the drain time after the signal to stop
/// is over. How it ended is nobody's concern: the peer knows, and there is nothing to repair.
pub(super) async fn drive<H: Handler, D: Door>(shared: Arc<Shared<H>>, door: D, stream: TcpStream, mut peer: Peer) {
    let activity = Activity::new();
    let opening = timeout(shared.limits.head_timeout, door.open(stream, Arc::clone(&activity)));
    let opened = tokio::select! {
        biased;
        opened = opening => opened.unwrap_or_else(|_| Err(D::too_slow())),
        () = shared.stopping.wait() => return,
    };
    let Opened { stream, speaks_http2, certificate } = match opened {
        Ok(opened) => opened,
        Err(Unopened::Gone) => return,
        Err(Unopened::NoHandshake(no_handshake)) => {
            let NoHandshake { reason, last_words } = *no_handshake;
            tracing::debug!(addr = %peer.addr, %reason, "no TLS handshake");
            shared.handler.connection(ConnectionNews::NoHandshake);
            if let Some((stream, words)) = last_words {
                Box::pin(farewell::tell(stream, words)).await;
            }
            return;
        }
    };
    peer.certificate = certificate;
    let io = TokioIo::new(stream);
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let answering = activity.begin_answer(speaks_http2);
        Answer { response: Arc::clone(&shared.handler).handle(request, peer.clone()), answering: Some(answering) }
    });
    if speaks_http2 {
        // On the heap, as every connection's task would have room for this one's size.
        let mut connection = Box::pin(shared.protocols.http2.serve_connection(io, service));
        keep_deadlines(&shared, &activity, connection.as_mut(), http2::Connection::graceful_shutdown).await;
    } else {
        let mut connection = pin!(shared.protocols.http1.serve_connection(io, service));
        keep_deadlines(&shared, &activity, connection.as_mut(), http1::Connection::graceful_shutdown).await;
    }
}

/// Runs `connection` to its end or a deadline. `finish` tells it to end after the answers under way.
async fn keep_deadlines<H, C: Future>(
    shared: &Shared<H>,
    activity: &Activity,
    mut connection: Pin<&mut C>,
    finish: impl Fn(Pin<&mut C>),
) {
    let mut stopping = pin!(shared.stopping.wait());
    let mut asked = false;
    // Set once the connection was told to finish; it is cut at that point.
    let mut cut_at: Option<Instant> = None;
    let first_deadline = Instant::now() + shared.limits.head_timeout;
    let sleep = pin!(sleep_until(first_deadline.into()));
    let mut timer = LazyTimer { sleep, armed_at: first_deadline, is_set: false };

    poll_fn(|cx| {
        // Asking once is enough: it leaves this task's waker with the bell, and the flag tells the rest. Asking at every
        // poll would take a lock that all connections share.
        if !asked {
            asked = true;
            let _ = stopping.as_mut().poll(cx);
        }
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if cut_at.is_none() && shared.stopping.has_begun() {
                let patience = if activity.is_only_streaming() { STREAM_DRAIN } else { shared.limits.drain_timeout };
                cut_at = Some(Instant::now() + patience.min(shared.limits.drain_timeout));
                finish(connection.as_mut());
                continue;
            }
            return match [activity.deadline(&shared.limits), cut_at].into_iter().flatten().min() {
                Some(deadline) => timer.poll_until(deadline, cx),
                None => Poll::Pending,
            };
        }
    })
    .await;
}

pin_project! {
    /// What the handler answers, with a body that is tracked. An `async` block would do the same and hold the handler's
    /// future twice, in memory that every parked connection pays for.
    struct Answer<F> {
        #[pin]
        response: F,
        answering: Option<Answering>,
    }
}

impl<F: Future<Output = Response<Body>>> Future for Answer<F> {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(cx));
        let answering = this.answering.take().expect("polled until it is ready, and not again");
        Poll::Ready(Ok(response.map(|body| TrackedBody::new(body, answering))))
    }
}

/// A timer that is only ever moved when it would fire too late. Deadlines here mostly move away before they come, so this
/// touches the runtime's timer wheel about once a minute a connection instead of once a request.
struct LazyTimer<'a> {
    sleep: Pin<&'a mut Sleep>,
    armed_at: Instant,
    /// It has been asked since it was armed, and so knows whom to wake: a connection has one waker for all its life.
    is_set: bool,
}

impl LazyTimer<'_> {
    /// Ready once `deadline` has passed; until then the task is woken no later than that.
    fn poll_until(&mut self, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        if deadline < self.armed_at {
            self.arm(deadline);
        }
        if self.is_set && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        while self.sleep.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.arm(deadline);
        }
        self.is_set = true;
        Poll::Pending
    }

    fn arm(&mut self, at: Instant) {
        self.armed_at = at;
        self.is_set = false;
        self.sleep.as_mut().reset(at.into());
    }
}
