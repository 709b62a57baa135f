//! The HTTP plumbing over real sockets: limits at and one past, clients that are slow, silent or leave, and shutting
//! down. The handlers here are toys. Timeouts are set to milliseconds and always awaited by their effect.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::future::{Future, pending};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_http::limits::{BODY_MAX, HEADERS_MAX, URI_MAX};
use leasehold_http::router::{Endpoint, Router};
use leasehold_http::{Body, BodyRoom, HttpLimits, Peer, Problem, RequestId, Unsent, bind, request, response, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Long enough that no machine is too slow for it, short enough that a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(20);

const SHORT: Duration = Duration::from_millis(50);

/// The behaviour of the toy endpoints.
#[derive(Clone, Copy)]
enum Toy {
    /// Answers at once.
    Constant,
    /// Answers with the length of the body.
    Length,
    /// Never answers. Tells when it began and when it was dropped.
    Park,
    /// Tells that it began, and answers once the test says so.
    Gate,
    /// A byte every few milliseconds, without end.
    Ticking,
    /// As many bytes as the client takes, without end. Tells when it was dropped.
    Flood,
    /// A first byte, and then nothing ever.
    Hush,
    /// More than the operating system has room for.
    Long,
}

const LONG: usize = 16 * 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
enum Event {
    Began,
    Dropped,
}

struct Server {
    addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    events: mpsc::UnboundedReceiver<Event>,
    gate: Arc<tokio::sync::Semaphore>,
}

impl Server {
    fn start(limits: HttpLimits) -> Self {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let (happened, events) = mpsc::unbounded_channel();
        let gate = Arc::new(tokio::sync::Semaphore::new(0));
        let handler = toys(limits.body_timeout, happened, Arc::clone(&gate));
        let served = tokio::spawn(serve(listener, Arc::new(handler), limits, async move {
            let _ = stopped.await;
        }));
        Server { addr, stop: Some(stop), served, events, gate }
    }

    async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.addr).await.unwrap(), unread: Vec::new() }
    }

    async fn event(&mut self) -> Event {
        soon(self.events.recv()).await.expect("the handler lives as long as the server")
    }

    fn stop(&mut self) {
        self.stop.take().expect("stopped once").send(()).unwrap();
    }
}

fn toys(
    body_timeout: Duration,
    happened: mpsc::UnboundedSender<Event>,
    gate: Arc<tokio::sync::Semaphore>,
) -> impl Fn(Request<Incoming>, Peer) -> std::pin::Pin<Box<dyn Future<Output = Response<Body>> + Send>> {
    let router = Arc::new(
        Router::new(vec![
            Endpoint::new(Method::GET, "/constant", Toy::Constant),
            Endpoint::new(Method::POST, "/length", Toy::Length),
            Endpoint::new(Method::GET, "/park", Toy::Park),
            Endpoint::new(Method::GET, "/gate", Toy::Gate),
            Endpoint::new(Method::GET, "/ticking", Toy::Ticking),
            Endpoint::new(Method::GET, "/flood", Toy::Flood),
            Endpoint::new(Method::GET, "/hush", Toy::Hush),
            Endpoint::new(Method::GET, "/long", Toy::Long),
        ])
        .unwrap(),
    );
    move |request, peer| {
        let (router, happened, gate) = (Arc::clone(&router), happened.clone(), Arc::clone(&gate));
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let id = RequestId::of(&parts.headers);
            let outcome = async {
                let form = request::check_head(&parts)?.form;
                let toy = router.route(&parts.method, &parts.uri)?.0.handler;
                let unsent = Unsent::at_most(usize::MAX);
                let room = BodyRoom { unsent: &unsent, ip: peer.addr.ip() };
                let body = request::read_body(form, body, body_timeout, room).await?;
                let answer = match toy {
                    Toy::Constant => parts.uri.query().unwrap_or("-").to_owned(),
                    Toy::Length => body.len().to_string(),
                    Toy::Park => {
                        let _ = happened.send(Event::Began);
                        let _told = TellWhenDropped(happened);
                        pending().await
                    }
                    Toy::Gate => {
                        let _ = happened.send(Event::Began);
                        gate.acquire().await.unwrap().forget();
                        "through".to_owned()
                    }
                    Toy::Ticking => {
                        let next = |()| async {
                            tokio::time::sleep(SHORT / 5).await;
                            Some((Bytes::from_static(b"."), ()))
                        };
                        return Ok(streaming(&id, Body::stream((), next)));
                    }
                    Toy::Long => return Ok(response::json(StatusCode::OK, &id, vec![b'x'; LONG])),
                    Toy::Flood => {
                        let next = |told| async { Some((Bytes::from(vec![b'.'; 65_536]), told)) };
                        return Ok(streaming(&id, Body::stream(TellWhenDropped(happened), next)));
                    }
                    Toy::Hush => {
                        let next = |is_first: bool| async move {
                            if is_first { Some((Bytes::from_static(b"."), false)) } else { pending().await }
                        };
                        return Ok(streaming(&id, Body::stream(true, next)));
                    }
                };
                Ok::<_, Problem>(response::json(StatusCode::OK, &id, format!("\"{answer}\"")))
            };
            let outcome = outcome.await;
            request::respond(&id, outcome)
        })
    }
}

