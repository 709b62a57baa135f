//! One connection from its first byte to its last: hyper, its settings, and the deadlines of [`Activity`].
//! Accepting and counting connections is left to `listen`.

use std::borrow::Borrow;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::ops::DerefMut;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ETAG, LINK, LOCATION};
use http::{Method, Request, Response};
use hyper::body::Body as _;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pin_project_lite::pin_project;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Sleep, sleep_until, timeout};

use super::activity::Activity;
use super::door::{Door, NoHandshake, Opened, Unopened};
use super::farewell;
use super::handler::{ConnectionNews, Handler, Peer};
use super::limits::HttpLimits;
use super::outgoing::{Answering, TrackedBody};
use super::problem::Problem;
use super::request_id::RequestId;
use super::response::Body;
use super::share::{Share, Shares};
use super::socket::Line;
use super::streams::Streams;
use super::unsent::{NoRoom, Unsent};
use crate::limits::{
    H2_CONNECTION_WINDOW, H2_SEND_BUFFER, H2_STREAM_WINDOW, H2_STREAMS_MAX, H2_STREAMS_MIN, H2_STREAMS_PER_CONNECTION,
    HEAD_BUFFER_MAX, STREAM_DRAIN,
};

/// State that all connections of one listener share.
#[derive(Debug)]
pub(super) struct Shared<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: HttpLimits,
    pub(super) stopping: Stopping,
    protocols: Protocols,
    /// How many streams of HTTP/2 each address may open. Counted by connection, so that a request costs nothing for it.
    streams: Shares,
    /// [`Handler::reserved_paths`].
    reserved_paths: Vec<&'static str>,
}

impl<H: Handler> Shared<H> {
    pub(super) fn new(handler: Arc<H>, limits: HttpLimits) -> Self {
        let protocols = Protocols::new();
        let streams = match limits.connections_max_per_address {
            Some(connections) => Shares::exactly(connections.saturating_mul(H2_STREAMS_PER_CONNECTION)),
            None => Shares::of(limits.connections_max.saturating_mul(H2_STREAMS_PER_CONNECTION)),
        };
        let reserved_paths = handler.reserved_paths();
        Shared { handler, limits, stopping: Stopping::default(), protocols, streams, reserved_paths }
    }

