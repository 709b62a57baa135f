//! Authentication and authorisation: everything about sign-on that is not a server.
//!
//! ```text
//! headers, peer, certificate ─▶ sign_on ─▶ Identity ─▶ policy ─▶ yes, or the action that is missing
//!                                 │ proxy        headers of a trusted proxy
//!                                 │ token        API tokens, by digest
//!                                 │ bearer       JWTs of an OpenID provider, keys from jwks
//!                                 │ introspect   opaque tokens, asked about (RFC 7662)
//!                                 │ certificate  the subject of a client certificate
//! ```
//!
//! Times are handed in ([`Now`]), so that expiry can be tested without waiting. The only IO is in [`fetch`], behind a
//! trait. The server knows which request needs which action, and what a refusal looks like over HTTP.

pub mod attempts;
mod basic;
pub mod bearer;
mod bucket;
pub mod certificate;
pub mod fetch;
mod glob;
pub mod identity;
pub mod introspect;
pub mod jwks;
pub mod limits;
pub mod login;
mod meter;
pub mod policy;
pub mod proxy;
pub mod secret;
pub mod settings;
pub mod sign_on;
pub mod token;

pub use certificate::ClientCert;
pub use identity::{Identity, Principal, Source};
pub use policy::{Action, Decision, Policy, Target};
pub use settings::SignOnSettings;
pub use sign_on::{Evidence, Refused, SignOn};

/// A reading of the clocks. Lifetimes of tokens are compared with the wall clock, as their issuer meant them; our own
/// times are counted on the monotonic one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Seconds since 1970.
    pub unix_s: u64,
    /// Monotonic, from an origin of the reader's choice.
    pub mono_us: u64,
}