fn streaming(id: &RequestId, body: Body) -> Response<Body> {
    let mut response = response::empty(StatusCode::OK, id);
    *response.body_mut() = body;
    response
}

struct TellWhenDropped(mpsc::UnboundedSender<Event>);

impl Drop for TellWhenDropped {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Dropped);
    }
}

async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens soon")
}

/// A client that sends exactly the bytes it is told to.
struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
struct RawAnswer {
    status: u16,
    head: String,
    body: String,
}

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    async fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
    }

    async fn read_until(&mut self, found: impl Fn(&[u8]) -> Option<usize>) -> Vec<u8> {
        loop {
            if let Some(end) = found(&self.unread) {
                return self.unread.drain(..end).collect();
            }
            let read = soon(self.stream.read_buf(&mut self.unread)).await.unwrap();
            assert!(read > 0, "closed early: {:?}", String::from_utf8_lossy(&self.unread));
        }
    }

    async fn answer(&mut self) -> RawAnswer {
        let head = self.read_until(|bytes| bytes.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4)).await;
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1).map_or(0, |rest| {
            rest.split("\r\n").next().and_then(|digits| digits.parse::<usize>().ok()).expect("a length is a number")
        });
        let body = self.read_until(|bytes| (bytes.len() >= length).then_some(length)).await;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status line");
        let mut body = String::from_utf8(body).unwrap();
        // A JSON text ends in a newline, which the expectations here leave out.
        assert!(body.is_empty() || body.ends_with('\n'), "{head}{body}");
        body.pop();
        RawAnswer { status, head, body }
    }

    /// Waits until the server closes, and returns the bytes before.
    async fn closed(mut self) -> String {
        let mut rest = self.unread;
        // A reset also closes.
        let _ = soon(self.stream.read_to_end(&mut rest)).await;
        String::from_utf8(rest).unwrap()
    }
}

// ---- answers and errors ----

#[tokio::test]
async fn every_answer_has_the_same_shape() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    for (request, status, body, headers) in [
        (
            "GET /constant?a HTTP/1.1\r\nhost: x\r\nx-request-id: mine-7\r\n\r\n",
            200,
            r#""a""#,
            &["x-request-id: mine-7"][..],
        ),
        (
            "GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n",
            404,
            r#"{"error":"no such path","code":"no_such_path","hint":"GET /docs shows every path"}"#,
            &[],
        ),
        (
            "DELETE /constant HTTP/1.1\r\nhost: x\r\n\r\n",
            405,
            r#"{"error":"method DELETE is not allowed here, use GET, HEAD","code":"wrong_method"}"#,
            &["allow: get, head"],
        ),
        (
            "POST /length HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx",
            415,
            r#"{"error":"content-encoding is not supported, send the body as it is","code":"body_encoded"}"#,
            &[],
        ),
    ] {
        client.send(request).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, &*answer.body), (status, body));
        for header in
            ["content-type: application/json", "cache-control: no-store", "x-request-id: "].iter().chain(headers)
        {
            assert!(answer.head.contains(header), "{header} is missing in {}", answer.head);
        }
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    client.send("HEAD /constant HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    let answer = client.closed().await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("content-length: 4\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    let requests: Vec<String> = (0..50).map(|i| format!("GET /constant?{i} HTTP/1.1\r\nhost: x\r\n\r\n")).collect();
    client.send(requests.concat()).await;
    for i in 0..50 {
        assert_eq!(client.answer().await.body, format!("\"{i}\""));
    }
}

