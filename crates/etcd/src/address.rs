//! The address of a store, `etcd://h1:2379,h2:2379/prefix?option=value`: parsed once, with a sentence for whatever is
//! wrong in it. No password is part of it, as command lines can be read by others.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub use leasehold_dial::{AddressError, Endpoint, TlsFiles};
use leasehold_dial::{Kind, Options, distinct, endpoint, wrong};

pub(crate) const SCHEME: &str = "etcd://";
const PREFIX_BYTES_MAX: usize = 128;
const QUOTA_DEFAULT_BYTES: u64 = 2 << 30;
const KIND: Kind = Kind {
    store: "an etcd store",
    example: "etcd://h1:2379,h2:2379/prefix",
    port: 2379,
    options: "ca, cert, compact, key, password-file, quota, tls, user",
};

/// One store: where etcd is, and which keys are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Members, or whatever leads to them. Tried in turn.
    pub endpoints: Vec<Endpoint>,
    /// In front of every key, with a slash at its beginning and none at its end.
    pub prefix: String,
    /// The files of TLS; `None` for plain connections.
    pub tls: Option<TlsFiles>,
    /// The user to authenticate as.
    pub user: Option<User>,
    /// True if the store compacts etcd's history. It concerns all keys of an etcd, so an etcd that is shared with
    /// others may not want it.
    pub compacts: bool,
    /// The size of etcd's file at which the store is full. The operator's `--quota-backend-bytes`, which 3.4 and 3.5
    /// do not tell.
    pub quota_bytes: u64,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// The file with its password, which ends with the first line.
    pub password_file: PathBuf,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some(rest) = text.strip_prefix(SCHEME) else {
            return wrong(format!("an etcd store begins with {SCHEME}, as in {}", KIND.example));
        };
        if rest.contains('#') {
            return wrong("an etcd store has no fragment; write # as %23");
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        if hosts.contains('@') {
            return wrong(
                "an etcd store names its user as ?user=NAME&password-file=FILE, not before the hosts, so that no \
                 password is in a list of processes",
            );
        }
        let endpoints = hosts.split(',').map(|text| endpoint(&KIND, text)).collect::<Result<Vec<_>, _>>()?;
        let mut options = Options::parse(&KIND, query)?;
        let address = Address {
            endpoints: distinct(&KIND, endpoints)?,
            prefix: prefix(path)?,
            tls: options.tls()?,
            user: user(&mut options)?,
            compacts: compacts(options.take("compact").as_deref())?,
            quota_bytes: options.quota_bytes()?.unwrap_or(QUOTA_DEFAULT_BYTES),
        };
        options.finish()?;
        Ok(address)
    }
}

fn prefix(path: &str) -> Result<String, AddressError> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return wrong(format!("an etcd store needs a prefix for its keys, as in {SCHEME}h1:2379/leasehold"));
    }
    if path.len() > PREFIX_BYTES_MAX {
        return wrong(format!("the prefix has {} bytes; at most {PREFIX_BYTES_MAX} are allowed", path.len()));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if path.split('/').any(|part| part.is_empty() || !part.chars().all(is_allowed)) {
        return wrong(format!(
            "the prefix {path:?} has something else in it than letters, digits, \".\", \"-\" and \"_\", in parts that \
             single slashes divide"
        ));
    }
    Ok(format!("/{path}"))
}

fn user(options: &mut Options) -> Result<Option<User>, AddressError> {
    match (options.take("user"), options.take("password-file")) {
        (None, None) => Ok(None),
        (Some(name), Some(file)) => Ok(Some(User { name, password_file: PathBuf::from(file) })),
        (Some(_), None) => {
            wrong("the option \"user\" needs \"password-file\"; a user known by its certificate needs neither")
        }
        (None, Some(_)) => wrong("the option \"password-file\" needs \"user\""),
    }
}

fn compacts(option: Option<&str>) -> Result<bool, AddressError> {
    match option {
        None | Some("auto") => Ok(true),
        Some("never") => Ok(false),
        Some(other) => wrong(format!("the option \"compact\" is {other:?}; it can be auto or never")),
    }
}

