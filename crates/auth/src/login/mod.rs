//! A login of our own for people with browsers: OpenID Connect's authorization code flow with PKCE. State between two
//! requests is sealed into cookies that only this process can read; only logouts are remembered here.
//!
//! ```text
//! /login ─ begin ─▶ provider (state, nonce, challenge)          cookie: flow (state, nonce, verifier, where to go back to)
//! /callback ─ finish ─ code + verifier ─▶ provider ─▶ id token   cookie: session (name, groups, until when)
//! ```

pub mod by_token;
mod ended;
mod seal;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::Now;
use crate::bearer::{BearerError, Expected, Unverified};
use crate::fetch::{Fetch, FetchError, Form};
use crate::identity::{Principal, Source};
use crate::introspect::basic;
use crate::jwks::{Jwks, KeyError, Provider};
use crate::limits::{COOKIE_MAX, FLOW_S};
use crate::secret::Digest;
use crate::settings::{LoginSettings, OidcSettings};
use ended::Ended;
use leasehold_json as json;
use seal::Sealer;

/// How long the provider's description is good for.
const PROVIDER_US: u64 = 600_000_000;

/// How long a provider that did not answer is left alone.
const PROVIDER_AWAY_US: u64 = 2_000_000;

/// Why a login failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("the login was not begun in this browser, or took longer than ten minutes; please try again")]
    NoFlow,
    #[error("the login was refused by the provider: {0}")]
    Refused(String),
    #[error("the provider's answer was not to this login")]
    WrongState,
    #[error("the provider's id token is not to be believed: {0}")]
    Token(#[from] BearerError),
    #[error("you are in more groups than a cookie can hold; let the provider name fewer (groups_claim)")]
    TooManyGroups,
    #[error("the sign-on provider cannot be reached at the moment")]
    Unavailable,
}

/// Logins by one provider.
#[derive(Debug)]
pub struct Login {
    settings: LoginSettings,
    expected: Expected,
    jwks: Arc<Jwks>,
    fetch: Arc<dyn Fetch>,
    sealer: Sealer,
    ended: Ended,
    provider: Mutex<Option<(Result<Provider, ()>, u64)>>,
}

/// Where to send a browser, with a cookie.
#[derive(Debug)]
pub struct Begun {
    pub location: String,
    pub flow: String,
}

/// A completed login.
#[derive(Debug)]
pub struct Finished {
    pub session: String,
    pub lasts_s: u64,
    pub return_to: String,
    pub principal: Principal,
}

/// The parameters with which the provider sends a browser back.
#[derive(Clone, Debug, Default)]
pub struct Callback {
    pub state: Option<String>,
    pub code: Option<String>,
    pub error: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Flow {
    state: String,
    nonce: String,
    verifier: String,
    return_to: String,
    redirect_uri: String,
    expires_at_s: u64,
}

#[derive(Serialize, Deserialize)]
struct Session {
    name: String,
    groups: Vec<String>,
    /// On the clock of those who can open it.
    began_us: u64,
    expires_at_s: u64,
}

impl Login {
    /// `None` where the dashboard has no name at the provider.
    pub fn new(
        oidc: &OidcSettings,
        jwks: &Arc<Jwks>,
        fetch: &Arc<dyn Fetch>,
        secret: Option<&[u8; 32]>,
    ) -> Option<Self> {
        let settings = oidc.login.clone()?;
        // An id token is for the client that asked for it.
        let expected = Expected { audiences: vec![settings.client_id.clone()], ..oidc.expected.clone() };
        Some(Login {
            settings,
            expected,
            jwks: Arc::clone(jwks),
            fetch: Arc::clone(fetch),
            sealer: Sealer::new(secret),
            ended: Ended::default(),
            provider: Mutex::new(None),
        })
    }

    /// Returns whether this login can go on under these settings, so that a reload logs no user out.
    pub fn is_for(&self, oidc: &OidcSettings) -> bool {
        let audiences = vec![self.settings.client_id.clone()];
        oidc.login.as_ref() == Some(&self.settings) && Expected { audiences, ..oidc.expected.clone() } == self.expected
    }

    /// Sends a browser to the provider.
    pub async fn begin(&self, redirect_uri: String, return_to: &str, now: Now) -> Result<Begun, LoginError> {
        let provider = self.provider(now).await?;
        let endpoint = provider.authorization_endpoint.ok_or(LoginError::Unavailable)?;
        let flow = Flow {
            state: random(),
            nonce: random(),
            verifier: random(),
            return_to: local_path(return_to).to_owned(),
            redirect_uri,
            expires_at_s: now.unix_s + FLOW_S,
        };
        let challenge = URL_SAFE_NO_PAD.encode(Digest::of(flow.verifier.as_bytes()).bytes());
        let separator = if endpoint.contains('?') { '&' } else { '?' };
        let location = format!(
            "{endpoint}{separator}{}",
            form(&[
                ("response_type", "code"),
                ("client_id", &self.settings.client_id),
                ("redirect_uri", &flow.redirect_uri),
                ("scope", &self.settings.scopes),
                ("state", &flow.state),
                ("nonce", &flow.nonce),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
            ])
        );
        Ok(Begun { location, flow: self.seal("flow", &flow) })
    }