#[tokio::test]
async fn uris_at_the_limit_pass_and_one_past_is_414() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    for (len, status) in [(URI_MAX, 200), (URI_MAX + 1, 414), (4 * URI_MAX, 414)] {
        client.get(&format!("/constant?{}", "q".repeat(len - "/constant?".len()))).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{len}");
        if status == 414 {
            let expected =
                format!(r#"{{"error":"the URI has {len} bytes, at most 4096 are allowed","code":"uri_too_long"}}"#);
            assert_eq!(answer.body, expected);
        }
    }
}

#[tokio::test]
async fn headers_at_the_limit_pass_and_one_past_is_431() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    let host = "host: x\r\n";
    for (len, status) in [(HEADERS_MAX, 200), (HEADERS_MAX + 1, 431)] {
        let filler = "v".repeat(len - host.len() - "a: \r\n".len());
        client.send(format!("GET /constant HTTP/1.1\r\n{host}a: {filler}\r\n\r\n")).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{len}");
        if status == 431 {
            let expected = r#"{"error":"the headers have 16385 bytes in all, at most 16384 are allowed","code":"headers_too_large"}"#;
            assert_eq!(answer.body, expected);
        }
    }
    // A head that does not fit hyper's buffer gets its bare status and is closed.
    let mut client = server.connect().await;
    client.send(format!("GET /constant HTTP/1.1\r\nhost: x\r\na: {}", "v".repeat(64 * 1024))).await;
    assert!(client.closed().await.starts_with("HTTP/1.1 431"));
}

#[tokio::test]
async fn bodies_at_the_limit_pass_and_one_past_is_413() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    for (len, status) in [(0, 200), (1, 200), (BODY_MAX, 200), (BODY_MAX + 1, 413), (5 * BODY_MAX, 413), (2, 200)] {
        let body = "b".repeat(len);
        client.send(format!("POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: {len}\r\n\r\n{body}")).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{len}");
        let expected = match status {
            413 => r#"{"error":"the body is too large, at most 65536 bytes are allowed","code":"body_too_large"}"#
                .to_owned(),
            _ => format!("\"{len}\""),
        };
        assert_eq!(answer.body, expected);
    }
    // In chunks, without a length said beforehand.
    for (chunks, status) in [(64, 200), (65, 413)] {
        let body = format!("400\r\n{}\r\n", "c".repeat(1024)).repeat(chunks);
        client.send("POST /length HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n").await;
        client.send(format!("{body}0\r\n\r\n")).await;
        assert_eq!(client.answer().await.status, status, "{chunks}");
    }
}

#[tokio::test]
async fn a_huge_upload_is_refused_unread() {
    let server = Server::start(HttpLimits::default());
    for more in ["content-length: 10000000\r\n", "content-length: 65537\r\nexpect: 100-continue\r\n"] {
        let mut client = server.connect().await;
        client.send(format!("POST /length HTTP/1.1\r\nhost: x\r\n{more}\r\n")).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 413);
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
        client.closed().await;
    }
}

