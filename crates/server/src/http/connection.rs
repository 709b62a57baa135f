//! One connection from its first byte to its last: hyper, its settings, and the deadlines of [`Activity`].
//! Accepting and counting connections is left to `listen`.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::Sleep;

use super::activity::{Activity, TrackedBody};
use super::limits::{H2_CONNECTION_WINDOW, H2_STREAM_WINDOW, H2_STREAMS_MAX, HEAD_BUFFER_MAX, HttpLimits};
use super::listen::{Handler, Peer};

/// What all connections of one listener share.
#[derive(Debug)]
pub(super) struct Shared<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: HttpLimits,
    pub(super) stopping: Stopping,
    protocol: auto::Builder<TokioExecutor>,
}

impl<H> Shared<H> {
    pub(super) fn new(handler: Arc<H>, limits: HttpLimits) -> Self {
        let protocol = protocol(&limits);
        Shared { handler, limits, stopping: Stopping::default(), protocol }
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
}

/// hyper's settings. What a connection costs while it waits is two buffers of 8 KiB, of which one page each is ever
/// touched by small requests; a handler that parks should have dropped its request, or that buffer counts twice.
fn protocol(limits: &HttpLimits) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // A client that closed its sending side has left: this ends the connection and drops the handler, which is what
        // takes a parked waiter out of its queue.
        .half_close(false)
        .keep_alive(true)
        .max_buf_size(HEAD_BUFFER_MAX)
        // `Activity` has the deadlines.
        .header_read_timeout(None)
        .timer(TokioTimer::new());
    builder
        .http2()
        .max_concurrent_streams(H2_STREAMS_MAX)
        .initial_stream_window_size(H2_STREAM_WINDOW)
        .initial_connection_window_size(H2_CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(HEAD_BUFFER_MAX).expect("32 KiB fits"))
        .keep_alive_interval(limits.ping_interval)
        .keep_alive_timeout(limits.ping_timeout)
        .timer(TokioTimer::new());
    builder
}

/// Serves one connection until it is done, its peer left, a deadline passed, or the drain time after the signal to stop
/// is over. How it ended is nobody's concern: the peer knows, and there is nothing to repair.
pub(super) async fn drive<H: Handler>(shared: Arc<Shared<H>>, stream: TcpStream, peer: Peer) {
    let activity = Activity::new();
    let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
        let answering = activity.begin_answer(request.version() == http::Version::HTTP_2);
        let response = Arc::clone(&shared.handler).handle(request, peer);
        async move { Ok::<_, Infallible>(response.await.map(|body| TrackedBody { body, answering })) }
    });
    let io = WatchedIo { io: TokioIo::new(stream), activity: Arc::clone(&activity) };
    let mut connection = pin!(shared.protocol.serve_connection(io, service));

    let mut bell = pin!(shared.stopping.bell.notified());
    let mut heard = false;
    // Set once the connection was told to finish; it is cut at that point.
    let mut cut_at: Option<Instant> = None;
    let mut timer = pin!(LazyTimer::new(Instant::now() + shared.limits.head_timeout));

    poll_fn(|cx| {
        // Asking once is enough: it leaves this task's waker with the bell, and the flag tells the rest. Asking at every
        // poll would take a lock that all connections share.
        if !heard {
            heard = true;
            let _ = bell.as_mut().poll(cx);
        }
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            if cut_at.is_none() && shared.stopping.has_begun() {
                cut_at = Some(Instant::now() + shared.limits.drain_timeout);
                connection.as_mut().graceful_shutdown();
                continue;
            }
            let deadline = [activity.deadline(&shared.limits), cut_at].into_iter().flatten().min();
            let Some(deadline) = deadline else { return Poll::Pending };
            if timer.as_mut().poll_until(deadline, cx).is_pending() {
                return Poll::Pending;
            }
            return Poll::Ready(());
        }
    })
    .await;
}

pin_project_lite::pin_project! {
    /// A timer that is only ever moved when it would fire too late. Deadlines here mostly move away before they come, so
    /// this touches the runtime's timer wheel about once a minute a connection instead of once a request.
    struct LazyTimer {
        #[pin]
        sleep: Sleep,
        armed_at: Instant,
    }
}

impl LazyTimer {
    fn new(at: Instant) -> Self {
        LazyTimer { sleep: tokio::time::sleep_until(at.into()), armed_at: at }
    }

    /// Ready once `deadline` has passed; until then the task is woken no later than that.
    fn poll_until(self: Pin<&mut Self>, deadline: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        if deadline < *this.armed_at {
            *this.armed_at = deadline;
            this.sleep.as_mut().reset(deadline.into());
        }
        while this.sleep.as_mut().poll(cx).is_ready() {
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            *this.armed_at = deadline;
            this.sleep.as_mut().reset(deadline.into());
        }
        Poll::Pending
    }
}

/// The socket, noting in [`Activity`] that bytes came or went.
struct WatchedIo {
    io: TokioIo<TcpStream>,
    activity: Arc<Activity>,
}

impl Read for WatchedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.io).poll_read(cx, buf);
        if let Poll::Ready(Ok(())) = read {
            self.activity.on_read();
        }
        read
    }
}

impl Write for WatchedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl WatchedIo {
    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(_)) = written {
            self.activity.on_written();
        }
        written
    }
}
