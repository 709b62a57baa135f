//! TLS over real sockets: handshakes that are slow or never come, deadlines and limits that hold as they do without it.
//! The handler is a toy. Timeouts are set to milliseconds and always awaited by their effect.
#![expect(clippy::unwrap_used, reason = "a helper that cannot go on fails its test")]

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use leasehold_http::{
    Body, ConnectionNews, Handler, HttpLimits, Material, Peer, Pem, RequestId, Tls, bind, response, serve_tls,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Long enough that no machine is too slow for it, short enough that a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// Long enough for a handshake on a busy machine.
const SHORT: Duration = Duration::from_millis(500);

/// Answers at once; `/park` never, and tells when it began and when it is dropped; `/flood` without end.
#[derive(Default)]
struct Toy {
    failed_handshakes: AtomicU32,
    began: Notify,
    dropped: Notify,
}

impl Handler for Toy {
    async fn handle(self: Arc<Self>, request: Request<Incoming>, _: Peer) -> Response<Body> {
        let id = RequestId::of(request.headers());
        match request.uri().path() {
            "/park" => {
                self.began.notify_one();
                let _told = TellWhenDropped(self);
                pending().await
            }
            "/flood" => {
                let next = |told| async { Some((Bytes::from(vec![b'.'; 65_536]), told)) };
                let mut response = response::empty(StatusCode::OK, &id);
                *response.body_mut() = Body::stream(TellWhenDropped(self), next);
                response
            }
            _ => response::json(StatusCode::OK, &id, "{}"),
        }
    }

    fn connection(&self, news: ConnectionNews) {
        if news == ConnectionNews::NoHandshake {
            self.failed_handshakes.fetch_add(1, Ordering::SeqCst);
        }
    }
}

struct TellWhenDropped(Arc<Toy>);

impl Drop for TellWhenDropped {
    fn drop(&mut self) {
        self.0.dropped.notify_one();
    }
}

struct Server {
    addr: SocketAddr,
    toy: Arc<Toy>,
    root: CertificateDer<'static>,
    stop: Option<oneshot::Sender<()>>,
    served: tokio::task::JoinHandle<()>,
}

impl Server {
    fn start(limits: HttpLimits) -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let (cert_pem, key_pem) = (cert.pem(), signing_key.serialize_pem());
        let pem = Pem { cert: cert_pem.as_bytes(), key: key_pem.as_bytes(), clients: None };
        let tls = Arc::new(Tls::new(Material::read(&pem).unwrap()));
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let toy = Arc::new(Toy::default());
        let served = tokio::spawn(serve_tls(listener, tls, Arc::clone(&toy), limits, async move {
            let _ = stopped.await;
        }));
        Server { addr, toy, root: cert.der().clone(), stop: Some(stop), served }
    }

    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.addr).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        soon(TlsConnector::from(Arc::new(config)).connect(name, stream)).await.unwrap()
    }

    fn failed_handshakes(&self) -> u32 {
        self.toy.failed_handshakes.load(Ordering::SeqCst)
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("soon")
}

/// Sends a request and reads one small answer.
async fn ask(stream: &mut TlsStream<TcpStream>, path: &str) -> String {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 1024];
    let length = soon(stream.read(&mut answer)).await.unwrap();
    String::from_utf8(answer[..length].to_vec()).unwrap()
}

/// Until the server has closed, in whichever way.
async fn until_closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut sink = [0; 1024];
    while soon(stream.read(&mut sink)).await.is_ok_and(|read| read > 0) {}
}

#[tokio::test]
async fn a_handshake_that_does_not_come_or_crawls_is_cut_and_counted() {
    let server = Server::start(HttpLimits { head_timeout: SHORT, ..HttpLimits::default() });
    let mut silent = TcpStream::connect(server.addr).await.unwrap();
    // The beginning of a hello that is never finished.
    let mut slow = TcpStream::connect(server.addr).await.unwrap();
    slow.write_all(&[0x16, 3, 1, 2, 0, 1]).await.unwrap();
    until_closed(&mut silent).await;
    until_closed(&mut slow).await;
    assert_eq!(server.failed_handshakes(), 2);
    // A client that goes away without a word is no failure.
    drop(TcpStream::connect(server.addr).await.unwrap());
    let mut nonsense = TcpStream::connect(server.addr).await.unwrap();
    nonsense.write_all(&[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5, 0xff, 0xff]).await.unwrap();
    until_closed(&mut nonsense).await;
    assert_eq!(server.failed_handshakes(), 3);
    assert!(ask(&mut server.connect(b"http/1.1").await, "/").await.starts_with("HTTP/1.1 200"), "others are served");
}

#[tokio::test]
async fn an_agreed_session_owes_a_head_and_then_may_idle_for_a_while() {
    let server = Server::start(HttpLimits { head_timeout: SHORT, ..HttpLimits::default() });
    until_closed(&mut server.connect(b"http/1.1").await).await;
    assert_eq!(server.failed_handshakes(), 0);

    let server = Server::start(HttpLimits { idle_timeout: SHORT, ..HttpLimits::default() });
    let mut client = server.connect(b"http/1.1").await;
    assert!(ask(&mut client, "/").await.starts_with("HTTP/1.1 200"));
    until_closed(&mut client).await;
}

#[tokio::test]
async fn a_caller_that_leaves_is_noticed() {
    let server = Server::start(HttpLimits::default());
    for is_polite in [true, false] {
        let mut client = server.connect(b"http/1.1").await;
        client.write_all(b"GET /park HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        client.flush().await.unwrap();
        soon(server.toy.began.notified()).await;
        if is_polite {
            client.shutdown().await.unwrap();
        } else {
            drop(client);
        }
        soon(server.toy.dropped.notified()).await;
    }
}

#[tokio::test]
async fn a_reader_that_stopped_reading_is_cut() {
    let server = Server::start(HttpLimits { stall_timeout: SHORT, ..HttpLimits::default() });
    let mut client = server.connect(b"http/1.1").await;
    client.write_all(b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    client.flush().await.unwrap();
    soon(server.toy.dropped.notified()).await;
}

#[tokio::test]
async fn http2_is_agreed_on_in_the_handshake() {
    let mut server = Server::start(HttpLimits::default());
    let stream = server.connect(b"h2").await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    let driven = tokio::spawn(connection);
    let request = || Request::get("https://localhost/").body(Empty::new()).unwrap();
    let response = soon(sender.send_request(request())).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(soon(response.into_body().collect()).await.unwrap().to_bytes(), "{}\n");
    // Told to stop, it says good-bye in TLS, too.
    server.stop.take().unwrap().send(()).unwrap();
    soon(driven).await.unwrap().unwrap();
    soon(server.served).await.unwrap();
}

#[tokio::test]
async fn connections_past_the_limit_are_closed_and_handshakes_count() {
    let server = Server::start(HttpLimits { connections_max: 1, ..HttpLimits::default() });
    let waiting = TcpStream::connect(server.addr).await.unwrap();
    let mut refused = TcpStream::connect(server.addr).await.unwrap();
    let mut said = Vec::new();
    let _ = soon(refused.read_to_end(&mut said)).await;
    assert_eq!(said, b"", "it would not be understood");
    drop(waiting);
    // The place is free once the server has seen it go.
    let mut attempts = 0;
    loop {
        let mut stream = TcpStream::connect(server.addr).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let mut said = String::new();
        let _ = soon(stream.read_to_string(&mut said)).await;
        if said.contains("this port speaks HTTPS") {
            break;
        }
        attempts += 1;
        assert!(attempts < 1_000, "{said}");
    }
}
