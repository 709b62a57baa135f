//! TLS for a health check. It asks the server on this machine, at the address in the server's own configuration, and
//! tells it nothing, so any certificate will do: an expired one is no reason to restart a process that is well.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned};

/// The TLS settings of the client.
pub(super) fn client(own: Option<(&Path, &Path)>) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions it comes with")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Whoever(provider)));
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

/// Accepts any server that has the key of the certificate it shows.
#[derive(Debug)]
struct Whoever(Arc<CryptoProvider>);

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
