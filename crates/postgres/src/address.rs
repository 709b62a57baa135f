//! The address of a store, `postgres://user@h1:5432,h2:5432/database?option=value`: parsed once, with a sentence for
//! whatever is wrong in it. No password is part of it, as command lines can be read by others.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

pub use leasehold_dial::{AddressError, TlsFiles};
use leasehold_dial::{Endpoint, Kind, Options, decoded, distinct, endpoint, wrong};

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// PostgreSQL cuts longer names off.
const NAME_BYTES_MAX: usize = 63;
const SCHEMA_DEFAULT: &str = "leasehold";
const KIND: Kind = Kind {
    store: "a PostgreSQL store",
    example: "postgres://user@host:5432/database",
    port: 5432,
    options: "ca, cert, host, key, passfile, password-file, quota, schema, tls",
};
const EXAMPLE: &str = KIND.example;

/// One store: where PostgreSQL is, and which tables are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The primary, or it and its standbys. The one that takes writes is used.
    pub hosts: Vec<Host>,
    /// The user to connect as.
    pub user: String,
    /// The database.
    pub database: String,
    /// The schema with our tables; nothing else is in it.
    pub schema: String,
    /// The files of TLS; `None` for plain connections.
    pub tls: Option<TlsFiles>,
    /// Where the password is.
    pub password: Password,
    /// The size of our tables at which the store is full; `None` when only the disk says so.
    pub quota_bytes: Option<u64>,
}

/// A place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name or an address, without brackets, and a port.
    Tcp(String, u16),
    /// The directory of a unix socket, and the port in the socket's name.
    Unix(PathBuf, u16),
}

/// Where the password is. Files are read at every connect, so that a password can be changed while nodes run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Password {
    /// In the file that `PGPASSFILE` names, if it is set; otherwise there is none.
    #[default]
    Environment,
    /// The first line of this file.
    File(PathBuf),
    /// A line of this file that fits: `host:port:database:user:password`, as psql reads it.
    PassFile(PathBuf),
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let Some(rest) = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) else {
            return wrong(format!("a PostgreSQL store begins with {}, as in {EXAMPLE}", SCHEMES[0]));
        };
        if rest.contains('#') {
            return wrong("a PostgreSQL store has no fragment; write # as %23");
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let Some((authority, database)) = place.split_once('/') else {
            return wrong(format!("a PostgreSQL store names its database, as in {EXAMPLE}"));
        };
        let Some((user, hosts)) = authority.rsplit_once('@') else {
            return wrong(format!("a PostgreSQL store names its user, as in {EXAMPLE}"));
        };
        if user.contains(':') {
            return wrong(
                "a PostgreSQL store has no password in it, as lists of processes show it; put it into a file and write \
                 ?password-file=FILE",
            );
        }
        let mut options = Options::parse(&KIND, query)?;
        if options.take("password").is_some() {
            return wrong("a PostgreSQL store has no password in it; put it into a file and write ?password-file=FILE");
        }
        let address = Address {
            hosts: distinct(&KIND, hosts_of(hosts, options.take("host"))?)?,
            user: name("user", user)?,
            database: name("database", database)?,
            schema: schema(options.take("schema"))?,
            tls: options.tls()?,
            password: password(&mut options)?,
            quota_bytes: options.quota_bytes()?,
        };
        options.finish()?;
        if address.tls.is_some() && address.hosts.iter().any(|host| matches!(host, Host::Unix(..))) {
            return wrong("TLS is for hosts, and a unix socket has none; leave the options of TLS out");
        }
        Ok(address)
    }
}

fn hosts_of(text: &str, option: Option<String>) -> Result<Vec<Host>, AddressError> {
    match option {
        None => text.split(',').map(host).collect(),
        Some(directory) if directory.starts_with('/') && (text.is_empty() || text.starts_with(':')) => {
            Ok(vec![unix(directory, text)?])
        }
        Some(other) => wrong(format!(
            "the option \"host\" is {other:?}; it is the directory of a unix socket, and no host stands before the \
             database: postgres://user@/database?host=/run/postgresql"
        )),
    }
}

fn host(text: &str) -> Result<Host, AddressError> {
    if text.to_ascii_lowercase().starts_with("%2f") {
        let (directory, port) = text.split_at(text.find(':').unwrap_or(text.len()));
        return unix(decoded("host", directory)?, port);
    }
    let Endpoint { host, port } = endpoint(&KIND, text)?;
    Ok(Host::Tcp(host, port))
}