#[tokio::test]
async fn a_client_that_asks_before_sending_is_told_to_go_on() {
    let server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    client.send("POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 100);
    client.send("abc").await;
    assert_eq!(client.answer().await.body, r#""3""#);
}

// ---- slow and silent clients ----

/// Head and body deadlines are short, the idle one is not.
fn impatient() -> HttpLimits {
    HttpLimits { head_timeout: SHORT, body_timeout: SHORT, ..HttpLimits::default() }
}

#[tokio::test]
async fn a_client_that_sends_nothing_is_closed() {
    let server = Server::start(impatient());
    let began_at = Instant::now();
    assert_eq!(server.connect().await.closed().await, "");
    assert!(began_at.elapsed() >= SHORT);
}

#[tokio::test]
async fn a_client_that_trickles_its_head_is_closed() {
    let server = Server::start(impatient());
    let (mut reader, mut writer) = server.connect().await.stream.into_split();
    // One byte every few milliseconds would take far longer than allowed; it ends when the server closes.
    let trickle = tokio::spawn(async move {
        for byte in "GET /constant HTTP/1.1\r\nx: ".bytes().chain(std::iter::repeat(b'v')) {
            if writer.write_all(&[byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    let mut said = Vec::new();
    let _ = soon(reader.read_to_end(&mut said)).await;
    assert_eq!(said, b"");
    soon(trickle).await.unwrap();
}

#[tokio::test]
async fn a_kept_connection_may_idle_longer_than_a_head_may_take() {
    let server = Server::start(impatient());
    let mut client = server.connect().await;
    client.get("/constant").await;
    assert_eq!(client.answer().await.status, 200);
    // Idle for several times the head deadline: the connection must outlive it.
    let idle = tokio::time::timeout(4 * SHORT, client.stream.read_u8()).await;
    assert!(idle.is_err(), "closed while idle");
    client.get("/constant").await;
    assert_eq!(client.answer().await.status, 200);
    // But a request once begun has to be finished in time.
    client.send("GET /const").await;
    assert_eq!(client.closed().await, "");
}

#[tokio::test]
async fn a_kept_connection_is_closed_when_idle_for_too_long() {
    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..HttpLimits::default() });
    let mut client = server.connect().await;
    client.get("/constant").await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.closed().await, "");
}

#[tokio::test]
async fn a_body_that_stalls_is_408() {
    let server = Server::start(impatient());
    let mut client = server.connect().await;
    client.send("POST /length HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc").await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 408);
    assert_eq!(answer.body, r#"{"error":"the body did not arrive within 0.05 s","code":"body_late"}"#);
    client.closed().await;
}

#[tokio::test]
async fn an_answer_may_take_longer_than_every_deadline() {
    let limits = HttpLimits { head_timeout: SHORT, idle_timeout: SHORT, ..HttpLimits::default() };
    let mut server = Server::start(limits);
    let mut client = server.connect().await;
    client.get("/gate").await;
    assert_eq!(server.event().await, Event::Began);
    let early = tokio::time::timeout(4 * SHORT, client.stream.read_u8()).await;
    assert!(early.is_err(), "closed while being answered");
    server.gate.add_permits(1);
    assert_eq!(client.answer().await.body, r#""through""#);
}

// ---- streams ----

#[tokio::test]
async fn a_stream_lives_past_every_deadline_while_something_is_written() {
    let limits =
        HttpLimits { head_timeout: SHORT, idle_timeout: SHORT, stall_timeout: 4 * SHORT, ..HttpLimits::default() };
    let server = Server::start(limits);
    let mut client = server.connect().await;
    let began_at = Instant::now();
    client.get("/ticking").await;
    assert!(client.answer().await.head.contains("transfer-encoding: chunked"));
    while began_at.elapsed() < 10 * SHORT {
        client.read_until(|bytes| (!bytes.is_empty()).then_some(1)).await;
    }
}

#[tokio::test]
async fn a_stream_that_nobody_reads_is_cut() {
    let mut server = Server::start(HttpLimits { stall_timeout: 4 * SHORT, ..HttpLimits::default() });
    let mut client = server.connect().await;
    client.get("/flood").await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(server.event().await, Event::Dropped);
}

#[tokio::test]
async fn stopping_does_not_wait_for_streams() {
    let mut server = Server::start(HttpLimits::default());
    let mut silent = server.connect().await;
    silent.get("/hush").await;
    assert_eq!(silent.answer().await.status, 200);
    let mut stuck = server.connect().await;
    stuck.get("/flood").await;
    assert_eq!(stuck.answer().await.status, 200);
    let began_at = Instant::now();
    server.stop();
    soon(&mut server.served).await.unwrap();
    assert!(began_at.elapsed() < HttpLimits::default().drain_timeout / 2, "{:?}", began_at.elapsed());
    silent.closed().await;
}

#[tokio::test]
async fn streams_share_an_http2_connection_with_answers() {
    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..HttpLimits::default() });
    let (mut sender, _running, _socket) = h2(server.addr).await;
    let stream = soon(sender.send_request(h2_request(Method::GET, "/ticking", ""))).await.unwrap();
    let mut body = stream.into_body();
    let began_at = Instant::now();
    while began_at.elapsed() < 3 * SHORT {
        soon(body.frame()).await.expect("it goes on").unwrap();
        let answer = soon(sender.send_request(h2_request(Method::GET, "/constant", ""))).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

// ---- answers that are not read ----

#[tokio::test]
async fn a_long_answer_on_http1_that_is_not_read_is_given_up() {
    let unsent = Unsent::at_most(2 * LONG);
    let limits = HttpLimits { stall_timeout: 4 * SHORT, unsent: unsent.clone(), ..HttpLimits::default() };
    let server = Server::start(limits);
    let mut client = server.connect().await;
    client.get("/long").await;
    client.read_until(|bytes| (!bytes.is_empty()).then_some(1)).await;
    all_given_up(&unsent).await;
    let mut rest = Vec::new();
    let _ = soon(client.stream.read_to_end(&mut rest)).await;
    assert!(rest.len() < LONG, "all of it was sent");
}

/// Until no byte of an answer waits for its client.
async fn all_given_up(unsent: &Unsent) {
    let given_up = async {
        while unsent.bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon(given_up).await;
}

#[tokio::test]
async fn a_stream_of_http2_that_is_not_read_is_reset_and_the_others_go_on() {
    let mut server = Server::start(HttpLimits { stall_timeout: 4 * SHORT, ..HttpLimits::default() });
    let (mut sender, _running, _socket) = h2(server.addr).await;
    let unread = soon(sender.send_request(h2_request(Method::GET, "/flood", ""))).await.unwrap();
    let long = soon(sender.send_request(h2_request(Method::GET, "/long", ""))).await.unwrap();
    let ticking = soon(sender.send_request(h2_request(Method::GET, "/ticking", ""))).await.unwrap();
    let mut ticking = ticking.into_body();
    let began_at = Instant::now();
    while began_at.elapsed() < 10 * SHORT {
        soon(ticking.frame()).await.expect("it goes on").unwrap();
    }
    assert_eq!(server.event().await, Event::Dropped);
    for mut body in [unread.into_body(), long.into_body()] {
        let mut taken = 0;
        let end = loop {
            match soon(body.frame()).await {
                Some(Ok(frame)) => taken += frame.into_data().unwrap().len(),
                end => break end,
            }
        };
        assert!(end.expect("it is no orderly end").is_err() && taken < LONG, "{taken} bytes");
    }
    let answer = soon(sender.send_request(h2_request(Method::GET, "/constant", ""))).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn past_the_budget_of_unread_bytes_long_answers_are_503_and_short_ones_go_on() {
    let unsent = Unsent::at_most(LONG + LONG / 2);
    let server = Server::start(HttpLimits { unsent: unsent.clone(), ..HttpLimits::default() });
    let mut first = server.connect().await;
    first.get("/long").await;
    first.read_until(|bytes| (!bytes.is_empty()).then_some(1)).await;
    let mut second = server.connect().await;
    second.get("/long").await;
    let refused = second.answer().await;
    assert_eq!((refused.status, refused.head.contains("retry-after: 1")), (503, true));
    assert!(refused.body.contains("too many bytes wait to be sent"), "{}", refused.body);
    second.get("/constant").await;
    assert_eq!(second.answer().await.status, 200);
    // Once the first has left there is room again.
    drop(first);
    all_given_up(&unsent).await;
    let mut third = server.connect().await;
    third.get("/long").await;
    third.read_until(|bytes| bytes.starts_with(b"HTTP/1.1 200").then_some(1)).await;
}

// ---- clients that leave ----

#[tokio::test]
async fn leaving_behind_more_bytes_drops_the_handler() {
    for more in ["\r\n", "GET /constant HTTP/1.1\r\nhost: x\r\n\r\n"] {
        let mut server = Server::start(HttpLimits::default());
        let mut client = server.connect().await;
        client.send(format!("GET /park HTTP/1.1\r\nhost: x\r\n\r\n{more}")).await;
        assert_eq!(server.event().await, Event::Began);
        drop(client);
        assert_eq!(server.event().await, Event::Dropped);
    }
}

#[tokio::test]
async fn leaving_drops_the_handler() {
    let mut server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    client.get("/park").await;
    assert_eq!(server.event().await, Event::Began);
    drop(client);
    assert_eq!(server.event().await, Event::Dropped);
}

#[tokio::test]
async fn closing_the_sending_side_counts_as_leaving() {
    let mut server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    client.get("/park").await;
    assert_eq!(server.event().await, Event::Began);
    client.stream.shutdown().await.unwrap();
    assert_eq!(server.event().await, Event::Dropped);
    assert_eq!(client.closed().await, "");
}

#[tokio::test]
async fn a_reset_counts_as_leaving() {
    let mut server = Server::start(HttpLimits::default());
    let mut client = server.connect().await;
    client.get("/park").await;
    assert_eq!(server.event().await, Event::Began);
    client.stream.set_zero_linger().unwrap();
    drop(client);
    assert_eq!(server.event().await, Event::Dropped);
}

// ---- HTTP/2 ----

/// A client, its connection's task, and a second handle on its socket.
async fn h2(
    addr: SocketAddr,
) -> (hyper::client::conn::http2::SendRequest<Full<Bytes>>, JoinHandle<()>, std::net::TcpStream) {
    let stream = TcpStream::connect(addr).await.unwrap().into_std().unwrap();
    let socket = stream.try_clone().unwrap();
    let stream = TcpStream::from_std(stream).unwrap();
    let builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
    let running = tokio::spawn(async move {
        let _ = connection.await;
    });
    (sender, running, socket)
}

fn h2_request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let uri = format!("http://x{path}");
    Request::builder().method(method).uri(uri).body(Full::new(body.into())).unwrap()
}

#[tokio::test]
async fn http2_with_prior_knowledge_works() {
    let server = Server::start(HttpLimits::default());
    let (mut sender, _running, _socket) = h2(server.addr).await;
    for (method, path, body, status, expected) in [
        (Method::GET, "/constant?z", String::new(), 200, r#""z""#),
        (Method::POST, "/length", "b".repeat(BODY_MAX), 200, r#""65536""#),
        (
            Method::POST,
            "/length",
            "b".repeat(BODY_MAX + 1),
            413,
            r#"{"error":"the body is too large, at most 65536 bytes are allowed","code":"body_too_large"}"#,
        ),
        (
            Method::GET,
            "/nowhere",
            String::new(),
            404,
            r#"{"error":"no such path","code":"no_such_path","hint":"GET /docs shows every path"}"#,
        ),
    ] {
        let answer = soon(sender.send_request(h2_request(method, path, body))).await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), format!("{expected}\n"));
    }
}

/// hyper sends the whole answer to HEAD on HTTP/2, which a client takes for a broken protocol.
#[tokio::test]
async fn head_over_http2_is_get_without_the_body() {
    let server = Server::start(HttpLimits::default());
    let (mut sender, _running, _socket) = h2(server.addr).await;
    for (path, status, length) in [("/constant", 200, Some("4")), ("/long", 200, None), ("/nowhere", 404, None)] {
        let length = length.map_or_else(String::new, str::to_owned);
        let asked = soon(sender.send_request(h2_request(Method::GET, path, ""))).await.unwrap();
        let whole = soon(asked.into_body().collect()).await.unwrap().to_bytes().len().to_string();
        let answer = soon(sender.send_request(h2_request(Method::HEAD, path, ""))).await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        assert_eq!(answer.headers()["content-length"], whole, "{path}");
        assert!(length.is_empty() || length == whole, "{path}");
        assert!(answer.into_body().is_end_stream(), "{path}: there is a body");
    }
    let stream = soon(sender.send_request(h2_request(Method::HEAD, "/ticking", ""))).await.unwrap();
    assert!(stream.into_body().is_end_stream(), "a stream has no beginning");
}

#[tokio::test]
async fn cancelling_an_http2_stream_drops_its_handler_and_no_other() {
    let mut server = Server::start(HttpLimits::default());
    let (mut sender, _running, socket) = h2(server.addr).await;
    let first = tokio::spawn(sender.send_request(h2_request(Method::GET, "/park", "")));
    assert_eq!(server.event().await, Event::Began);
    let second = tokio::spawn(sender.send_request(h2_request(Method::GET, "/park", "")));
    assert_eq!(server.event().await, Event::Began);
    first.abort();
    assert_eq!(server.event().await, Event::Dropped);
    // The connection and the other stream live on …
    let answer = soon(sender.send_request(h2_request(Method::GET, "/constant", ""))).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(server.events.try_recv().is_err());
    // … until the connection goes.
    socket.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(server.event().await, Event::Dropped);
    assert!(soon(second).await.unwrap().is_err());
}

#[tokio::test]
async fn an_idle_http2_connection_is_kept_beyond_the_head_deadline_and_then_closed() {
    let limits = HttpLimits { head_timeout: SHORT, idle_timeout: 6 * SHORT, ..HttpLimits::default() };
    let server = Server::start(limits);
    let (mut sender, running, _socket) = h2(server.addr).await;
    let began_at = Instant::now();
    let answer = soon(sender.send_request(h2_request(Method::GET, "/constant", ""))).await.unwrap();
    assert_eq!(answer.status(), 200);
    soon(running).await.unwrap();
    assert!(began_at.elapsed() >= 6 * SHORT);
}

// ---- how many, and the end ----

#[tokio::test]
async fn a_connection_over_the_limit_is_told_and_closed() {
    let server = Server::start(HttpLimits { connections_max: 2, ..HttpLimits::default() });
    let mut kept = Vec::new();
    for _ in 0..2 {
        let mut client = server.connect().await;
        client.get("/constant").await;
        assert_eq!(client.answer().await.status, 200);
        kept.push(client);
    }
    let mut third = server.connect().await;
    third.get("/constant").await;
    let answer = third.answer().await;
    assert_eq!((answer.status, &*answer.body), (503, r#"{"error": "too many connections", "code": "overloaded"}"#));
    assert!(answer.head.contains("retry-after: 1\r\n"), "{}", answer.head);
    third.closed().await;

    // Once one is gone, the next is served. The server decides when it notices, so ask until then.
    kept.pop();
    let next_status = soon(async {
        loop {
            let mut next = server.connect().await;
            next.get("/constant").await;
            let status = next.answer().await.status;
            if status != 503 {
                return status;
            }
        }
    });
    assert_eq!(next_status.await, 200);
}

#[tokio::test]
async fn stopping_finishes_answers_under_way_and_closes_the_rest() {
    let mut server = Server::start(HttpLimits::default());
    let mut idle = server.connect().await;
    idle.get("/constant").await;
    assert_eq!(idle.answer().await.status, 200);
    let silent = server.connect().await;
    let mut busy = server.connect().await;
    busy.get("/gate").await;
    assert_eq!(server.event().await, Event::Began);

    server.stop();
    assert_eq!(idle.closed().await, "");
    assert_eq!(silent.closed().await, "");
    assert!(!server.served.is_finished());
    assert!(TcpStream::connect(server.addr).await.is_err(), "nobody listens any more");

    server.gate.add_permits(1);
    let answer = busy.answer().await;
    assert_eq!((answer.status, &*answer.body), (200, r#""through""#));
    busy.closed().await;
    soon(&mut server.served).await.unwrap();
}

#[tokio::test]
async fn stopping_waits_no_longer_than_allowed() {
    let mut server = Server::start(HttpLimits { drain_timeout: SHORT, ..HttpLimits::default() });
    let mut client = server.connect().await;
    client.get("/park").await;
    let (mut sender, _running, _socket) = h2(server.addr).await;
    let parked = tokio::spawn(sender.send_request(h2_request(Method::GET, "/park", "")));
    assert_eq!((server.event().await, server.event().await), (Event::Began, Event::Began));

    let began_at = Instant::now();
    server.stop();
    soon(&mut server.served).await.unwrap();
    assert!(began_at.elapsed() >= SHORT);
    assert_eq!((server.event().await, server.event().await), (Event::Dropped, Event::Dropped));
    client.closed().await;
    assert!(soon(parked).await.unwrap().is_err());
}
