//! One HTTP/2 connection to one member. Calls share it; gRPC's framing is tonic's, the connection is hyper's.

use std::error::Error as StdError;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::address::Endpoint;
use crate::wire::{Call, WATCH_PATH, WatchRequest, WatchResponse};

/// More often would be answered by GOAWAY: etcd allows a ping every five seconds.
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// A page of batches fits into the window, so that reading it takes one round trip.
const WINDOW_BYTES: u32 = 4 << 20;
/// The largest answer that is read: a page of batches, each of at most etcd's 1.5 MiB.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Clones share the connection, which ends with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
    _driver: Arc<Driver>,
}

/// The task that drives the socket; it ends with the connection, so that a hanging member holds nothing.
#[derive(Debug)]
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Connection {
    pub(super) async fn open(endpoint: &Endpoint, tls: Option<&Arc<ClientConfig>>) -> Result<Connection, String> {
        let stream = TcpStream::connect((&*endpoint.host, endpoint.port)).await.map_err(|error| error.to_string())?;
        // Without it a small request could wait for the acknowledgement of the one before.
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        match tls {
            None => speak(stream, "http", endpoint).await,
            Some(config) => {
                let name = ServerName::try_from(endpoint.host.clone());
                let name = name.map_err(|error| format!("{:?} is no name: {error}", endpoint.host))?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
                speak(stream.map_err(|error| format!("no TLS: {error}"))?, "https", endpoint).await
            }
        }
    }

    /// Returns whether the other side has left it open, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn call<C: Call>(
        &self,
        request: C,
        token: Option<&MetadataValue<Ascii>>,
    ) -> Result<C::Answer, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.map_err(unready)?;
        let codec = ProstCodec::<C, C::Answer>::default();
        let answer = grpc.unary(headed(request, token), PathAndQuery::from_static(C::PATH), codec).await?;
        Ok(answer.into_inner())
    }

    /// Watches as `create` says, until the stream is dropped.
    pub(super) async fn watch(
        &self,
        create: WatchRequest,
        token: Option<&MetadataValue<Ascii>>,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.map_err(unready)?;
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        // The stream of requests stays open, or etcd would end the watch.
        let requests = tokio_stream::StreamExt::chain(tokio_stream::once(create), tokio_stream::pending());
        let answer = grpc.streaming(headed(requests, token), PathAndQuery::from_static(WATCH_PATH), codec).await?;
        Ok(answer.into_inner())
    }

    fn grpc(&self) -> Grpc<Sender> {
        Grpc::with_origin(Sender(self.sender.clone()), self.origin.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }
}

async fn speak<S>(stream: S, scheme: &str, endpoint: &Endpoint) -> Result<Connection, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let origin = format!("{scheme}://{endpoint}").parse().map_err(|error| format!("no URI: {error}"))?;
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| plain(&error))?;
    let driver = tokio::spawn(async move {
        // The calls on it hear of an error; no other task wants to.
        let _ = connection.await;
    });
    Ok(Connection { sender, origin, _driver: Arc::new(Driver(driver.abort_handle())) })
}

/// A member without a leader says so at once, instead of keeping the request until it times out.
fn headed<T>(message: T, token: Option<&MetadataValue<Ascii>>) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token.clone());
    }
    request
}

fn unready(error: hyper::Error) -> Status {
    Status::from_error(Box::new(error))
}

/// The innermost reason of an error, after the error.
pub(super) fn plain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
        next = error.source();
    }
    text
}

/// The connection as tonic wants it.
#[derive(Clone, Debug)]
struct Sender(SendRequest<Body>);

impl Service<Request<Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}