    /// Where the bytes of the answer to a request are counted: clients that do not read must not keep operators from
    /// theirs.
    fn room_for<B>(&self, request: &Request<B>) -> &Unsent {
        if self.handler.is_for_operators() || self.reserved_paths.contains(&request.uri().path()) {
            &self.limits.unsent_reserved
        } else {
            &self.limits.unsent
        }
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

/// hyper's settings, of HTTP/1.1 as they are used.
#[derive(Debug)]
struct Protocols {
    http1: http1::Builder,
    http1_in_tls: http1::Builder,
}

impl Protocols {
    fn new() -> Self {
        Protocols { http1: Protocols::http1(Line::TELLS_OF_LEAVING), http1_in_tls: Protocols::http1(false) }
    }

    /// A client that closed its sending side has left: this ends the connection and drops the handler, which is what
    /// takes a parked waiter out of its queue. `is_told` if [`Line::hung_up`] says so. Otherwise hyper finds out: it
    /// reads on while a request is answered, into a buffer that it allocates for each request.
    fn http1(is_told: bool) -> http1::Builder {
        let mut http1 = http1::Builder::new();
        http1
            .half_close(is_told)
            .keep_alive(true)
            .max_buf_size(HEAD_BUFFER_MAX)
            // `Activity` has the deadlines.
            .header_read_timeout(None)
            .timer(TokioTimer::new());
        http1
    }

    /// For one connection, whose streams are its own.
    fn http2(limits: &HttpLimits, streams: Streams, streams_max: u32) -> http2::Builder<Streams> {
        let mut http2 = http2::Builder::new(streams);
        http2
            .max_concurrent_streams(streams_max)
            .initial_stream_window_size(H2_STREAM_WINDOW)
            .initial_connection_window_size(H2_CONNECTION_WINDOW)
            .max_send_buf_size(H2_SEND_BUFFER)
            .max_header_list_size(u32::try_from(HEAD_BUFFER_MAX).expect("32 KiB fits"))
            .keep_alive_interval(limits.ping_interval)
            .keep_alive_timeout(limits.ping_timeout)
            .timer(TokioTimer::new());
        http2
    }
}

/// Serves one connection until it is done, its peer left, a deadline passed, or the drain time after the signal to stop
/// is over. Its end needs no report: the peer knows, and there is nothing to repair.
pub(super) async fn drive<H: Handler, D: Door>(shared: Arc<Shared<H>>, door: D, stream: TcpStream, mut peer: Peer) {
    let activity = Activity::new();
    let opening = timeout(shared.limits.head_timeout, door.open(stream, Arc::clone(&activity)));
    let opened = tokio::select! {
        biased;
        opened = opening => opened.unwrap_or_else(|_| Err(D::too_slow())),
        () = shared.stopping.wait() => return,
    };
    let Opened { stream, line, speaks_http2, certificate } = match opened {
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
    let connection = Watch { shared: &shared, activity: &activity, line: &line };
    if speaks_http2 {
        let streams = Streams::new(&activity, shared.limits.stall_timeout);
        let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
            let answering = Answering::one_of_many(streams.begin());
            let is_head = request.method() == Method::HEAD;
            let room = Room { unsent: shared.room_for(&request).clone(), ip: peer.addr.ip(), is_head };
            let response = Arc::clone(&shared.handler).handle(request, peer.clone());
            TrackedAnswer { response, room, answering: Some(answering) }
        });
        // On the heap, as every connection's task would have room for this one's size.
        let share = shared.streams.take_upto(peer.addr.ip(), H2_STREAMS_MAX);
        let streams_max = share.as_ref().map_or(0, Share::count).max(H2_STREAMS_MIN);
        let http2 = Protocols::http2(&shared.limits, streams.clone(), streams_max);
        let served = Box::pin(http2.serve_connection(io, service));
        connection.keep(served, Some(&streams), http2::Connection::graceful_shutdown).await;
    } else {
        let service = service_fn(|request: http::Request<hyper::body::Incoming>| {
            // hyper leaves out the body of an answer to HEAD by itself here.
            let room = Room { unsent: shared.room_for(&request), ip: peer.addr.ip(), is_head: false };
            let response = Arc::clone(&shared.handler).handle(request, peer.clone());
            TrackedAnswer { response, room, answering: Some(Answering::one(&activity)) }
        });
        let Protocols { http1, http1_in_tls } = &shared.protocols;
        // A peer can end its side within TLS, of which the socket knows nothing.
        let http1 = if D::SPEAKS_PLAINLY { http1 } else { http1_in_tls };
        let served = pin!(http1.serve_connection(io, service));
        connection.keep(served, None, http1::Connection::graceful_shutdown).await;
    }
    // hyper is gone, and with it what it had not written.
    activity.close();
}

/// The conditions that end a connection before hyper finds out.
struct Watch<'a, H> {
    shared: &'a Shared<H>,
    activity: &'a Activity,
    line: &'a Line,
}

