//! What the connections are for: the handler, which answers their requests, and what it is told of them.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;

use super::response::Body;

/// The other end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub addr: SocketAddr,
    /// The certificate it proved to have, where TLS asks for one.
    pub certificate: Option<Arc<PeerCertificate>>,
    /// There are too many connections, and this one is for [`Handler::reserved_paths`].
    pub is_reserved: bool,
}

/// What a client certificate says, once it is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerCertificate {
    /// The common name of the subject, where it has exactly one.
    pub common_name: Option<String>,
    /// The subject in full, as `CN=ci,O=Example`.
    pub subject: String,
    /// DNS names, e-mail addresses and URIs among the alternative names, in their order.
    pub sans: Vec<String>,
    /// Until when it is valid, in seconds since 1970.
    pub not_after_s: u64,
}

/// Answers requests. The future is dropped when the client leaves: with a closed or half-closed connection, a reset
/// HTTP/2 stream, or a deadline. (HTTP/1.1 clients that send their next request before this one is answered hide their
/// leaving until then.)
///
/// The request's head and body share memory with the connection's read buffer. A future that parks should take what it
/// needs and drop the request first, else every parked connection keeps two buffers.
pub trait Handler: Send + Sync + 'static {
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body>> + Send + 'static;

    /// The paths that a peer may ask for, by GET and without TLS, also where there are too many connections. Their
    /// answers have room of their own.
    fn reserved_paths(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns whether all its callers are operators. Their answers have room of their own.
    fn is_for_operators(&self) -> bool {
        false
    }

    /// For a handler that counts connections.
    fn connection(&self, _news: ConnectionNews) {}
}

/// The fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionNews {
    Opened,
    Closed,
    /// There were too many connections.
    Refused,
    /// An opened connection that was not TLS, or failed before there was a session.
    NoHandshake,
}

impl<F, Fut> Handler for F
where
    F: Fn(Request<Incoming>, Peer) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Response<Body>> + Send + 'static,
{
    fn handle(
        self: Arc<Self>,
        request: Request<Incoming>,
        peer: Peer,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        self(request, peer)
    }
}
