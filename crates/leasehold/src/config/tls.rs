//! The five settings of TLS, as the files they name. The files are read when they are served with, so that commands
//! that only need the configuration need no right to read a private key.

use std::path::PathBuf;

use super::{Chosen, Config, ConfigError, keys};

/// The files TLS is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) cert: NamedFile,
    pub(crate) key: NamedFile,
    pub(crate) clients: Option<ClientFiles>,
}

/// The requirements on clients' certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientFiles {
    pub(crate) ca: NamedFile,
    /// The revoked certificates.
    pub(crate) crl: Option<NamedFile>,
    /// `true` if a client without a certificate is turned away.
    pub(crate) is_required: bool,
}

/// A file, and its setting, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) path: PathBuf,
    key: &'static str,
    source: String,
}

impl NamedFile {
    /// `tls_cert must be …, but "x.pem" …`; `problem` follows the name of the file.
    pub(crate) fn wrong(&self, problem: impl std::fmt::Display) -> ConfigError {
        let rule = &keys::Key::find(self.key).expect("it was found by its key").rule;
        let (key, path, source) = (self.key, self.path.display(), &self.source);
        ConfigError::new(format!("{key} must be {rule}, but \"{path}\" {problem} ({source})"))
    }
}

impl Chosen {
    /// All of them or none: half of TLS is a mistake, and plain HTTP in its place would be a worse one.
    pub(super) fn tls(&self) -> Result<Option<TlsFiles>, ConfigError> {
        let clients = self.file("tls_client_ca")?;
        let crl = self.file("tls_client_crl")?;
        let is_required = self.optional("tls_client_auth", keys::read_client_auth)?;
        let needs = |name: &str, other: &str| {
            let (_, given) = self.entry(name);
            let source = given.as_ref().map_or_else(String::new, |given| format!(" ({})", given.source));
            Err(ConfigError::new(format!("{name} is of no use without {other}{source}")))
        };
        if clients.is_none() && crl.is_some() {
            return needs("tls_client_crl", "tls_client_ca");
        }
        let (cert, key) = match (self.file("tls_cert")?, self.file("tls_key")?) {
            (Some(cert), Some(key)) => (cert, key),
            (Some(_), None) => return needs("tls_cert", "tls_key, the file with its private key"),
            (None, Some(_)) => return needs("tls_key", "tls_cert, the file with the certificate"),
            (None, None) if clients.is_some() => return needs("tls_client_ca", "tls_cert and tls_key"),
            (None, None) if is_required.is_some() => return needs("tls_client_auth", "tls_client_ca"),
            (None, None) => return Ok(None),
        };
        let clients = match clients {
            Some(ca) => Some(ClientFiles { ca, crl, is_required: is_required.unwrap_or(true) }),
            None if is_required.is_some() => return needs("tls_client_auth", "tls_client_ca"),
            None => None,
        };
        Ok(Some(TlsFiles { cert, key, clients }))
    }

    fn file(&self, name: &'static str) -> Result<Option<NamedFile>, ConfigError> {
        let path = self.optional(name, keys::read_file)?;
        let source = self.entry(name).1.as_ref().map_or_else(String::new, |given| given.source.to_string());
        Ok(path.map(|path| NamedFile { path, key: name, source }))
    }
}

impl Config {
    /// The scheme of this server's URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns whether clients need a certificate that a known authority signed.
    pub(crate) fn requires_certificates(&self) -> bool {
        let clients = self.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        clients.is_some_and(|clients| clients.is_required)
    }
}

/// Warnings about settings that belong together and are incomplete.
pub(super) fn warnings(config: &Config) -> impl Iterator<Item = &'static str> + use<> {
    let clients = config.tls.as_ref().and_then(|tls| tls.clients.as_ref());
    let names_by_certificate = config.sign_on.as_ref().is_some_and(|sign_on| sign_on.certificates.is_some());
    let nobody_shows_one = names_by_certificate && clients.is_none();
    let nobody_looks = !names_by_certificate && clients.is_some_and(|clients| !clients.is_required);
    let none = nobody_shows_one.then_some(
        "auth.certificates is of no use without tls_client_ca: no client is asked for a certificate, so none shows one",
    );
    let unread = nobody_looks.then_some(
        "clients may show certificates (tls_client_auth is optional), but nothing depends on it: \
         [auth.certificates] would make them names",
    );
    none.into_iter().chain(unread)
}
