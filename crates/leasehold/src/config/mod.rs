//! The configuration: flags over environment over file over defaults. Text goes in, checked values come out, each with
//! its source; every mistake is a sentence that names the key, the problem and the rule.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use leasehold_server::http::HttpLimits;
use leasehold_server::{Partitions, Settings};

use crate::logging::LogFormat;

mod args;
#[cfg(test)]
mod fuzz;
pub(crate) mod keys;
mod near;
mod policy;
mod print;
mod section;
mod sign_on;
#[cfg(test)]
mod sign_on_tests;
mod sources;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use args::{Flags, ServeArgs};
pub(crate) use keys::{AuditTo, ListenAddress};
use keys::{KEYS, Key, ValueRule};
pub(crate) use sign_on::read_time;
use sources::{Given, GivenBy, Layer};
pub(crate) use tls::{NamedFile, TlsFiles};

/// A mistake in the configuration, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError(String);

impl ConfigError {
    pub(crate) fn new(sentence: String) -> Self {
        ConfigError(sentence)
    }

    /// The same sentence without its quoted value, which may be a secret.
    fn without_value(self) -> Self {
        match (self.0.find('"'), self.0.rfind('"')) {
            (Some(from), Some(to)) if from < to => ConfigError(format!("{}it{}", &self.0[..from], &self.0[to + 1..])),
            _ => self,
        }
    }
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Everything `serve` needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    pub(crate) listen: ListenAddress,
    /// Where operators are served, if not there too.
    pub(crate) admin_listen: Option<ListenAddress>,
    /// The files of TLS; none: plain HTTP.
    pub(crate) tls: Option<TlsFiles>,
    pub(crate) store: Store,
    /// The partitions of a new cluster, or of a service in memory.
    pub(crate) partitions: Option<Partitions>,
    pub(crate) node: NodeSettings,
    /// Bytes that the state may take up, if not half of what the process may use.
    pub(crate) state_max: Option<u64>,
    /// Threads that serve callers, if not as many as suit the machine.
    pub(crate) threads: Option<usize>,
    pub(crate) settings: Settings,
    pub(crate) log_format: LogFormat,
    pub(crate) log_filter: String,
    /// Where every change is written down, and whether a change may be made without that.
    pub(crate) audit_log: Option<AuditTo>,
    pub(crate) audit_required: bool,
    /// Where traces go, in builds that make them.
    pub(crate) otlp_endpoint: Option<String>,
    /// How callers sign on and what they may do; none: every caller may do everything.
    pub(crate) sign_on: Option<leasehold_auth::SignOnSettings>,
}

/// Where the journal is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Memory,
    Directory(PathBuf),
    Shared(SharedAddress),
}

/// A store that several nodes share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SharedAddress {
    Etcd(leasehold_etcd::Address),
    Postgres(leasehold_postgres::Address),
}

impl std::fmt::Display for SharedAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SharedAddress::Etcd(address) => address.fmt(f),
            SharedAddress::Postgres(address) => address.fmt(f),
        }
    }
}

/// How this process is a node of a cluster. Of use with a shared store alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSettings {
    /// Where other nodes connect to.
    pub(crate) peer_listen: ListenAddress,
    /// Where they are told to, if not there.
    pub(crate) advertise: Option<ListenAddress>,
    pub(crate) node_ttl_us: u64,
}

/// A configuration and where it came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// Warnings for the log that are no reason not to start.
    pub(crate) warnings: Vec<String>,
    chosen: Chosen,
    /// The tables of the file, without secrets.
    tables: String,
}

/// Puts a configuration together. `read` fetches the text of a file.
pub(crate) fn load(
    args: &ServeArgs,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
    read: impl Fn(&Path) -> std::io::Result<String>,
) -> Result<Loaded, ConfigError> {
    let environment = sources::environment(variables);
    let file = match args.config.as_ref().or(environment.config.as_ref()) {
        None => sources::File::default(),
        Some(path) => {
            let text = read(path)
                .map_err(|error| ConfigError::new(format!("{} could not be read: {error}", path.display())))?;
            sources::file(path, &text, &read)?
        }
    };
    let mut warnings = environment.warnings;
    if file.sign_on.as_ref().is_some_and(|sign_on| sign_on.policy.rules().is_empty()) {
        warnings.push("callers sign on, but there is no [[policy]], so no caller may do anything".to_owned());
    }
    let chosen = Chosen::new([file.layer, environment.layer, args.flags.0.clone()]);
    let config = Config { sign_on: file.sign_on, ..chosen.config()? };
    warnings.extend(tls::warnings(&config).map(str::to_owned));
    Ok(Loaded { config, warnings, chosen, tables: file.tables })
}