/// A socket, with nothing or `:port` behind its directory.
fn unix(directory: String, port: &str) -> Result<Host, AddressError> {
    let Endpoint { port, .. } = endpoint(&KIND, &format!("socket{port}"))?;
    Ok(Host::Unix(PathBuf::from(directory), port))
}

fn name(what: &str, text: &str) -> Result<String, AddressError> {
    let name = decoded(what, text)?;
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return wrong(format!(
            "the {what} has {} bytes; 1 to {NAME_BYTES_MAX} are allowed, as in {EXAMPLE}",
            name.len()
        ));
    }
    Ok(name)
}

fn schema(option: Option<String>) -> Result<String, AddressError> {
    let schema = option.unwrap_or_else(|| SCHEMA_DEFAULT.to_owned());
    let begins = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    let goes_on = |byte: u8| begins(byte) || byte.is_ascii_digit();
    let is_plain = schema.bytes().next().is_some_and(begins) && schema.bytes().all(goes_on);
    if !is_plain || schema.len() > NAME_BYTES_MAX || schema.starts_with("pg_") {
        return wrong(format!(
            "the option \"schema\" is {schema:?}; it can be 1 to {NAME_BYTES_MAX} small letters, digits and \"_\", the first \
             not a digit, and not begin with pg_"
        ));
    }
    Ok(schema)
}

fn password(options: &mut Options) -> Result<Password, AddressError> {
    match (options.take("password-file"), options.take("passfile")) {
        (None, None) => Ok(Password::Environment),
        (Some(file), None) => Ok(Password::File(PathBuf::from(file))),
        (None, Some(file)) => Ok(Password::PassFile(PathBuf::from(file))),
        (Some(_), Some(_)) => wrong("the options \"password-file\" and \"passfile\" exclude each other"),
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Host::Tcp(host, port) => write!(f, "{host}:{port}"),
            Host::Unix(directory, port) => write!(f, "{}/.s.PGSQL.{port}", directory.display()),
        }
    }
}

