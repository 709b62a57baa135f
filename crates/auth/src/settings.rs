//! The operator's settings of sign-on, as plain values. The binary reads them and reports mistakes in them.

use crate::bearer::Expected;
use crate::certificate::CertificateSettings;
use crate::introspect::IntrospectionSettings;
use crate::jwks::{KeySource, RingSettings};
use crate::limits::CallerLimits;
use crate::policy::Policy;
use crate::proxy::ProxySettings;
use crate::secret::Secret;
use crate::token::TokenSettings;

/// All of `[auth]`, `[[policy]]` and `[limits]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignOnSettings {
    pub tokens: Vec<TokenSettings>,
    pub oidc: Option<OidcSettings>,
    pub introspection: Option<IntrospectionSettings>,
    pub proxy: Option<ProxySettings>,
    pub certificates: Option<CertificateSettings>,
    /// `true` if a pool's id is not enough to use it.
    pub pools_require_sign_on: bool,
    /// `true` if the `client` of a lock has to be the caller's own name, or begin with it and a slash.
    pub bind_lock_client: bool,
    pub policy: Policy,
    pub limits: CallerLimits,
}

/// Where callers sign on, all endpoints require it.
impl Default for SignOnSettings {
    fn default() -> Self {
        SignOnSettings {
            tokens: Vec::new(),
            oidc: None,
            introspection: None,
            proxy: None,
            certificates: None,
            pools_require_sign_on: true,
            bind_lock_client: true,
            policy: Policy::default(),
            limits: CallerLimits::default(),
        }
    }
}

/// An OpenID provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcSettings {
    pub keys: KeySource,
    pub ring: RingSettings,
    pub expected: Expected,
    /// For people who log in to the dashboard.
    pub login: Option<LoginSettings>,
}

/// The dashboard as a client of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginSettings {
    pub client_id: String,
    /// Public clients have none; PKCE stands in for it.
    pub client_secret: Option<Secret>,
    pub scopes: String,
    /// How long a login lasts.
    pub session_us: u64,
}
