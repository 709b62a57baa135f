//! The certificates that are trusted, and the one that is shown.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::address::TlsFiles;
use crate::error::EtcdRefusal;

/// HTTP/2, which gRPC needs.
const ALPN: &[u8] = b"h2";

pub(super) fn load(files: &TlsFiles) -> Result<Arc<ClientConfig>, EtcdRefusal> {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions it comes with")
        .with_root_certificates(roots(files)?);
    let mut config = match &files.own {
        None => builder.with_no_client_auth(),
        Some((cert, key)) => {
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong("key", key, &error))?;
            let chain = chain("certificate", cert)?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| wrong("certificate", cert, &error))?
        }
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, EtcdRefusal> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(ca) => {
            for certificate in chain("CA file", ca)? {
                roots.add(certificate).map_err(|error| wrong("CA file", ca, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

fn chain(what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, EtcdRefusal> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(what, path, &error))?;
    if chain.is_empty() { Err(wrong(what, path, &"there is no certificate in it")) } else { Ok(chain) }
}

fn wrong(what: &str, path: &Path, error: &dyn Display) -> EtcdRefusal {
    EtcdRefusal::Setting(format!("the {what} {} cannot be used: {error}", path.display()))
}