/// The hosts, the database and the schema, for people.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEMES[0])?;
        for (at, host) in self.hosts.iter().enumerate() {
            write!(f, "{}{host}", if at == 0 { "" } else { "," })?;
        }
        write!(f, "/{}?schema={}", self.database, self.schema)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn tcp(host: &str, port: u16) -> Host {
        Host::Tcp(host.to_owned(), port)
    }

    #[test]
    fn everything_an_address_can_say() {
        let address = parse(
            "postgresql://lease%40hold@h1:5433,h2,[::1]:70/my%20db?schema=prod_1&ca=/etc/ca%20x.pem&cert=c.pem\
             &key=k.pem&password-file=/p&quota=8GiB",
        );
        assert_eq!(address.hosts, [tcp("h1", 5433), tcp("h2", 5432), tcp("::1", 70)]);
        assert_eq!((&*address.user, &*address.database, &*address.schema), ("lease@hold", "my db", "prod_1"));
        let tls = address.tls.clone().unwrap();
        assert_eq!(tls.ca.unwrap(), PathBuf::from("/etc/ca x.pem"));
        assert_eq!(tls.own.unwrap(), (PathBuf::from("c.pem"), PathBuf::from("k.pem")));
        assert_eq!(address.password, Password::File(PathBuf::from("/p")));
        assert_eq!(address.quota_bytes, Some(8 << 30));
        assert_eq!(address.to_string(), "postgres://h1:5433,h2:5432,[::1]:70/my db?schema=prod_1");
    }

    #[test]
    fn the_least_an_address_must_say() {
        let address = parse("postgres://u@localhost/x");
        assert_eq!(address.to_string(), "postgres://localhost:5432/x?schema=leasehold");
        assert_eq!((address.tls, address.password, address.quota_bytes), (None, Password::Environment, None));
        assert_eq!(parse("postgres://u@h/x?tls=on").tls, Some(TlsFiles::default()));
        assert_eq!(parse("postgres://u@h/x?tls=off").tls, None);
        assert_eq!(parse("postgres://u@h/x?passfile=/p").password, Password::PassFile(PathBuf::from("/p")));
        assert_eq!(parse("postgres://u@h/x?quota=16777216").quota_bytes, Some(16 << 20));
        assert_eq!(parse("postgres://u@h/x?quota=1024GiB").quota_bytes, Some(1 << 40));
        let schema = "s".repeat(63);
        assert_eq!(parse(&format!("postgres://u@h/x?schema={schema}")).schema, schema);
        let hosts = (0..16).map(|n| format!("h{n}")).collect::<Vec<_>>().join(",");
        assert_eq!(parse(&format!("postgres://u@{hosts}/x")).hosts.len(), 16);
    }

    #[test]
    fn unix_sockets() {
        let unix = |port| Host::Unix(PathBuf::from("/run/pg"), port);
        assert_eq!(parse("postgres://u@/x?host=/run/pg").hosts, [unix(5432)]);
        assert_eq!(parse("postgres://u@:77/x?host=/run/pg").hosts, [unix(77)]);
        assert_eq!(parse("postgres://u@%2Frun%2Fpg:5433/x").hosts, [unix(5433)]);
        assert_eq!(
            parse("postgres://u@%2frun%2fpg/x").to_string(),
            "postgres:///run/pg/.s.PGSQL.5432/x?schema=leasehold"
        );
    }

    #[test]
    fn a_sentence_for_each_wrong_part() {
        let long = "n".repeat(64);
        for (text, words) in [
            ("http://h/x", "begins with postgres://"),
            ("postgres://u@h", "names its database"),
            ("postgres://u@h/", "the database has 0 bytes"),
            ("postgres://h/x", "names its user"),
            ("postgres://@h/x", "the user has 0 bytes"),
            ("postgres://u:secret@h/x", "no password in it"),
            ("postgres://u@h/x?password=secret", "no password in it"),
            ("postgres://u@/x", "a host without a name"),
            ("postgres://u@h,,i/x", "a host without a name"),
            ("postgres://u@h,h:5432/x", "the host h:5432 is named twice"),
            ("postgres://u@h:0/x", "is not in 1…65535"),
            ("postgres://u@h:65536/x", "is not in 1…65535"),
            ("postgres://u@h:+1/x", "is not in 1…65535"),
            ("postgres://u@h h/x", "is no name and no address"),
            ("postgres://u@::1/x", "put it into brackets"),
            ("postgres://u@[::1/x", "a bracket that is not closed"),
            ("postgres://u@h/x#y", "no fragment"),
            ("postgres://u@h/x?schema=Prod", "small letters"),
            ("postgres://u@h/x?schema=1a", "small letters"),
            ("postgres://u@h/x?schema=pg_x", "not begin with pg_"),
            ("postgres://u@h/x?schema", "has no value"),
            ("postgres://u@h/x?schema=", "is empty"),
            ("postgres://u@h/x?schema=a&schema=b", "is given twice"),
            ("postgres://u@h/x?ca=%ff", "is not UTF-8"),
            ("postgres://u@h/x?ca=%00", "without zero bytes"),
            ("postgres://u@h/x?cert=c", "needs \"key\""),
            ("postgres://u@h/x?key=k", "needs \"cert\""),
            ("postgres://u@h/x?tls=off&ca=c", "and tls=off"),
            ("postgres://u@h/x?tls=yes", "it can be on or off"),
            ("postgres://u@h/x?password-file=a&passfile=b", "exclude each other"),
            ("postgres://u@h/x?host=/run", "no host stands before the database"),
            ("postgres://u@/x?host=run", "the directory of a unix socket"),
            ("postgres://u@/x?host=/run&tls=on", "a unix socket has none"),
            ("postgres://u@h/x?quota=15MiB", "16MiB to 1024GiB"),
            ("postgres://u@h/x?quota=1025GiB", "16MiB to 1024GiB"),
            ("postgres://u@h/x?quota=99999999999999999999GiB", "16MiB to 1024GiB"),
            ("postgres://u@h/x?speed=high", "has no option \"speed\"; it has ca,"),
            (&format!("postgres://{long}@h/x"), "the user has 64 bytes"),
            (&format!("postgres://u@h/x?schema={long}"), "1 to 63"),
            (
                &format!("postgres://u@{}/x", (0..17).map(|n| format!("h{n}")).collect::<Vec<_>>().join(",")),
                "at most 16",
            ),
        ] {
            let error = text.parse::<Address>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
