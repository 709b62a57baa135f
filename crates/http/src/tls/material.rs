//! From the text of PEM files to the material of a handshake, or to a sentence that names the faulty file and its
//! problem. Nothing here opens a file, and no sentence has a part of a key in it.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{Error, InconsistentKeys};

use super::{H2, names};

/// The text of the files.
#[derive(Clone, Copy, Debug)]
pub struct Pem<'a> {
    /// The certificate, and its chain.
    pub cert: &'a [u8],
    /// Its private key.
    pub key: &'a [u8],
    /// The settings for client certificates, if clients are asked for theirs.
    pub clients: Option<Clients<'a>>,
}

/// The authorities of client certificates.
#[derive(Clone, Copy, Debug)]
pub struct Clients<'a> {
    /// The certificates of the trusted authorities.
    pub ca: &'a [u8],
    /// The lists of certificates that those authorities revoked.
    pub crl: Option<&'a [u8]>,
    /// `true` if a client without one is turned away.
    pub is_required: bool,
}

/// A file that something is wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFile {
    Cert,
    Key,
    ClientCa,
    ClientCrl,
}

/// The problem of a file, in words that follow its name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct TlsError {
    pub file: TlsFile,
    pub problem: String,
}

impl TlsError {
    fn new(file: TlsFile, problem: impl Into<String>) -> Self {
        TlsError { file, problem: problem.into() }
    }
}

/// Everything a handshake needs.
#[derive(Clone, Debug)]
pub struct Material {
    pub(super) config: Arc<ServerConfig>,
    /// From when the certificate is valid, in seconds since 1970.
    pub not_before_s: u64,
    /// Until when.
    pub not_after_s: u64,
}

impl Material {
    pub fn read(pem: &Pem<'_>) -> Result<Self, TlsError> {
        let provider = Arc::new(default_provider());
        let chain = certificates(TlsFile::Cert, pem.cert)?;
        let unreadable = || TlsError::new(TlsFile::Cert, "has a first certificate that cannot be read");
        let names::Validity { not_before_s, not_after_s } = names::validity(&chain[0]).ok_or_else(unreadable)?;
        let certified = certified(chain, pem.key, &provider)?;
        let verifier = pem.clients.map(|clients| verifier(clients, &provider)).transpose()?;
        let asks_clients = verifier.is_some();
        let builder = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider knows the versions it comes with");
        let builder = match verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        if asks_clients {
            // A resumed session would stand for a certificate that is not looked at again.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Material { config: Arc::new(config), not_before_s, not_after_s })
    }
}

/// At least one certificate.
fn certificates(file: TlsFile, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let read = read.map_err(|error| TlsError::new(file, pem_problem(&error)))?;
    if read.is_empty() { Err(TlsError::new(file, "has no certificate in it")) } else { Ok(read) }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let wrong = |problem: &str| TlsError::new(TlsFile::Key, problem);
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
        pem::Error::NoItemsFound if key.windows(9).any(|window| window == b"ENCRYPTED") => {
            wrong("is encrypted; take the passphrase off: openssl pkey -in … -out …")
        }
        pem::Error::NoItemsFound => wrong("has no private key in it"),
        error => wrong(pem_problem(&error)),
    })?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|_| wrong("has a private key that is damaged or of a kind that is not supported"))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // Not every kind of key can tell.
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => Err(wrong("is not the key of the certificate in tls_cert")),
        Err(error) => {
            Err(TlsError::new(TlsFile::Cert, format!("has a first certificate that cannot be used: {error}")))
        }
    }
}

fn verifier(
    Clients { ca, crl, is_required }: Clients<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(TlsFile::ClientCa, ca)? {
        roots.add(certificate).map_err(|error| {
            TlsError::new(TlsFile::ClientCa, format!("has a certificate that cannot vouch for others: {error}"))
        })?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if is_required { builder } else { builder.allow_unauthenticated() };
    // Where there are lists, a certificate is good only if a current list says so: one whose authority has none, or one
    // that is past its next update, is not.
    let builder = match crl {
        None => builder,
        Some(crl) => builder.with_crls(revocation_lists(crl)?).enforce_revocation_expiration(),
    };
    builder
        .build()
        .map_err(|error| TlsError::new(TlsFile::ClientCrl, format!("has a list that cannot be used: {error}")))
}

/// At least one list.
fn revocation_lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let wrong = |problem| TlsError::new(TlsFile::ClientCrl, problem);
    let read: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    let read = read.map_err(|error| wrong(pem_problem(&error)))?;
    if read.is_empty() { Err(wrong("has no list of revoked certificates in it")) } else { Ok(read) }
}

