//! Every setting: its name, its range, its default. A key `max_ttl` is `--max-ttl` on the command line,
//! `LEASEHOLD_MAX_TTL` in the environment and `max_ttl` in the file.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;
use leasehold_server::duration::{format_us, parse_setting};

use crate::logging::{self, LogFormat};
use crate::size;

const MS_US: u64 = 1_000;
const S_US: u64 = 1_000_000;
const H_US: u64 = 3600 * S_US;
const D_US: u64 = 24 * H_US;

/// A body of 64 KiB has to hold it, with its resource and the rest.
const METADATA_MOST: u64 = 48 << 10;

/// One setting.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    /// As an operator would write it; `None` where not set means something of its own.
    pub(crate) default: Option<&'static str>,
}

/// The rule for a value.
#[derive(Debug)]
pub(crate) enum Rule {
    /// `host:port`
    Address,
    Path,
    /// A file, and what has to be in it.
    File(&'static str),
    /// Says whether clients need a certificate.
    ClientAuth,
    Bool,
    Duration(RangeInclusive<u64>),
    Integer(RangeInclusive<u64>),
    /// A number of bytes.
    Size(RangeInclusive<u64>),
    Url,
    /// Addresses and networks.
    Networks,
    /// Where changes are written down.
    AuditLog,
    /// Names, with commas between them.
    Hosts,
    /// Where pages come from, with commas between them.
    Origins,
    /// Where traces go.
    Collector,
    LogFormat,
    LogFilter,
}

const fn key(name: &'static str, default: &'static str, rule: Rule) -> Key {
    Key { name, rule, default: Some(default) }
}

/// In the order in which they are printed.
pub(crate) static KEYS: [Key; 35] = [
    key("listen", "127.0.0.1:8080", Rule::Address),
    Key { name: "admin_listen", rule: Rule::Address, default: None },
    Key {
        name: "tls_cert",
        rule: Rule::File("a PEM file with the certificate and those that vouch for it"),
        default: None,
    },
    Key { name: "tls_key", rule: Rule::File("a PEM file with the private key of tls_cert"), default: None },
    Key {
        name: "tls_client_ca",
        rule: Rule::File("a PEM file with the certificates that vouch for clients"),
        default: None,
    },
    Key {
        name: "tls_client_crl",
        rule: Rule::File("a PEM file with the lists of client certificates that were revoked"),
        default: None,
    },
    Key { name: "tls_client_auth", rule: Rule::ClientAuth, default: None },
    key("data", "./leasehold-data", Rule::Path),
    key("memory", "false", Rule::Bool),
    key("grace", "5s", Rule::Duration(0..=D_US)),
    key("default_ttl", "30s", Rule::Duration(MS_US..=3650 * D_US)),
    key("max_ttl", "24h", Rule::Duration(S_US..=3650 * D_US)),
    key("max_wait", "5m", Rule::Duration(0..=D_US)),
    key("max_count", "1000", Rule::Integer(1..=1_000_000)),
    key("max_timeout", "720h", Rule::Duration(S_US..=10_000 * D_US)),
    key("max_metadata", "16KiB", Rule::Size(0..=METADATA_MOST)),
    Key { name: "max_state", rule: Rule::Size(1 << 20..=1 << 50), default: None },
    key("retain_finished", "24h", Rule::Duration(0..=3650 * D_US)),
    key("retain_max", "100000", Rule::Integer(0..=10_000_000)),
    key("store_timeout", "10s", Rule::Duration(100 * MS_US..=H_US)),
    key("max_connections", "16384", Rule::Integer(1..=1_000_000)),
    Key { name: "max_connections_per_address", rule: Rule::Integer(1..=1_000_000), default: None },
    key("max_waiters", "100000", Rule::Integer(0..=10_000_000)),
    Key { name: "threads", rule: Rule::Integer(1..=1_024), default: None },
    key("events_kept", "100000", Rule::Integer(1_000..=10_000_000)),
    Key { name: "public_url", rule: Rule::Url, default: None },
    Key { name: "trusted_proxies", rule: Rule::Networks, default: None },
    Key { name: "allowed_hosts", rule: Rule::Hosts, default: None },
    Key { name: "allow_origin", rule: Rule::Origins, default: None },
    key("log_format", "human", Rule::LogFormat),
    key("log_level", "info", Rule::LogFilter),
    key("access_log", "false", Rule::Bool),
    Key { name: "audit_log", rule: Rule::AuditLog, default: None },
    key("audit_required", "false", Rule::Bool),
    Key { name: "otlp_endpoint", rule: Rule::Collector, default: None },
];

impl Key {
    pub(crate) fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    pub(crate) fn variable(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.to_ascii_uppercase())
    }
}

/// The prefix of our environment variables.
pub(crate) const ENV_PREFIX: &str = "LEASEHOLD_";

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Address => f.write_str("an address such as 127.0.0.1:8080, localhost:8080 or :8080"),
            Rule::Path => f.write_str("a directory"),
            Rule::File(what) => f.write_str(what),
            Rule::ClientAuth => f.write_str("required or optional"),
            Rule::Bool => f.write_str("true or false"),
            Rule::Duration(range) => {
                write!(f, "a duration from {} to {}", format_us(*range.start()), format_us(*range.end()))
            }
            Rule::Size(range) => {
                write!(f, "a size from {} to {}", size::format(*range.start()), size::format(*range.end()))
            }
            Rule::Integer(range) => write!(f, "an integer from {} to {}", range.start(), range.end()),
            Rule::Url => f.write_str("a URL such as https://locks.example.org, without a query"),
            Rule::AuditLog => f.write_str("a file, or stderr"),
            Rule::Networks => {
                f.write_str("addresses or networks with commas between them, such as 127.0.0.1,10.1.2.0/24")
            }
            Rule::Hosts => f.write_str("host names such as locks.example.org, without ports, with commas between them"),
            Rule::Origins => f.write_str("origins such as https://app.example.org, with commas between them"),
            Rule::Collector => f.write_str("a URL such as http://localhost:4318"),
            Rule::LogFormat => f.write_str("human or json"),
            Rule::LogFilter => {
                f.write_str("off, error, warn, info, debug, trace, or a list such as info,leasehold_server=debug")
            }
        }
    }
}

