//! How an accepted connection becomes one that speaks HTTP: at once, or after a TLS handshake (`tls`). Each is a type
//! of its own, so that a plain connection carries nothing of the other.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::activity::Activity;
use super::handler::PeerCertificate;
use super::socket::{Line, Opening, Watched};

/// A way in.
pub(super) trait Door: Clone + Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// `true` if a peer can read an answer without having come in.
    const SPEAKS_PLAINLY: bool;

    /// Lets a peer in. The caller bounds the time this takes.
    fn open(
        self,
        stream: TcpStream,
        activity: Arc<Activity>,
    ) -> impl Future<Output = Result<Opened<Self::Stream>, Unopened>> + Send;

    /// The error when that took too long.
    fn too_slow() -> Unopened;
}

/// A connection that HTTP can be spoken on.
#[derive(Debug)]
pub(super) struct Opened<S> {
    pub(super) stream: S,
    /// The socket below it.
    pub(super) line: Line,
    pub(super) speaks_http2: bool,
    pub(super) certificate: Option<Arc<PeerCertificate>>,
}

/// A connection that came to nothing.
#[derive(Debug)]
pub(super) enum Unopened {
    /// The peer left, or said nothing.
    Gone,
    /// There was no handshake. On the heap, as a connection that comes to something would have room for it.
    NoHandshake(Box<NoHandshake>),
}

#[derive(Debug)]
pub(super) struct NoHandshake {
    pub(super) reason: Cow<'static, str>,
    /// The last message to the peer, if it may still listen.
    pub(super) last_words: Option<(Watched, &'static [u8])>,
}

/// Plain HTTP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

impl Door for Plain {
    type Stream = Watched;

    const SPEAKS_PLAINLY: bool = true;

    async fn open(self, stream: TcpStream, activity: Arc<Activity>) -> Result<Opened<Watched>, Unopened> {
        let opening = Opening::read(&stream).await.map_err(|_| Unopened::Gone)?;
        let speaks_http2 = opening.is_http2();
        let stream = Watched::new(stream, opening, activity);
        Ok(Opened { line: stream.line(), stream, speaks_http2, certificate: None })
    }

    fn too_slow() -> Unopened {
        Unopened::Gone
    }
}