fn pem_problem(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "ends in the middle of a section",
        _ => "is not PEM",
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn pair() -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn problem(cert: &str, key: &str, ca: Option<&str>) -> (TlsFile, String) {
        let clients = ca.map(|ca| Clients { ca: ca.as_bytes(), crl: None, is_required: true });
        let error = Material::read(&Pem { cert: cert.as_bytes(), key: key.as_bytes(), clients }).unwrap_err();
        (error.file, error.problem)
    }

    #[test]
    fn a_pair_is_read_and_offers_both_versions_of_http() {
        let (cert, key) = pair();
        let material = Material::read(&Pem { cert: cert.as_bytes(), key: key.as_bytes(), clients: None }).unwrap();
        assert_eq!(material.config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
        assert!(material.not_before_s < material.not_after_s);
        assert!(material.config.send_tls13_tickets > 0, "sessions are resumed where clients are not looked at");
        let clients = Some(Clients { ca: cert.as_bytes(), crl: None, is_required: true });
        let material = Material::read(&Pem { cert: cert.as_bytes(), key: key.as_bytes(), clients }).unwrap();
        assert_eq!(material.config.send_tls13_tickets, 0);
        // A key and its certificate in one file, in either order.
        let both = format!("{key}{cert}");
        Material::read(&Pem { cert: both.as_bytes(), key: both.as_bytes(), clients: None }).unwrap();
    }

    #[test]
    fn every_mistake_has_its_sentence() {
        let (cert, key) = pair();
        let (other, _) = pair();
        let half = &cert[..cert.len() / 2];
        let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let hollow = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let hollow_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (cert, key, ca, file, expected) in [
            ("", &*key, None, TlsFile::Cert, "has no certificate in it"),
            (&key, &key, None, TlsFile::Cert, "has no certificate in it"),
            (half, &key, None, TlsFile::Cert, "ends in the middle of a section"),
            ("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n", &key, None, TlsFile::Cert, "is not PEM"),
            (hollow, &key, None, TlsFile::Cert, "has a first certificate that cannot be read"),
            (&cert, "", None, TlsFile::Key, "has no private key in it"),
            (&cert, &cert, None, TlsFile::Key, "has no private key in it"),
            (&cert, &key[..key.len() - 30], None, TlsFile::Key, "ends in the middle of a section"),
            (&cert, encrypted, None, TlsFile::Key, "is encrypted; take the passphrase off: openssl pkey -in … -out …"),
            (
                &cert,
                hollow_key,
                None,
                TlsFile::Key,
                "has a private key that is damaged or of a kind that is not supported",
            ),
            (&other, &key, None, TlsFile::Key, "is not the key of the certificate in tls_cert"),
            (&cert, &key, Some(""), TlsFile::ClientCa, "has no certificate in it"),
            (&cert, &key, Some(half), TlsFile::ClientCa, "ends in the middle of a section"),
        ] {
            assert_eq!(problem(cert, key, ca), (file, expected.to_owned()));
        }
        for (crl, expected) in [
            ("", "has no list of revoked certificates in it"),
            (&*cert, "has no list of revoked certificates in it"),
            ("-----BEGIN X509 CRL-----\nAAAA", "ends in the middle of a section"),
            ("-----BEGIN X509 CRL-----\n!\n-----END X509 CRL-----\n", "is not PEM"),
        ] {
            let clients = Some(Clients { ca: cert.as_bytes(), crl: Some(crl.as_bytes()), is_required: true });
            let error = Material::read(&Pem { cert: cert.as_bytes(), key: key.as_bytes(), clients }).unwrap_err();
            assert_eq!((error.file, &*error.problem), (TlsFile::ClientCrl, expected));
        }
        let (file, said) = problem(&cert, &key, Some(hollow));
        assert!(file == TlsFile::ClientCa && said.starts_with("has a certificate that cannot vouch"), "{said}");
    }
}
