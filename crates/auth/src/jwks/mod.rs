//! The keys of a provider: found by discovery, kept, renewed in the background, and fetched again when a token names an
//! unknown key, but only now and then, so that tokens with made-up key ids do not cause a thousand questions.
//!
//! `ring` decides which keys to keep and when to ask, without IO; this file asks, one question at a time.

mod ring;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

pub use ring::RingSettings;
use ring::{Look, Ring};

use crate::Now;
use crate::bearer::{BearerError, Unverified, VerifyingKey, keys_of};
use crate::fetch::{Fetch, FetchError};
use leasehold_json as json;

/// Where the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    pub issuer: String,
    /// Given, or found by discovery.
    pub jwks_uri: Option<String>,
    /// `true` if plain HTTP is allowed.
    pub allow_http: bool,
}

/// The result of discovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    pub jwks_uri: String,
    /// Where people log in, and where their codes are redeemed. Providers for machines only have neither.
    pub authorization_endpoint: Option<String>,
    pub token_endpoint: Option<String>,
    pub end_session_endpoint: Option<String>,
}

/// Why there is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(transparent)]
    Token(#[from] BearerError),
    /// The provider is to blame, or the way to it.
    #[error("the keys of the sign-on provider cannot be had at the moment")]
    Unavailable,
}

#[derive(Debug)]
pub struct Jwks {
    source: KeySource,
    fetch: Arc<dyn Fetch>,
    ring: Mutex<Ring>,
    /// Held while asking: callers that come meanwhile wait for that answer.
    flight: tokio::sync::Mutex<()>,
}

impl Jwks {
    pub fn new(source: KeySource, settings: RingSettings, fetch: Arc<dyn Fetch>) -> Self {
        Jwks { source, fetch, ring: Mutex::new(Ring::new(settings)), flight: tokio::sync::Mutex::new(()) }
    }

    /// The key that a token names.
    pub async fn key_for(self: &Arc<Self>, token: &Unverified<'_>, now: Now) -> Result<Arc<VerifyingKey>, KeyError> {
        let kid = token.kid.as_deref();
        let looked = self.ring().look(kid, now.mono_us);
        match looked {
            Look::Found(key) => Ok(key),
            Look::Aging(key) => {
                // No caller has to wait for it.
                drop(self.renew_apart(now));
                Ok(key)
            }
            Look::Unknown => Err(BearerError::UnknownKey.into()),
            Look::Unavailable => Err(KeyError::Unavailable),
            Look::Ask => {
                // The task ends early only when the runtime does.
                let _ = self.renew_apart(now).await;
                match self.ring().look(kid, now.mono_us) {
                    Look::Found(key) | Look::Aging(key) => Ok(key),
                    Look::Unknown => Err(BearerError::UnknownKey.into()),
                    Look::Unavailable | Look::Ask => Err(KeyError::Unavailable),
                }
            }
        }
    }

    /// In a task of its own: a caller that leaves must not cancel an answer that others wait for.
    fn renew_apart(self: &Arc<Self>, now: Now) -> tokio::task::JoinHandle<()> {
        let jwks = Arc::clone(self);
        tokio::spawn(async move { jwks.renew(now).await })
    }

    /// Asks the provider, unless another task did while this one waited for its turn.
    async fn renew(&self, now: Now) {
        let _flight = self.flight.lock().await;
        if !self.ring().begin(now.mono_us) {
            return;
        }
        let fetched = self.fetch_keys().await;
        match &fetched {
            Ok(keys) => tracing::debug!(issuer = self.source.issuer, keys = keys.len(), "keys of the provider read"),
            Err(error) => tracing::warn!(issuer = self.source.issuer, "no keys from the sign-on provider: {error}"),
        }
        self.ring().end(fetched.ok(), now.mono_us);
    }

    async fn fetch_keys(&self) -> Result<Vec<VerifyingKey>, FetchError> {
        let jwks_uri = match &self.source.jwks_uri {
            Some(jwks_uri) => jwks_uri.clone(),
            None => self.discover().await?.jwks_uri,
        };
        let document = self.fetch.get(&jwks_uri).await?;
        let keys = keys_of(&document);
        keys.ok_or(FetchError::Content { url: jwks_uri, reason: "it is no JSON object with a list of keys" })
    }

    /// Reads the provider's description (OpenID Connect Discovery).
    pub async fn discover(&self) -> Result<Provider, FetchError> {
        let url = format!("{}/.well-known/openid-configuration", self.source.issuer.trim_end_matches('/'));
        let document = self.fetch.get(&url).await?;
        let wrong = |reason| FetchError::Content { url: url.clone(), reason };
        let document = json::parse(&document).map_err(|_| wrong("it is no JSON"))?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        if text("issuer") != Some(&self.source.issuer) {
            return Err(wrong("its issuer is another than the one configured, to the letter"));
        }
        let is_allowed =
            |url: &&str| url.starts_with("https://") || (self.source.allow_http && url.starts_with("http://"));
        let endpoint = |name: &str| text(name).filter(is_allowed).map(str::to_owned);
        Ok(Provider {
            jwks_uri: endpoint("jwks_uri").ok_or_else(|| wrong("it has no jwks_uri, or one that is not https"))?,
            authorization_endpoint: endpoint("authorization_endpoint"),
            token_endpoint: endpoint("token_endpoint"),
            end_session_endpoint: endpoint("end_session_endpoint"),
        })
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        // Every change to it is one assignment.
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
