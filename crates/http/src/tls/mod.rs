//! TLS on a listener: the certificate in force, which can be replaced while connections are open, and the handshake.
//! `material` reads the content of the files, `names` the names of a client's certificate; the binary knows where the
//! files are and when to read them again.

mod material;
mod names;

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub use material::{Clients, Material, Pem, TlsError, TlsFile};

use super::activity::Activity;
use super::door::{Door, NoHandshake, Opened, Unopened};
use super::farewell::SPEAKS_TLS;
use super::socket::{Opening, Watched};

/// The name of HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

/// The certificate in force, and the rules for client certificates.
#[derive(Debug)]
pub struct Tls {
    current: ArcSwap<ServerConfig>,
}

impl Tls {
    pub fn new(material: Material) -> Self {
        Tls { current: ArcSwap::new(material.config) }
    }

    /// For connections from now on; those that are open go on as they began.
    pub fn replace(&self, material: Material) {
        self.current.store(material.config);
    }

    /// The certificate in force, for connections that speak something else than HTTP and ask for no certificate.
    pub fn bare(&self) -> Arc<ServerConfig> {
        let current = self.current.load_full();
        let builder = ServerConfig::builder_with_provider(Arc::clone(current.crypto_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("the provider in force has the versions");
        Arc::new(builder.with_no_client_auth().with_cert_resolver(Arc::clone(&current.cert_resolver)))
    }
}

/// HTTPS.
#[derive(Clone, Debug)]
pub(super) struct Encrypted(pub(super) Arc<Tls>);

impl Door for Encrypted {
    type Stream = TlsStream<Watched>;

    const SPEAKS_PLAINLY: bool = false;

    async fn open(self, stream: TcpStream, activity: Arc<Activity>) -> Result<Opened<Self::Stream>, Unopened> {
        let opening = Opening::read(&stream).await.map_err(|_| Unopened::Gone)?;
        let is_tls = opening.is_tls();
        let stream = Watched::new(stream, opening, activity);
        if !is_tls {
            return Err(no_handshake("the peer does not speak TLS", Some((stream, SPEAKS_TLS))));
        }
        let line = stream.line();
        let acceptor = TlsAcceptor::from(self.0.current.load_full());
        let stream = acceptor.accept(stream).into_fallible().await.map_err(|(error, stream)| {
            // The peer was sent an alert with the reason, and should get to read it.
            no_handshake(error.to_string(), Some((stream, b"")))
        })?;
        let (_, session) = stream.get_ref();
        let speaks_http2 = session.alpn_protocol() == Some(H2);
        let certificate = match session.peer_certificates().and_then(<[_]>::first) {
            None => None,
            Some(certificate) => {
                let read = names::read(certificate);
                Some(Arc::new(
                    read.ok_or_else(|| no_handshake("the names in the peer's certificate cannot be read", None))?,
                ))
            }
        };
        Ok(Opened { stream, line, speaks_http2, certificate })
    }

    fn too_slow() -> Unopened {
        no_handshake("it took too long", None)
    }
}

fn no_handshake(reason: impl Into<Cow<'static, str>>, last_words: Option<(Watched, &'static [u8])>) -> Unopened {
    Unopened::NoHandshake(Box::new(NoHandshake { reason: reason.into(), last_words }))
}
