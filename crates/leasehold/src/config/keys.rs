//! Every setting, once: its name, its range, its default, its help. A limit is called `<what>_max`. A key `ttl_max` is
//! `--ttl-max` on the command line, `LEASEHOLD_TTL_MAX` in the environment and `ttl_max` in the file.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use ipnet::IpNet;
use leasehold_server::duration::{format_us, parse_setting};
use leasehold_server::limits::METADATA_MAX_MOST;
use leasehold_server::{PARTITIONS_MAX, Partitions, Settings};

use super::SharedAddress;
use crate::logging::{self, LogFormat};
use crate::size;

const MS_US: u64 = 1_000;
const S_US: u64 = 1_000_000;
const H_US: u64 = 3600 * S_US;
const D_US: u64 = 24 * H_US;

/// One setting. All that is known of it is here: its flag, its environment variable, its key in the file, `--help`,
/// `--print-config` and the table in docs/settings.md come from it.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) rule: ValueRule,
    pub(crate) default: Default,
    /// A sentence or two, without a full stop.
    pub(crate) help: &'static str,
}

/// The value of a setting that no source names.
#[derive(Debug)]
pub(crate) enum Default {
    /// As an operator would write it.
    Text(&'static str),
    /// The server's own, which is written down there.
    Of(fn(&Settings) -> String),
    /// None, which means something of its own, in words; empty where the help says it.
    Unset(&'static str),
    /// The same, in words that name a constant.
    UnsetOf(fn() -> String),
}

/// The rule for a value.
#[derive(Debug)]
pub(crate) enum ValueRule {
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
    /// An integer that is a power of two.
    PowerOfTwo(RangeInclusive<u64>),
    /// The address of a store that several nodes share.
    SharedStore,
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

/// In the order in which they are printed.
pub(crate) static KEYS: [Key; 42] = [
    Key {
        name: "listen",
        rule: ValueRule::Address,
        default: Default::Text("127.0.0.1:8080"),
        help: "Address to listen on: host:port, or :port for every address. Port 0 takes a free one and prints it",
    },
    Key {
        name: "admin_listen",
        rule: ValueRule::Address,
        default: Default::Unset("all on one address"),
        help: "Second address, for metrics, events, dashboard and admin actions alone",
    },
    Key {
        name: "tls_cert",
        rule: ValueRule::File("a PEM file with the certificate and those that vouch for it"),
        default: Default::Unset("plain HTTP"),
        help: "Serve https:// with the certificate (and its chain) in this PEM file; it is read again when it changes",
    },
    Key {
        name: "tls_key",
        rule: ValueRule::File("a PEM file with the private key of tls_cert"),
        default: Default::Unset(""),
        help: "PEM file with the private key of that certificate",
    },
    Key {
        name: "tls_client_ca",
        rule: ValueRule::File("a PEM file with the certificates that vouch for clients"),
        default: Default::Unset(""),
        help: "Ask clients for a certificate that one in this PEM file vouches for",
    },
    Key {
        name: "tls_client_crl",
        rule: ValueRule::File("a PEM file with the lists of client certificates that were revoked"),
        default: Default::Unset(""),
        help: "PEM file with the lists of those certificates that were revoked (CRL); it is read again when it changes",
    },
    Key {
        name: "tls_client_auth",
        rule: ValueRule::ClientAuth,
        default: Default::Unset("required"),
        help: "required or optional: whether clients without one are turned away",
    },
    Key {
        name: "data",
        rule: ValueRule::Path,
        default: Default::Text("./leasehold-data"),
        help: "Directory of the journal, made if there is none",
    },
    Key {
        name: "memory",
        rule: ValueRule::Bool,
        default: Default::Text("false"),
        help: "Keep everything in memory: nothing survives the process",
    },
    Key {
        name: "store",
        rule: ValueRule::SharedStore,
        default: Default::Unset("the directory data, for one server alone"),
        help: "Be a node of a cluster that keeps its data in this shared store, etcd://h1:2379,h2:2379/prefix or postgres://user@host/database",
    },
    Key {
        name: "peer_listen",
        rule: ValueRule::Address,
        default: Default::Text("127.0.0.1:8081"),
        help: "Address on which other nodes of the cluster connect; with store only",
    },
    Key {
        name: "advertise",
        rule: ValueRule::Address,
        default: Default::Unset("peer_listen, where that names one address"),
        help: "Address at which the other nodes reach this one; every node has its own",
    },
    Key {
        name: "partitions",
        rule: ValueRule::PowerOfTwo(1..=PARTITIONS_MAX as u64),
        default: Default::UnsetOf(|| {
            format!("{} for a new cluster, else as many as it has", Partitions::DEFAULT.number())
        }),
        help: "Partitions of a new cluster, fixed for its life; of one that exists, a check that it has as many",
    },
    Key {
        name: "node_ttl",
        rule: ValueRule::Duration(S_US..=60 * S_US),
        default: Default::Text("3s"),
        help: "How long a node may be silent before the others take its partitions over; the same for all nodes",
    },
    Key {
        name: "grace",
        rule: ValueRule::Duration(0..=D_US),
        default: Default::Of(|s| format_us(s.grace_us)),
        help: "After a lock expired, how long only its last holder may come back",
    },
    Key {
        name: "default_ttl",
        rule: ValueRule::Duration(MS_US..=3650 * D_US),
        default: Default::Of(|s| format_us(s.default_ttl_us)),
        help: "The ttl of a lock whose caller names none",
    },
    Key {
        name: "ttl_max",
        rule: ValueRule::Duration(S_US..=3650 * D_US),
        default: Default::Of(|s| format_us(s.ttl_max_us)),
        help: "Longer ttls of pools and locks are cut to this",
    },
    Key {
        name: "wait_max",
        rule: ValueRule::Duration(0..=D_US),
        default: Default::Of(|s| format_us(s.wait_max_us)),
        help: "Longer waits are cut to this",
    },
    Key {
        name: "count_max",
        rule: ValueRule::Integer(1..=1_000_000),
        default: Default::Of(|s| s.count_max.to_string()),
        help: "Most slots a pool or resource may have",
    },
    Key {
        name: "timeout_max",
        rule: ValueRule::Duration(S_US..=10_000 * D_US),
        default: Default::Of(|s| format_us(s.timeout_max_us)),
        help: "Longer timeouts and ttls of claims are cut to this",
    },
    Key {
        name: "fleetlock_ttl",
        rule: ValueRule::Duration(S_US..=3650 * D_US),
        default: Default::Unset("for ever"),
        help: "How long a machine that reboots may hold its slot of a FleetLock group",
    },
    Key {
        name: "metadata_max",
        rule: ValueRule::Size(0..=METADATA_MAX_MOST as u64),
        default: Default::Of(|s| size::format(s.metadata_max as u64)),
        help: "Most metadata of a claim",
    },
    Key {
        name: "state_max",
        rule: ValueRule::Size(1 << 20..=1 << 50),
        default: Default::Unset(
            "half of what the process may use: of the machine's memory, the control group's limit or the address space, whichever is least",
        ),
        help: "Most memory that claims and resources may take; a call that would need more is refused with 503",
    },
    Key {
        name: "retain_finished",
        rule: ValueRule::Duration(0..=3650 * D_US),
        default: Default::Of(|s| format_us(s.retain_finished_us)),
        help: "How long a finished claim can still be read",
    },
    Key {
        name: "retain_max",
        rule: ValueRule::Integer(0..=10_000_000),
        default: Default::Of(|s| s.retain_max.to_string()),
        help: "Most finished claims kept, the oldest go first",
    },
    Key {
        name: "store_timeout",
        rule: ValueRule::Duration(100 * MS_US..=H_US),
        default: Default::Of(|s| format_us(s.store_timeout_us)),
        help: "How long an answer waits for the store before it becomes a 502",
    },
    Key {
        name: "connections_max",
        rule: ValueRule::Integer(1..=1_000_000),
        default: Default::Of(|s| s.http.connections_max.to_string()),
        help: "Most connections open at once",
    },
    Key {
        name: "connections_max_per_address",
        rule: ValueRule::Integer(1..=1_000_000),
        default: Default::Unset("three quarters of them all, and no limit for this machine's own"),
        help: "Most connections of one address, this machine's own included",
    },
    Key {
        name: "waiters_max",
        rule: ValueRule::Integer(0..=10_000_000),
        default: Default::Of(|s| s.waiters_max.to_string()),
        help: "Most callers waiting in queues at once",
    },
    Key {
        name: "threads",
        rule: ValueRule::Integer(1..=1_024),
        default: Default::Unset("half as many as there are processors"),
        help: "Threads that serve callers. One makes the most of a processor, more use more of them",
    },
    Key {
        name: "events_kept",
        rule: ValueRule::Integer(1_000..=10_000_000),
        default: Default::Of(|s| s.events_kept.to_string()),
        help: "Most events kept in memory for readers that come back, and for timelines",
    },
    Key {
        name: "public_url",
        rule: ValueRule::Url,
        default: Default::Unset("the host the caller used"),
        help: "Beginning of absolute URLs in answers",
    },
    Key {
        name: "trusted_proxies",
        rule: ValueRule::Networks,
        default: Default::Unset("none"),
        help: "Proxies whose X-Forwarded-For or Forwarded header is believed: addresses or networks with commas between them",
    },
    Key {
        name: "allowed_hosts",
        rule: ValueRule::Hosts,
        default: Default::Unset(""),
        help: "Host names that callers use, beside this machine's addresses and the host of the public URL. On loopback any other name is refused; elsewhere once this is set",
    },
    Key {
        name: "allow_origin",
        rule: ValueRule::Origins,
        default: Default::Unset("none"),
        help: "Origins of other sites whose web pages may call, such as https://app.example.org",
    },
    Key { name: "log_format", rule: ValueRule::LogFormat, default: Default::Text("human"), help: "human or json" },
    Key {
        name: "log_level",
        rule: ValueRule::LogFilter,
        default: Default::Text("info"),
        help: "off, error, warn, info, debug, trace, or a list such as info,leasehold_server=debug",
    },
    Key {
        name: "access_log",
        rule: ValueRule::Bool,
        default: Default::Of(|s| s.access_log.to_string()),
        help: "One line in the log for every request",
    },
    Key {
        name: "log_renewals",
        rule: ValueRule::Bool,
        default: Default::Of(|s| s.log_renewals.to_string()),
        help: "Log renewals of locks at info instead of debug",
    },
    Key {
        name: "audit_log",
        rule: ValueRule::AuditLog,
        default: Default::Unset("none"),
        help: "One JSON line for every change: the caller, its address, the action, the resource, and the outcome. To a file, which may be renamed at any time, or to stderr",
    },
    Key {
        name: "audit_required",
        rule: ValueRule::Bool,
        default: Default::Text("false"),
        help: "Change nothing that is not in the audit log first: while it cannot be written, changes are refused",
    },
    Key {
        name: "otlp_endpoint",
        rule: ValueRule::Collector,
        default: Default::Unset("nowhere"),
        help: "Where traces go, in builds with the feature otlp",
    },
];

/// Names that settings had before every limit was called `<what>_max`. They still work, as flags, in the environment
/// and in the file, and are mentioned nowhere else.
pub(crate) static EARLIER: [(&str, &str); 9] = [
    ("max_ttl", "ttl_max"),
    ("max_wait", "wait_max"),
    ("max_count", "count_max"),
    ("max_timeout", "timeout_max"),
    ("max_metadata", "metadata_max"),
    ("max_state", "state_max"),
    ("max_connections", "connections_max"),
    ("max_connections_per_address", "connections_max_per_address"),
    ("max_waiters", "waiters_max"),
];

impl Key {
    /// The key of that name, or of that earlier name.
    pub(crate) fn find(name: &str) -> Option<&'static Key> {
        let name = EARLIER.iter().find(|(earlier, _)| *earlier == name).map_or(name, |(_, now)| now);
        KEYS.iter().find(|key| key.name == name)
    }

    pub(crate) fn earlier_name(&self) -> Option<&'static str> {
        EARLIER.iter().find(|(_, now)| *now == self.name).map(|(earlier, _)| *earlier)
    }

    pub(crate) fn flag(&self) -> String {
        format!("--{}", self.name.replace('_', "-"))
    }

    /// The default as an operator would write it, if there is one.
    pub(crate) fn default_text(&self) -> Option<String> {
        match self.default {
            Default::Text(text) => Some(text.to_owned()),
            Default::Of(read) => Some(read(&Settings::default())),
            Default::Unset(_) | Default::UnsetOf(_) => None,
        }
    }

    /// The default in words, for people; `None` where there is nothing to say.
    pub(crate) fn default_words(&self) -> Option<String> {
        match self.default {
            Default::Unset(words) => Some(words.to_owned()).filter(|words| !words.is_empty()),
            Default::UnsetOf(words) => Some(words()),
            Default::Text(_) | Default::Of(_) => self.default_text(),
        }
    }

    pub(crate) fn variable(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.to_ascii_uppercase())
    }
}