/// Where to listen. Names are looked up when the socket is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

// Each reader describes the problem in words that follow the value: `"5" has no unit`.

pub(crate) fn read_address(text: &str) -> Result<Address, String> {
    let Some((host, port)) = text.rsplit_once(':') else { return Err("has no port".to_owned()) };
    let port = port.parse().map_err(|_| "has a port that is not a number from 0 to 65535".to_owned())?;
    let host = match host {
        // Every address of this machine.
        "" => "0.0.0.0",
        bracketed if bracketed.starts_with('[') && bracketed.ends_with(']') => &bracketed[1..bracketed.len() - 1],
        bare if bare.contains(':') => return Err("has an IPv6 address without [ ] around it".to_owned()),
        bare if bare.contains(['/', ' ']) => return Err("is not a host and a port".to_owned()),
        bare => bare,
    };
    Ok(Address { host: host.to_owned(), port })
}

pub(crate) fn read_file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("names no file".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Returns whether a client without a certificate is turned away.
pub(crate) fn read_client_auth(text: &str) -> Result<bool, String> {
    match text {
        "required" => Ok(true),
        "optional" => Ok(false),
        _ => Err("is neither".to_owned()),
    }
}

pub(crate) fn read_bool(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("is neither".to_owned()),
    }
}

pub(crate) fn read_duration(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let duration_us = parse_setting(text).map_err(|error| error.to_string())?;
    if range.contains(&duration_us) { Ok(duration_us) } else { Err("is out of range".to_owned()) }
}

pub(crate) fn read_integer(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(value) if range.contains(&value) => Ok(value),
        Ok(_) => Err("is out of range".to_owned()),
        Err(_) => Err("is not an integer, or far out of range".to_owned()),
    }
}

pub(crate) fn read_size(text: &str, range: &RangeInclusive<u64>) -> Result<u64, String> {
    let bytes = size::parse(text)?;
    if range.contains(&bytes) { Ok(bytes) } else { Err("is out of range".to_owned()) }
}

/// Without the slash at its end, as paths are appended.
pub(crate) fn read_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else { return Err("begins with neither http:// nor https://".to_owned()) };
    let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'<' && byte != b'>');
    if rest.is_empty() || rest.starts_with('/') {
        Err("has no host".to_owned())
    } else if !visible || rest.contains(['?', '#', '@']) {
        Err("has characters that do not belong there".to_owned())
    } else {
        Ok(text.trim_end_matches('/').to_owned())
    }
}

/// Where the audit log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuditTo {
    Stderr,
    File(PathBuf),
}

pub(crate) fn read_audit_log(text: &str) -> Result<AuditTo, String> {
    match text {
        "" => Err("names no file".to_owned()),
        "stderr" => Ok(AuditTo::Stderr),
        path => Ok(AuditTo::File(PathBuf::from(path))),
    }
}

/// Each of a list. The whole world is a mistake: any client could then name any address.
pub(crate) fn read_networks(text: &str) -> Result<Vec<IpNet>, String> {
    text.split(',').map(|part| read_network(part.trim()).map_err(str::to_owned)).collect()
}

pub(crate) fn read_network(text: &str) -> Result<IpNet, &'static str> {
    let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let network = network.map_err(|_| "is neither an address nor a network")?;
    if network.prefix_len() == 0 { Err("is the whole world, and so would be anybody's headers") } else { Ok(network) }
}

/// Names without ports, in lower case.
pub(crate) fn read_hosts(text: &str) -> Result<Vec<String>, String> {
    let read = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
        if name.is_empty() {
            Err("has a name that is empty".to_owned())
        } else if !name.bytes().all(is_name) {
            Err(format!("has {name:?}, which is no host name"))
        } else {
            Ok(name)
        }
    };
    text.split(',').map(read).collect()
}

/// Each as browsers write it: `scheme://host[:port]`, in lower case and without a slash.
pub(crate) fn read_origins(text: &str) -> Result<Vec<String>, String> {
    let read = |origin: &str| {
        let origin = origin.trim().to_ascii_lowercase();
        if origin == "*" {
            return Err("has *, name each origin that may call".to_owned());
        }
        let url = read_url(&origin).map_err(|problem| format!("has {origin:?}, which {problem}"))?;
        let authority = url.split_once("://").map_or("", |(_, authority)| authority);
        if authority.contains('/') { Err(format!("has {origin:?}, which has a path")) } else { Ok(url) }
    };
    text.split(',').map(read).collect()
}

/// Where traces go: plain http, as a collector is usually next door, and only where they can be made.
pub(crate) fn read_collector(text: &str) -> Result<String, String> {
    if !cfg!(feature = "otlp") {
        return Err("is of no use, as this program was built without the feature otlp".to_owned());
    }
    if text.starts_with("https://") {
        return Err("begins with https://, send traces to a collector nearby".to_owned());
    }
    read_url(text)
}

pub(crate) fn read_log_format(text: &str) -> Result<LogFormat, String> {
    LogFormat::parse(text).ok_or_else(|| "is neither".to_owned())
}

pub(crate) fn read_log_filter(text: &str) -> Result<String, String> {
    if logging::is_filter(text) { Ok(text.to_owned()) } else { Err("is none of these".to_owned()) }
}