    /// Takes a browser back from the provider.
    pub async fn finish(&self, callback: Callback, flow: Option<&str>, now: Now) -> Result<Finished, LoginError> {
        let flow: Flow = flow.and_then(|sealed| self.open("flow", sealed)).ok_or(LoginError::NoFlow)?;
        if flow.expires_at_s <= now.unix_s {
            return Err(LoginError::NoFlow);
        }
        let state = callback.state.ok_or(LoginError::WrongState)?;
        if verify_slices_are_equal(state.as_bytes(), flow.state.as_bytes()).is_err() {
            return Err(LoginError::WrongState);
        }
        let code = match (callback.code, callback.error) {
            (_, Some(error)) => {
                return Err(LoginError::Refused(error.chars().filter(char::is_ascii_graphic).take(100).collect()));
            }
            (Some(code), None) => code,
            (None, None) => return Err(LoginError::WrongState),
        };
        let id_token = self.redeem(&code, &flow, now).await?;
        let principal = self.check(&id_token, flow.nonce, now).await?;
        let lasts_s = self.settings.session_us / 1_000_000;
        let session = Session {
            name: principal.name.to_string(),
            groups: principal.groups.iter().map(ToString::to_string).collect(),
            began_us: self.sealer.instant(now),
            expires_at_s: now.unix_s + lasts_s,
        };
        let session = self.seal("session", &session);
        if session.len() > COOKIE_MAX {
            return Err(LoginError::TooManyGroups);
        }
        Ok(Finished { session, lasts_s, return_to: flow.return_to, principal })
    }

    /// The principal of this session. A session that has ended, or that another process sealed, has none.
    pub fn session(&self, sealed: &str, now: Now) -> Option<Principal> {
        let session: Session = self.open("session", sealed)?;
        let is_on = now.unix_s < session.expires_at_s && !self.ended.has(&session.name, session.began_us);
        is_on.then(|| Principal {
            name: session.name.into(),
            groups: session.groups.into_iter().map(Into::into).collect(),
            source: Source::Session,
        })
    }

    /// Ends all sessions of this session's name, in every browser. Returns the name.
    pub fn end(&self, sealed: &str, now: Now) -> Option<Arc<str>> {
        let principal = self.session(sealed, now)?;
        self.ended.end(&principal.name, self.sealer.instant(now), self.settings.session_us);
        Some(principal.name)
    }

    /// A code for an id token, from the provider itself.
    async fn redeem(&self, code: &str, flow: &Flow, now: Now) -> Result<String, LoginError> {
        let endpoint = self.provider(now).await?.token_endpoint.ok_or(LoginError::Unavailable)?;
        let mut members = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &flow.redirect_uri),
            ("code_verifier", &flow.verifier),
        ];
        let client_id = &self.settings.client_id;
        let authorization = self.settings.client_secret.as_ref().map(|secret| basic(client_id, secret));
        if authorization.is_none() {
            members.push(("client_id", client_id));
        }
        let answer = self.fetch.post(&endpoint, Form { body: form(&members), authorization }).await;
        let document = answer.map_err(|error| match error {
            // The provider refuses: the code was used before, or belongs to another client.
            FetchError::Status { status: 400..=499, .. } => LoginError::Refused("the code is not valid".to_owned()),
            error => {
                tracing::warn!("a login could not be finished: {error}");
                LoginError::Unavailable
            }
        })?;
        let document = json::parse(&document).map_err(|_| LoginError::Unavailable)?;
        let id_token = document.get("id_token").and_then(Value::as_str);
        Ok(id_token.ok_or(BearerError::Missing("id_token"))?.to_owned())
    }

    async fn check(&self, id_token: &str, nonce: String, now: Now) -> Result<Principal, LoginError> {
        let unverified = Unverified::parse(id_token)?;
        let key = self.jwks.key_for(&unverified, now).await.map_err(|error| match error {
            KeyError::Token(error) => LoginError::Token(error),
            KeyError::Unavailable => LoginError::Unavailable,
        })?;
        let expected = Expected { nonce: Some(nonce), ..self.expected.clone() };
        Ok(unverified.verify(&key, &expected, now)?.principal)
    }

    /// The provider's description, asked for now and then. A provider that does not answer is left alone for a while,
    /// so that logins neither wait for it in line nor fill the log.
    async fn provider(&self, now: Now) -> Result<Provider, LoginError> {
        let mut known = self.provider.lock().await;
        if let Some((provider, at_us)) = &*known {
            let good_us = if provider.is_ok() { PROVIDER_US } else { PROVIDER_AWAY_US };
            if now.mono_us < at_us + good_us {
                return provider.clone().map_err(|()| LoginError::Unavailable);
            }
        }
        let provider = self.jwks.discover().await.map_err(|error| tracing::warn!("logins fail: {error}"));
        *known = Some((provider.clone(), now.mono_us));
        provider.map_err(|()| LoginError::Unavailable)
    }

    fn seal(&self, purpose: &str, value: &impl Serialize) -> String {
        let bytes = serde_json::to_vec(value).expect("plain texts and numbers can be written");
        self.sealer.seal(purpose, bytes)
    }

    fn open<T: for<'de> Deserialize<'de>>(&self, purpose: &str, sealed: &str) -> Option<T> {
        serde_json::from_slice(&self.sealer.open(purpose, sealed)?).ok()
    }
}

/// A path of ours to go back to. Anything that could lead elsewhere leads to the front page.
fn local_path(wanted: &str) -> &str {
    let is_local = wanted.starts_with('/')
        && !wanted.starts_with("//")
        && wanted.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_local { wanted } else { "/" }
}

fn random() -> String {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system has randomness");
    URL_SAFE_NO_PAD.encode(bytes)
}

fn form(members: &[(&str, &str)]) -> String {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    members.join("&")
}