/// The prefix of our environment variables.
pub(crate) const ENV_PREFIX: &str = "LEASEHOLD_";

impl ValueRule {
    /// The word that stands for the value in `--help`; `None` for a flag without one.
    pub(crate) fn value_name(&self) -> Option<&'static str> {
        Some(match self {
            ValueRule::Bool => return None,
            ValueRule::Address => "ADDRESS",
            ValueRule::Path => "DIR",
            ValueRule::File(_) => "FILE",
            ValueRule::ClientAuth => "WHETHER",
            ValueRule::Duration(_) => "DURATION",
            ValueRule::Integer(_) | ValueRule::PowerOfTwo(_) => "N",
            ValueRule::Size(_) => "SIZE",
            ValueRule::Url | ValueRule::Collector | ValueRule::SharedStore => "URL",
            ValueRule::Networks => "NETWORKS",
            ValueRule::AuditLog => "FILE|stderr",
            ValueRule::Hosts => "NAMES",
            ValueRule::Origins => "ORIGINS",
            ValueRule::LogFormat => "FORMAT",
            ValueRule::LogFilter => "LEVEL",
        })
    }
}

impl fmt::Display for ValueRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueRule::Address => f.write_str("an address such as 127.0.0.1:8080, localhost:8080 or :8080"),
            ValueRule::Path => f.write_str("a directory"),
            ValueRule::File(what) => f.write_str(what),
            ValueRule::ClientAuth => f.write_str("required or optional"),
            ValueRule::Bool => f.write_str("true or false"),
            ValueRule::Duration(range) => {
                write!(f, "a duration from {} to {}", format_us(*range.start()), format_us(*range.end()))
            }
            ValueRule::Size(range) => {
                write!(f, "a size from {} to {}", size::format(*range.start()), size::format(*range.end()))
            }
            ValueRule::Integer(range) => write!(f, "an integer from {} to {}", range.start(), range.end()),
            ValueRule::PowerOfTwo(range) => write!(f, "a power of two from {} to {}", range.start(), range.end()),
            ValueRule::SharedStore => f.write_str(
                "a shared store such as etcd://h1:2379,h2:2379,h3:2379/leasehold or postgres://user@host/database",
            ),
            ValueRule::Url => f.write_str("a URL such as https://locks.example.org, without a query"),
            ValueRule::AuditLog => f.write_str("a file, or stderr"),
            ValueRule::Networks => {
                f.write_str("addresses or networks with commas between them, such as 127.0.0.1,10.1.2.0/24")
            }
            ValueRule::Hosts => {
                f.write_str("host names such as locks.example.org, without ports, with commas between them")
            }
            ValueRule::Origins => f.write_str("origins such as https://app.example.org, with commas between them"),
            ValueRule::Collector => f.write_str("a URL such as http://localhost:4318"),
            ValueRule::LogFormat => f.write_str("human or json"),
            ValueRule::LogFilter => {
                f.write_str("off, error, warn, info, debug, trace, or a list such as info,leasehold_server=debug")
            }
        }
    }
}

