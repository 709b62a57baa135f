//! One connection: made within two seconds, TLS included, used by one call at a time, and gone when a call on it is
//! given up.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::address::Address;

/// For connecting, with TLS.
const CONNECT: Duration = Duration::from_secs(2);
/// More than any answer of the service to a call made here.
const BODY_BYTES_MAX: usize = 8 << 20;

#[derive(Debug)]
pub(super) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    /// Drives the socket; ended with this, so that nothing is left behind by a call that was given up.
    driver: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum NoConnection {
    Unreachable(String),
    Tls(String),
}

/// Why there is no answer on a connection.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// Before the first byte of it.
    Before(String),
    /// The other side does not like our certificate, or ours of it.
    Tls(String),
    /// Within its body.
    Within(String),
}

/// An answer as it came.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Connection {
    pub(super) async fn open(address: &Address, tls: Option<&Arc<ClientConfig>>) -> Result<Connection, NoConnection> {
        match timeout(CONNECT, connect(address, tls)).await {
            Ok(connection) => connection,
            Err(_) => Err(NoConnection::Unreachable(format!("no connection within {} s", CONNECT.as_secs()))),
        }
    }

    /// Returns whether the other side has left it open, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends and waits for the whole answer.
    pub(super) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Raw, NoAnswer> {
        let response = self.head(request).await?;
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => Ok(Raw { status, headers: parts.headers, body: body.to_bytes() }),
            Err(error) => Err(NoAnswer::Within(format!("the answer was cut off: {error}"))),
        }
    }

    /// Sends and waits for the head of the answer.
    pub(super) async fn head(&mut self, request: Request<Full<Bytes>>) -> Result<http::Response<Incoming>, NoAnswer> {
        self.sender.ready().await.map_err(|error| before(&error))?;
        self.sender.send_request(request).await.map_err(|error| before(&error))
    }
}

async fn connect(address: &Address, tls: Option<&Arc<ClientConfig>>) -> Result<Connection, NoConnection> {
    let unreachable = |error: io::Error| NoConnection::Unreachable(plain(&error));
    let stream = TcpStream::connect((&*address.host, address.port)).await.map_err(unreachable)?;
    let _ = stream.set_nodelay(true);
    match tls.filter(|_| address.is_tls) {
        None => speak(stream).await,
        Some(config) => {
            let name = ServerName::try_from(address.host.clone());
            let name = name.map_err(|error| NoConnection::Tls(format!("{:?} is no name: {error}", address.host)))?;
            let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
            speak(stream.map_err(|error| match tls_reason(&error) {
                Some(reason) => NoConnection::Tls(reason),
                None => unreachable(error),
            })?)
            .await
        }
    }
}

async fn speak<S>(stream: S) -> Result<Connection, NoConnection>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| NoConnection::Unreachable(error.to_string()))?;
    let driver = tokio::spawn(async move {
        // The call on it hears of an error; no other task wants to.
        let _ = connection.await;
    });
    Ok(Connection { sender, driver: driver.abort_handle() })
}

fn before(error: &hyper::Error) -> NoAnswer {
    if let Some(reason) = tls_reason(error) {
        return NoAnswer::Tls(reason);
    }
    let source = error.source().map_or(String::new(), |source| format!(": {source}"));
    NoAnswer::Before(format!("{error}{source}"))
}

/// The reason of TLS in an error, if it is one that trying again does not change.
fn tls_reason(error: &(dyn StdError + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<rustls::Error>() {
            return Some(sentence(found));
        }
        next = match error.downcast_ref::<io::Error>() {
            Some(error) => error.get_ref().map(|inner| inner as &(dyn StdError + 'static)),
            None => error.source(),
        };
    }
    None
}

/// The problem, for a reader who does not know the words of TLS, and in brackets the words for one who does.
fn sentence(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    let what = match error {
        Error::InvalidCertificate(Bad::UnknownIssuer) => {
            "the certificate of the service was issued by an authority that is not trusted here"
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "the certificate of the service has expired"
        }
        Error::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "the certificate of the service is not valid yet by the clock of this machine"
        }
        Error::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "the certificate of the service is for another name than the one in the address"
        }
        Error::AlertReceived(Alert::CertificateRequired) => {
            "the service wants a client certificate, and none was shown"
        }
        Error::AlertReceived(
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::AccessDenied
            | Alert::DecryptError,
        ) => "the service does not accept the client certificate",
        Error::InvalidMessage(_) => "the service does not speak TLS at this address",
        other => return other.to_string(),
    };
    format!("{what} ({error})")
}

/// Without the number of the system's error.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "no connection in time".to_owned(),
        _ => error.to_string(),
    }
}
