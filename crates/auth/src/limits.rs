//! Every bound of sign-on that a caller can meet, by name. An operator can set those of [`CallerLimits`].

/// Longest bearer token looked at, in bytes. All headers of a request together may have 16 KiB.
pub const BEARER_TOKEN_MAX: usize = 12 * 1024;

/// Longest key id in a token, in bytes. Providers use digests and UUIDs.
pub const KID_MAX: usize = 512;

/// Longest name of a principal or group, in bytes. Owners are stored with their claims.
pub const PRINCIPAL_NAME_MAX: usize = 256;

/// Most groups a principal may have. Directories hand out hundreds; more than this is a mistake.
pub const GROUPS_MAX: usize = 1_000;

/// How long a user may take to type a password.
pub const FLOW_S: u64 = 600;

/// Longest cookie of a login, in bytes: browsers keep cookies of up to 4096, name and attributes included.
pub const COOKIE_MAX: usize = 3_800;

/// How long a session that began with a token lasts, unless its token ends before.
pub const SESSION_S: u64 = 8 * 3_600;

/// Failed attempts to sign on that an address has at once …
pub const ATTEMPTS_AT_ONCE: u32 = 10;

/// … and how many more in a thousand seconds: one every six.
pub const ATTEMPTS_PER_1000_S: u64 = 167;

/// Principals whose rate of requests is remembered at once.
pub const PRINCIPALS_MAX: usize = 100_000;

/// The limits of one principal, the same for all. `None`: no limit beyond those of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallerLimits {
    /// Claims, leases and locks that wait or are held.
    pub live_claims: Option<u32>,
    /// The part of them that waits.
    pub waiters: Option<u32>,
    pub requests: Option<RequestRate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRate {
    pub per_second: u32,
    /// How many may come at once.
    pub burst: u32,
}
