//! The parts that addresses of stores share: `h1:2379,[::1]:2379` and `?option=value&…`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use thiserror::Error;

/// The most hosts of an address.
pub const HOSTS_MAX: usize = 16;
const HOST_BYTES_MAX: usize = 253;
const QUOTA_MIN_BYTES: u64 = 16 << 20;
const QUOTA_MAX_BYTES: u64 = 1 << 40;

/// A kind of store, for the sentences about its addresses.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// With its article: `an etcd store`.
    pub store: &'static str,
    /// An address that is right.
    pub example: &'static str,
    /// The port where none is given.
    pub port: u16,
    /// All options, for the sentence about one that is not known.
    pub options: &'static str,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port for clients.
    pub port: u16,
}

/// The files of TLS. Without a CA file, the certificates count that the system trusts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Authorities of the server's certificate.
    pub ca: Option<PathBuf>,
    /// Our certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

/// The part of an address that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct AddressError(String);

/// An error with this sentence.
pub fn wrong<T>(sentence: impl Into<String>) -> Result<T, AddressError> {
    Err(AddressError(sentence.into()))
}

/// Reads `host`, `host:port` or `[address]:port`.
pub fn endpoint(kind: &Kind, text: &str) -> Result<Endpoint, AddressError> {
    let Kind { store, example, port: default, .. } = kind;
    if text.is_empty() {
        return wrong(format!("{store} has a host without a name; write {example}"));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) if port.starts_with(':') => (host, Some(&port[1..])),
            _ => return wrong(format!("the host {text:?} has a bracket that is not closed, as in [::1]:{default}")),
        },
        None if text.matches(':').count() > 1 => {
            return wrong(format!("the host {text:?} is an IPv6 address; put it into brackets, as in [::1]:{default}"));
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let is_named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    if host.is_empty() || host.len() > HOST_BYTES_MAX || !host.chars().all(is_named) {
        return wrong(format!("the host {text:?} is no name and no address"));
    }
    let port = match port {
        None => *default,
        Some(port) => match port.parse() {
            Ok(number) if number > 0 && port.bytes().all(|byte| byte.is_ascii_digit()) => number,
            _ => return wrong(format!("the port of the host {text:?} is not in 1…65535")),
        },
    };
    Ok(Endpoint { host: host.to_owned(), port })
}

/// Checks that there are at most [`HOSTS_MAX`] hosts, each named once.
pub fn distinct<T: PartialEq + fmt::Display>(kind: &Kind, hosts: Vec<T>) -> Result<Vec<T>, AddressError> {
    if hosts.len() > HOSTS_MAX {
        return wrong(format!("{} has {} hosts; at most {HOSTS_MAX} are used", kind.store, hosts.len()));
    }
    match hosts.iter().enumerate().find(|(at, one)| hosts[..*at].contains(one)) {
        Some((_, twice)) => wrong(format!("the host {twice} is named twice")),
        None => Ok(hosts),
    }
}

/// Undoes percent-encoding.
pub fn decoded(what: &str, text: &str) -> Result<String, AddressError> {
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) if !decoded.contains('\0') => Ok(decoded.into_owned()),
        _ => wrong(format!("the {what} is not UTF-8 without zero bytes: {text:?}")),
    }
}

/// The options of an address, taken out one by one.
#[derive(Debug)]
pub struct Options {
    kind: &'static Kind,
    values: BTreeMap<String, String>,
}

impl Options {
    /// Reads what stands after the question mark.
    pub fn parse(kind: &'static Kind, query: &str) -> Result<Options, AddressError> {
        let mut values = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return wrong(format!("the option {pair:?} has no value; write {pair}=…"));
            };
            let value = decoded(&format!("value of the option {name:?}"), value)?;
            if value.is_empty() {
                return wrong(format!("the option {name:?} is empty"));
            }
            if values.insert(name.to_owned(), value).is_some() {
                return wrong(format!("the option {name:?} is given twice"));
            }
        }
        Ok(Options { kind, values })
    }

    /// Takes an option out.
    pub fn take(&mut self, name: &str) -> Option<String> {
        self.values.remove(name)
    }

    /// The options `ca`, `cert`, `key` and `tls`.
    pub fn tls(&mut self) -> Result<Option<TlsFiles>, AddressError> {
        let ca = self.take("ca").map(PathBuf::from);
        let own = match (self.take("cert"), self.take("key")) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((PathBuf::from(cert), PathBuf::from(key))),
            (Some(_), None) => return wrong("the option \"cert\" needs \"key\", the file of its private key"),
            (None, Some(_)) => return wrong("the option \"key\" needs \"cert\", the file of its certificate"),
        };
        let has_files = ca.is_some() || own.is_some();
        match self.take("tls").as_deref() {
            Some("off") if has_files => wrong("the options \"ca\", \"cert\" and \"key\" are for TLS, and tls=off"),
            Some("off") => Ok(None),
            None if !has_files => Ok(None),
            Some("on") | None => Ok(Some(TlsFiles { ca, own })),
            Some(other) => wrong(format!("the option \"tls\" is {other:?}; it can be on or off")),
        }
    }

    /// The option `quota`.
    pub fn quota_bytes(&mut self) -> Result<Option<u64>, AddressError> {
        let Some(text) = self.take("quota") else { return Ok(None) };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_bytes = match unit {
            "" => Some(1),
            "MiB" => Some(1 << 20),
            "GiB" => Some(1 << 30),
            _ => None,
        };
        let bytes = unit_bytes.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit));
        match bytes {
            Some(bytes) if (QUOTA_MIN_BYTES..=QUOTA_MAX_BYTES).contains(&bytes) => Ok(Some(bytes)),
            _ => wrong(format!("the option \"quota\" is {text:?}; it can be 16MiB to 1024GiB, or as many bytes")),
        }
    }

    /// An option that is left now is not known.
    pub fn finish(self) -> Result<(), AddressError> {
        let Kind { store, options, .. } = self.kind;
        match self.values.into_keys().next() {
            Some(unknown) => wrong(format!("{store} has no option {unknown:?}; it has {options}")),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Endpoint { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}
