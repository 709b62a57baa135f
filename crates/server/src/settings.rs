//! The operator's settings of the service, as plain values with their defaults. The binary reads them from flags,
//! environment and file.

use std::net::SocketAddr;

use ipnet::IpNet;
use leasehold_engine::Limits;

use crate::http::HttpLimits;

const S_US: u64 = 1_000_000;
const H_US: u64 = 3600 * S_US;

/// How the service behaves. Durations are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct Settings {
    /// After a lock expired: how long only its last holder may come back.
    pub grace_us: u64,
    /// The ttl of a lock whose caller names none.
    pub default_ttl_us: u64,
    /// Longer ttls of pools and locks are cut to this.
    pub ttl_max_us: u64,
    /// Longer waits are cut to this.
    pub wait_max_us: u64,
    /// Most slots a pool or resource may have.
    pub count_max: u64,
    /// Longer timeouts and ttls of claims are cut to this.
    pub timeout_max_us: u64,
    /// How long a machine may take to reboot before its slot is free again. None: for ever.
    pub fleetlock_ttl_us: Option<u64>,
    /// Most bytes of a claim's metadata.
    pub metadata_max: usize,
    /// How long an ended claim can still be read.
    pub retain_finished_us: u64,
    /// At most this many ended claims are kept; the oldest go first.
    pub retain_max: usize,
    /// The beginning of absolute URLs in answers. Without it, the host the caller used.
    pub public_url: Option<String>,
    /// Our names, beside our addresses and the host of `public_url`.
    pub allowed_hosts: Vec<String>,
    /// Origins whose pages may call, beside our own.
    pub allow_origin: Vec<String>,
    /// Nothing but this machine reaches us.
    pub is_loopback: bool,
    /// `true` if callers use https:// to reach us, as far as we know.
    pub speaks_tls: bool,
    /// Where callers are served, for a listener that does not serve them itself.
    pub callers_addr: Option<SocketAddr>,
    /// Proxies that are believed about the address of a caller.
    pub trusted_proxies: Vec<IpNet>,
    /// How long an answer waits for the store before it becomes a 502.
    pub store_timeout_us: u64,
    /// Callers waiting in queues, in all. The next one gets a 503.
    pub waiters_max: usize,
    /// `true` if every request gets a line in the log, `false` if only failed ones do.
    pub access_log: bool,
    /// `true` if renewals of locks are logged at `info`, `false` if at `debug`.
    pub log_renewals: bool,
    /// The kind of the store, in a word for people.
    pub store: &'static str,
    /// Events kept in memory for later readers.
    pub events_kept: usize,
    /// The limits of the HTTP side.
    pub http: HttpLimits,
}

impl Settings {
    /// Returns whether a browser that speaks to us does so over https: by `public_url`, else by the protocol of the
    /// listener.
    pub fn is_encrypted(&self) -> bool {
        self.public_url.as_ref().map_or(self.speaks_tls, |url| url.starts_with("https://"))
    }
}

impl Default for Settings {
    /// The engine keeps some of the bounds, and has their defaults.
    fn default() -> Self {
        let engine = Limits::default();
        Settings {
            grace_us: engine.grace_us,
            default_ttl_us: 30 * S_US,
            ttl_max_us: 24 * H_US,
            wait_max_us: 300 * S_US,
            count_max: 1000,
            timeout_max_us: 30 * 24 * H_US,
            fleetlock_ttl_us: None,
            metadata_max: 16 * 1024,
            retain_finished_us: engine.retain_us,
            retain_max: engine.retained_max,
            public_url: None,
            allowed_hosts: Vec::new(),
            allow_origin: Vec::new(),
            is_loopback: false,
            speaks_tls: false,
            callers_addr: None,
            trusted_proxies: Vec::new(),
            store_timeout_us: 10 * S_US,
            waiters_max: engine.waiting_max,
            access_log: false,
            log_renewals: false,
            store: "sqlite",
            events_kept: 100_000,
            http: HttpLimits::default(),
        }
    }
}