/// The hosts and the prefix, as in the address.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{endpoint}", if at == 0 { "" } else { "," })?;
        }
        f.write_str(&self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn everything_an_address_can_say() {
        let address = parse(
            "etcd://h1:2379,h2,[::1]:70/prod/lease-hold/?ca=/etc/ca%20x.pem&cert=c.pem&key=k.pem&user=lease%26\
             &password-file=/p&compact=never&quota=8GiB",
        );
        let endpoint = |host: &str, port| Endpoint { host: host.to_owned(), port };
        assert_eq!(address.endpoints, [endpoint("h1", 2379), endpoint("h2", 2379), endpoint("::1", 70)]);
        assert_eq!(address.prefix, "/prod/lease-hold");
        let tls = address.tls.clone().unwrap();
        assert_eq!(tls.ca.unwrap(), PathBuf::from("/etc/ca x.pem"));
        assert_eq!(tls.own.unwrap(), (PathBuf::from("c.pem"), PathBuf::from("k.pem")));
        assert_eq!(address.user.clone().unwrap().name, "lease&");
        assert!(!address.compacts);
        assert_eq!(address.quota_bytes, 8 << 30);
        assert_eq!(address.to_string(), "etcd://h1:2379,h2:2379,[::1]:70/prod/lease-hold");
    }

    #[test]
    fn the_least_an_address_must_say() {
        let address = parse("etcd://localhost/x");
        assert_eq!(address.to_string(), "etcd://localhost:2379/x");
        assert_eq!((address.tls, address.user, address.compacts), (None, None, true));
        assert_eq!(address.quota_bytes, 2 << 30);
        assert_eq!(parse("etcd://h/x?tls=on").tls, Some(TlsFiles::default()));
        assert_eq!(parse("etcd://h/x?tls=off").tls, None);
        assert_eq!(parse("etcd://h/x?quota=16777216").quota_bytes, 16 << 20);
        assert_eq!(parse("etcd://h/x?quota=1024GiB").quota_bytes, 1 << 40);
        assert_eq!(parse(&format!("etcd://h/{}", "p".repeat(128))).prefix.len(), 129);
        assert_eq!(parse(&format!("etcd://{}/x", hosts(16))).endpoints.len(), 16);
    }

    fn hosts(count: usize) -> String {
        (0..count).map(|n| format!("h{n}")).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn a_sentence_for_each_wrong_part() {
        for (text, words) in [
            ("http://h/x", "begins with etcd://"),
            ("etcd://h", "needs a prefix"),
            ("etcd://h/", "needs a prefix"),
            ("etcd:///x", "a host without a name"),
            ("etcd://a,,b/x", "a host without a name"),
            ("etcd://a,a:2379/x", "named twice"),
            ("etcd://u:p@h/x", "password-file=FILE"),
            ("etcd://h:0/x", "not in 1…65535"),
            ("etcd://h:65536/x", "not in 1…65535"),
            ("etcd://h:+1/x", "not in 1…65535"),
            ("etcd://h:/x", "not in 1…65535"),
            ("etcd://::1/x", "put it into brackets"),
            ("etcd://[::1/x", "not closed"),
            ("etcd://h h/x", "no name and no address"),
            ("etcd://h/a//b", "single slashes"),
            ("etcd://h/a%2f", "letters, digits"),
            ("etcd://h/ä", "letters, digits"),
            ("etcd://h/x#y", "no fragment"),
            ("etcd://h/x?colour=red", "no option \"colour\""),
            ("etcd://h/x?quota", "has no value"),
            ("etcd://h/x?ca=", "is empty"),
            ("etcd://h/x?ca=%ff", "not UTF-8"),
            ("etcd://h/x?ca=a&ca=b", "given twice"),
            ("etcd://h/x?cert=a", "needs \"key\""),
            ("etcd://h/x?key=a", "needs \"cert\""),
            ("etcd://h/x?tls=yes", "on or off"),
            ("etcd://h/x?tls=off&ca=a", "tls=off"),
            ("etcd://h/x?user=a", "needs \"password-file\""),
            ("etcd://h/x?password-file=a", "needs \"user\""),
            ("etcd://h/x?compact=sometimes", "auto or never"),
            ("etcd://h/x?quota=16777215", "16MiB to 1024GiB"),
            ("etcd://h/x?quota=1025GiB", "16MiB to 1024GiB"),
            ("etcd://h/x?quota=99999999999999999999GiB", "16MiB to 1024GiB"),
            ("etcd://h/x?quota=2TB", "16MiB to 1024GiB"),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let error = format!("etcd://h/{}", "p".repeat(129)).parse::<Address>().unwrap_err().to_string();
        assert!(error.contains("129 bytes; at most 128"), "{error}");
        let error = format!("etcd://{}/x", hosts(17)).parse::<Address>().unwrap_err().to_string();
        assert!(error.contains("17 hosts; at most 16"), "{error}");
    }
}
