//! Certificates for tests of TLS.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

/// An authority, and the files of the certificates that it signed: `ca.pem`, and `<name>.pem` with `<name>.key`.
#[derive(Debug)]
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// An authority of this name.
    ///
    /// # Panics
    /// When its files cannot be written.
    pub fn new(name: &str) -> Authority {
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().expect("a key"));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let dir = TempDir::new().expect("a directory for certificates");
        let own = params.self_signed(&key).expect("it signs itself");
        fs::write(dir.path().join("ca.pem"), own.pem()).expect("a file");
        Authority { dir, issuer: Issuer::new(params, key) }
    }

    /// A file of it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Signs a certificate of this name for clients, and for servers at 127.0.0.1.
    ///
    /// # Panics
    /// When its files cannot be written.
    pub fn sign(&self, name: &str) {
        let (mut params, key) = (CertificateParams::default(), KeyPair::generate().expect("a key"));
        params.distinguished_name.push(DnType::CommonName, name);
        params.subject_alt_names = vec![SanType::IpAddress("127.0.0.1".parse().expect("an address"))];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let signed = params.signed_by(&key, &self.issuer).expect("it signs others");
        fs::write(self.file(&format!("{name}.pem")), signed.pem()).expect("a file");
        fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).expect("a file");
    }
}
