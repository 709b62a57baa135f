//! TLS for a health check. It asks the server on this machine, at the address in the server's own configuration, and
//! tells it nothing, so any certificate will do: an expired one is no reason to restart a process that is well.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use leasehold_node::AnyCertificate;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

/// The TLS settings of the client.
pub(super) fn client(own: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions it comes with")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    let Some((cert, key)) = own else { return Ok(Arc::new(builder.with_no_client_auth())) };
    let wrong = |flag: &str, path: &Path, error: &dyn std::fmt::Display| {
        format!("{flag}: \"{}\" cannot be used: {error}", path.display())
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong("--cert", cert, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong("--key", key, &error))?;
    builder.with_client_auth_cert(chain, secret).map(Arc::new).map_err(|error| wrong("--cert", cert, &error))
}

/// The handshake takes place with the first bytes.
pub(super) fn over(
    stream: TcpStream,
    addr: SocketAddr,
    client: Arc<ClientConfig>,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let session = ClientConnection::new(client, ServerName::from(addr.ip())).map_err(io::Error::other)?;
    Ok(StreamOwned::new(session, stream))
}
