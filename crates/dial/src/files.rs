//! Files that an address names: passwords and certificates.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use crate::address::TlsFiles;

const PASSWORD_BYTES_MAX: usize = 4096;

/// A file that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct FileError(String);

/// The password in the first line of a file.
pub fn first_line(file: &Path) -> Result<String, FileError> {
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| FileError(format!("the password file {shown} cannot be read: {error}")))?;
    let password = text.lines().next().unwrap_or_default();
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        let bytes = password.len();
        return Err(FileError(format!(
            "the first line of the password file {shown} has {bytes} bytes; a password has 1 to {PASSWORD_BYTES_MAX}"
        )));
    }
    Ok(password.to_owned())
}

/// The certificates that are trusted, and the one that is shown.
pub fn tls_config(files: &TlsFiles) -> Result<ClientConfig, FileError> {
    let builder = ClientConfig::builder_with_provider(default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions it comes with")
        .with_root_certificates(roots(files)?);
    match &files.own {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("key", key, &error))?;
            let chain = chain("certificate", cert)?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| unusable("certificate", cert, &error))
        }
    }
}

fn roots(files: &TlsFiles) -> Result<RootCertStore, FileError> {
    let mut roots = RootCertStore::empty();
    match &files.ca {
        Some(ca) => {
            for certificate in chain("CA file", ca)? {
                roots.add(certificate).map_err(|error| unusable("CA file", ca, &error))?;
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

fn chain(what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let chain = chain.map_err(|error| unusable(what, path, &error))?;
    if chain.is_empty() { Err(unusable(what, path, &"there is no certificate in it")) } else { Ok(chain) }
}

fn unusable(what: &str, path: &Path, error: &dyn Display) -> FileError {
    FileError(format!("the {what} {} cannot be used: {error}", path.display()))
}