/// Where to listen. Names are looked up when the socket is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

// Each reader describes the problem in words that follow the value: `"5" has no unit`.

pub(crate) fn read_address(text: &str) -> Result<ListenAddress, String> {
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
    Ok(ListenAddress { host: host.to_owned(), port })
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

pub(crate) fn read_partitions(text: &str) -> Result<Partitions, String> {
    let number = text.parse::<u32>().map_err(|_| "is not an integer, or far out of range".to_owned())?;
    Partitions::new(number).ok_or_else(|| "is no power of two, or out of range".to_owned())
}

pub(crate) fn read_shared_store(text: &str) -> Result<SharedAddress, String> {
    match text.split_once("://") {
        Some(("etcd", _)) => {
            let address = text.parse::<leasehold_etcd::Address>();
            address.map(SharedAddress::Etcd).map_err(|error| format!("cannot be used: {error}"))
        }
        Some(("postgres", _)) => {
            let address = text.parse::<leasehold_postgres::Address>();
            address.map(SharedAddress::Postgres).map_err(|error| format!("cannot be used: {error}"))
        }
        Some((scheme, _)) => Err(format!("begins with {scheme}://, which is no store that nodes can share")),
        None => Err("has no scheme, such as etcd:// or postgres://".to_owned()),
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
    if network.prefix_len() == 0 {
        Err("covers every address, so the headers of any client would be believed")
    } else {
        Ok(network)
    }
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

/// The whole sentence about a setting that this program has no use for.
pub(crate) const NO_TRACES: &str =
    "but this program was built without traces: build it with --features otlp, or leave the setting out";

/// Where traces go: plain http, as a collector is usually next door, and only where they can be made.
pub(crate) fn read_collector(text: &str) -> Result<String, String> {
    if !cfg!(feature = "otlp") {
        return Err(NO_TRACES.to_owned());
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