impl<H> Watch<'_, H> {
    /// Runs `connection` to its end, a deadline, or its peer's leaving. `finish` tells it to end after the answers
    /// under way.
    async fn keep<C: Future>(
        self,
        mut connection: Pin<impl DerefMut<Target = C>>,
        streams: Option<&Streams>,
        finish: impl Fn(Pin<&mut C>),
    ) {
        let Watch { shared, activity, line } = self;
        let mut stopping = pin!(shared.stopping.wait());
        let mut asked = false;
        // Set once the connection was told to finish; it is cut at that point.
        let mut cut_at: Option<Instant> = None;
        let first_deadline = Instant::now() + shared.limits.head_timeout;
        let sleep = pin!(sleep_until(first_deadline.into()));
        let mut timer = LazyTimer { sleep, armed_at: first_deadline, is_set: false };
        // Only while a caller waits and hyper does not look for the end of what it sends.
        let mut leaving: Option<Pin<Box<dyn Future<Output = ()> + Send + '_>>> = None;

        poll_fn(|cx| {
            // Asking once is enough: it leaves this task's waker with the bell, and the flag tells the rest. Asking at
            // every poll would take a lock that all connections share.
            if !asked {
                asked = true;
                let _ = stopping.as_mut().poll(cx);
            }
            loop {
                let turn = activity.begin_turn();
                let is_over = connection.as_mut().poll(cx).is_ready();
                drop(turn);
                if is_over {
                    return Poll::Ready(());
                }
                if cut_at.is_none() && shared.stopping.has_begun() {
                    let patience =
                        if activity.is_only_streaming() { STREAM_DRAIN } else { shared.limits.drain_timeout };
                    cut_at = Some(Instant::now() + patience.min(shared.limits.drain_timeout));
                    finish(connection.as_mut());
                    continue;
                }
                if activity.is_unwatched() && (leaving.is_some() || line.has_news(cx)) {
                    let leaving = leaving.get_or_insert_with(|| Box::pin(line.hung_up()));
                    if leaving.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                } else {
                    leaving = None;
                }
                let deadlines = [activity.deadline(&shared.limits), streams.and_then(Streams::deadline), cut_at];
                return match deadlines.into_iter().flatten().min() {
                    Some(deadline) => timer.poll_until(deadline, cx),
                    None => Poll::Pending,
                };
            }
        })
        .await;
    }
}

pin_project! {
    /// The handler's answer, with a body that is tracked. An `async` block would do the same and hold the handler's
    /// future twice, in memory that every parked connection pays for.
    struct TrackedAnswer<F, U> {
        #[pin]
        response: F,
        room: Room<U>,
        answering: Option<Answering>,
    }
}

/// Where the bytes of an answer are counted.
struct Room<U> {
    unsent: U,
    ip: IpAddr,
    /// Only the head of the answer is sent.
    is_head: bool,
}

impl<F: Future<Output = Response<Body>>, U: Borrow<Unsent>> Future for TrackedAnswer<F, U> {
    type Output = Result<Response<TrackedBody>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(cx));
        let answering = this.answering.take().expect("polled until it is ready, and not again");
        if this.room.is_head {
            response = head_alone(response);
        }
        let unsent: &Unsent = this.room.unsent.borrow();
        let (response, charge) = match unsent.charge(response.body().weight(), this.room.ip) {
            Ok(charge) => (response, charge),
            Err(NoRoom) => (no_room(response), None),
        };
        Poll::Ready(Ok(response.map(|body| TrackedBody::new(body, charge, answering))))
    }
}

/// The answer without its body, of which it still tells the length.
fn head_alone(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let (Some(len), None) = (body.size_hint().exact(), head.headers.get(CONTENT_LENGTH)) {
        head.headers.insert(CONTENT_LENGTH, len.into());
    }
    Response::from_parts(head, Body::from(Bytes::new()))
}

/// In place of an answer that would have to wait along with too many others. The claim it told of is handed back with
/// it.
fn no_room(response: Response<Body>) -> Response<Body> {
    let reason = "too many bytes wait to be sent to clients that do not read them, try again";
    let (mut told, _) = response.into_parts();
    let (refusal, body) = Problem::unavailable(reason, 1).to_response(&RequestId::of(&told.headers)).into_parts();
    told.status = refusal.status;
    for name in [LOCATION, LINK, ETAG] {
        told.headers.remove(name);
    }
    for (name, value) in refusal.headers.iter().filter(|(_, value)| !value.is_empty()) {
        told.headers.insert(name, value.clone());
    }
    Response::from_parts(told, body)
}

/// A timer that is only ever moved when it would fire too late. Deadlines here mostly move away before they come, so
/// this touches the runtime's timer wheel about once a minute a connection instead of once a request.
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