/// The value of each key that won, in the order of `KEYS`.
#[derive(Debug)]
struct Chosen(Vec<(&'static Key, Option<Given>)>);

impl Chosen {
    /// Later layers win over earlier ones.
    fn new(layers: [Layer; 3]) -> Self {
        let default = |key: &Key| key.default_text().map(|text| Given { text: text.into(), source: GivenBy::Default });
        let mut chosen: Vec<_> = KEYS.iter().map(|key| (key, default(key))).collect();
        for (key, given) in layers.into_iter().flatten() {
            let entry = chosen.iter_mut().find(|(known, _)| known.name == key.name).expect("layers have our keys only");
            entry.1 = Some(given);
        }
        Chosen(chosen)
    }

    fn config(&self) -> Result<Config, ConfigError> {
        let mut default_ttl_us = self.duration("default_ttl")?;
        let ttl_max_us = self.duration("ttl_max")?;
        if default_ttl_us > ttl_max_us {
            let source = &self.given("default_ttl").source;
            if *source != GivenBy::Default {
                let reason = format!("default_ttl must be at most ttl_max, but is longer ({source})");
                return Err(ConfigError::new(reason));
            }
            default_ttl_us = ttl_max_us;
        }
        let tls = self.tls()?;
        let audit_log = self.optional("audit_log", keys::read_audit_log)?;
        let audit_required = self.required("audit_required", keys::read_bool)?;
        if audit_required && audit_log.is_none() {
            let source = &self.given("audit_required").source;
            return Err(ConfigError::new(format!("audit_required is of no use without audit_log ({source})")));
        }
        let store = self.store()?;
        let partitions = self.optional("partitions", keys::read_partitions)?;
        if let (Store::Directory(_), Some(_)) = (&store, partitions) {
            let source = &self.given("partitions").source;
            return Err(ConfigError::new(format!("partitions is of no use without store ({source})")));
        }
        let settings = Settings {
            grace_us: self.duration("grace")?,
            default_ttl_us,
            ttl_max_us,
            wait_max_us: self.duration("wait_max")?,
            count_max: self.integer("count_max")?,
            timeout_max_us: self.duration("timeout_max")?,
            fleetlock_ttl_us: self.optional_duration("fleetlock_ttl")?,
            metadata_max: usize::try_from(self.size("metadata_max")?.expect("it has a default"))
                .expect("its range fits"),
            retain_finished_us: self.duration("retain_finished")?,
            retain_max: usize::try_from(self.integer("retain_max")?).expect("its range fits"),
            public_url: self.optional("public_url", keys::read_url)?,
            trusted_proxies: self.optional("trusted_proxies", keys::read_networks)?.unwrap_or_default(),
            allowed_hosts: self.optional("allowed_hosts", keys::read_hosts)?.unwrap_or_default(),
            allow_origin: self.optional("allow_origin", keys::read_origins)?.unwrap_or_default(),
            // Only known once it listens.
            is_loopback: false,
            speaks_tls: tls.is_some(),
            // Only known once it listens.
            callers_addr: None,
            store_timeout_us: self.duration("store_timeout")?,
            waiters_max: usize::try_from(self.integer("waiters_max")?).expect("its range fits"),
            access_log: self.required("access_log", keys::read_bool)?,
            log_renewals: self.required("log_renewals", keys::read_bool)?,
            store: match &store {
                Store::Memory => "memory",
                Store::Directory(_) => "sqlite",
                Store::Shared(SharedAddress::Etcd(_)) => "etcd",
                Store::Shared(SharedAddress::Postgres(_)) => "postgres",
            },
            events_kept: usize::try_from(self.integer("events_kept")?).expect("its range fits"),
            http: HttpLimits {
                connections_max: u32::try_from(self.integer("connections_max")?).expect("its range fits"),
                connections_max_per_address: self
                    .optional_integer("connections_max_per_address")?
                    .map(|max| u32::try_from(max).expect("its range fits")),
                ..HttpLimits::default()
            },
        };
        Ok(Config {
            listen: self.required("listen", keys::read_address)?,
            admin_listen: self.optional("admin_listen", keys::read_address)?,
            tls,
            store,
            partitions,
            node: NodeSettings {
                peer_listen: self.required("peer_listen", keys::read_address)?,
                advertise: self.optional("advertise", keys::read_address)?,
                node_ttl_us: self.duration("node_ttl")?,
            },
            state_max: self.size("state_max")?,
            threads: self.optional_integer("threads")?.map(|threads| usize::try_from(threads).expect("its range fits")),
            settings,
            log_format: self.required("log_format", keys::read_log_format)?,
            log_filter: self.required("log_level", keys::read_log_filter)?,
            audit_log,
            audit_required,
            otlp_endpoint: self.optional("otlp_endpoint", keys::read_collector)?,
            sign_on: None,
        })
    }

    /// `memory` and `data` exclude each other when one source says both; else the stronger source wins.
    fn store(&self) -> Result<Store, ConfigError> {
        if let Some(shared) = self.optional("store", keys::read_shared_store)? {
            let (store, memory) = (self.given("store"), self.given("memory"));
            if self.required("memory", keys::read_bool)? && memory.source.rank() >= store.source.rank() {
                let reason = format!("memory and store exclude each other ({} and {})", memory.source, store.source);
                return Err(ConfigError::new(reason));
            }
            return Ok(Store::Shared(shared));
        }
        let (memory, data) = (self.given("memory"), self.given("data"));
        let in_memory = self.required("memory", keys::read_bool)?;
        if data.text.is_empty() {
            return Err(ConfigError::new(format!("data must be a directory, but is empty ({})", data.source)));
        }
        if !in_memory || data.source.rank() > memory.source.rank() {
            return Ok(Store::Directory(PathBuf::from(&data.text)));
        }
        if data.source.rank() == memory.source.rank() {
            let reason = format!("memory and data exclude each other ({} and {})", memory.source, data.source);
            return Err(ConfigError::new(reason));
        }
        Ok(Store::Memory)
    }

    fn entry(&self, name: &str) -> &(&'static Key, Option<Given>) {
        self.0.iter().find(|(key, _)| key.name == name).expect("asked for keys of the table only")
    }

    fn given(&self, name: &str) -> &Given {
        self.entry(name).1.as_ref().expect("only asked for keys that have a default")
    }

    fn optional<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let (key, given) = self.entry(name);
        let Some(given) = given else { return Ok(None) };
        let value = given.text.to_str().ok_or_else(|| "is not UTF-8".to_owned()).and_then(read);
        value.map(Some).map_err(|problem| {
            let text = given.text.to_string_lossy();
            if problem == keys::NO_TRACES {
                return ConfigError::new(format!("{name} is set ({}), {problem}", given.source));
            }
            ConfigError::new(format!("{name} must be {}, but {text:?} {problem} ({})", key.rule, given.source))
        })
    }

    fn required<T>(&self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<T, ConfigError> {
        Ok(self.optional(name, read)?.expect("only asked for keys that have a default"))
    }

    fn duration(&self, name: &str) -> Result<u64, ConfigError> {
        Ok(self.optional_duration(name)?.expect("only asked for keys that have a default"))
    }

    fn optional_duration(&self, name: &str) -> Result<Option<u64>, ConfigError> {
        let ValueRule::Duration(range) = &self.entry(name).0.rule else { panic!("{name} is no duration") };
        self.optional(name, |text| keys::read_duration(text, range))
    }

    fn integer(&self, name: &str) -> Result<u64, ConfigError> {
        Ok(self.optional_integer(name)?.expect("only asked for keys that have a default"))
    }

    fn size(&self, name: &str) -> Result<Option<u64>, ConfigError> {
        let ValueRule::Size(range) = &self.entry(name).0.rule else { panic!("{name} is no size") };
        self.optional(name, |text| keys::read_size(text, range))
    }

    fn optional_integer(&self, name: &str) -> Result<Option<u64>, ConfigError> {
        let ValueRule::Integer(range) = &self.entry(name).0.rule else { panic!("{name} is no integer") };
        self.optional(name, |text| keys::read_integer(text, range))
    }
}
