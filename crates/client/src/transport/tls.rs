//! The certificates that a client trusts, and the one it shows.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::error::Error;

/// The files of TLS. Without a CA file, the certificates count that the system trusts.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

impl TlsFiles {
    pub(crate) fn load(&self) -> Result<Arc<ClientConfig>, Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider knows the versions it comes with")
            .with_root_certificates(self.roots()?);
        let config = match (&self.cert, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong("key", key, &error))?;
                builder
                    .with_client_auth_cert(chain(cert)?, secret)
                    .map_err(|error| wrong("certificate", cert, &error))?
            }
            (Some(_), None) => return Err(Error::Setting("a client certificate needs its key".into())),
            (None, Some(_)) => return Err(Error::Setting("a client key needs its certificate".into())),
        };
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        match &self.ca {
            Some(ca) => {
                for certificate in chain(ca)? {
                    roots.add(certificate).map_err(|error| wrong("CA file", ca, &error))?;
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        Ok(roots)
    }
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong("certificate", path, &error))?;
    if chain.is_empty() {
        return Err(wrong("certificate", path, &"there is no certificate in it"));
    }
    Ok(chain)
}

fn wrong(what: &str, path: &Path, error: &dyn Display) -> Error {
    Error::Setting(format!("the {what} \"{}\" cannot be used: {error}", path.display()))
}
