//! Opaque tokens: the provider is asked about each (RFC 7662), and its answer is kept for a short while under the token's
//! digest. A token the provider does not know is remembered, too, so that it is not asked about again and again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::bearer::{BearerError, ClaimPath, Expected};
use crate::fetch::{Fetch, Form};
use crate::identity::{Principal, Source};
use crate::secret::{Digest, Secret};
use crate::{Now, bearer, json};

/// Answers kept at once.
const ENTRIES_MAX: usize = 10_000;

/// Questions under way at once. Whoever comes then waits for one of them to end.
const QUESTIONS_MAX: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntrospectionSettings {
    pub endpoint: String,
    pub client_id: String,
    pub client_secret: Secret,
    /// Any of these, if given: the answer must name one.
    pub audiences: Vec<String>,
    pub name_claim: ClaimPath,
    pub groups_claim: ClaimPath,
    pub name_prefix: String,
    pub group_prefix: String,
    /// How long an answer is kept.
    pub cache_us: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IntrospectError {
    #[error("the provider does not know the token, or it has expired or was revoked")]
    Inactive,
    #[error(transparent)]
    Token(#[from] BearerError),
    #[error("the sign-on provider cannot be asked about tokens at the moment")]
    Unavailable,
}

#[derive(Debug)]
pub struct Introspection {
    settings: IntrospectionSettings,
    fetch: Arc<dyn Fetch>,
    answers: Mutex<HashMap<Digest, Answer>>,
    questions: Semaphore,
}

#[derive(Clone, Debug)]
struct Answer {
    outcome: Result<Arc<Principal>, IntrospectError>,
    until_us: u64,
    /// Of the token itself, in seconds since 1970.
    expires_at_s: Option<u64>,
}

impl Introspection {
    pub fn new(settings: IntrospectionSettings, fetch: Arc<dyn Fetch>) -> Self {
        Introspection { settings, fetch, answers: Mutex::new(HashMap::new()), questions: Semaphore::new(QUESTIONS_MAX) }
    }

    /// What is known without asking.
    pub fn known(&self, token: &Digest, now: Now) -> Option<Result<Arc<Principal>, IntrospectError>> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.get(token)?;
        let is_current = now.mono_us < answer.until_us;
        let has_expired = answer.expires_at_s.is_some_and(|expires_at_s| expires_at_s <= now.unix_s);
        is_current.then(|| if has_expired { Err(IntrospectError::Inactive) } else { answer.outcome.clone() })
    }

    pub async fn ask(&self, token: &str, now: Now) -> Result<Arc<Principal>, IntrospectError> {
        let digest = Digest::of(token.as_bytes());
        let _turn = self.questions.acquire().await.map_err(|_| IntrospectError::Unavailable)?;
        // Somebody with the same token may have asked meanwhile.
        if let Some(known) = self.known(&digest, now) {
            return known;
        }
        let body = format!("token={}&token_type_hint=access_token", utf8_percent_encode(token, NON_ALPHANUMERIC));
        let form = Form { body, authorization: Some(self.authorization()) };
        let document = self.fetch.post(&self.settings.endpoint, form).await.map_err(|error| {
            tracing::warn!("the sign-on provider could not be asked about a token: {error}");
            IntrospectError::Unavailable
        })?;
        let Ok(Value::Object(document)) = json::parse(&document) else {
            tracing::warn!("{} answered with something that is no JSON object", self.settings.endpoint);
            return Err(IntrospectError::Unavailable);
        };
        let (outcome, expires_at_s) = match self.read(&document, now) {
            Ok((principal, expires_at_s)) => (Ok(Arc::new(principal)), expires_at_s),
            Err(error) => (Err(error), None),
        };
        self.keep(
            digest,
            Answer { outcome: outcome.clone(), until_us: now.mono_us + self.settings.cache_us, expires_at_s },
            now,
        );
        outcome
    }

    fn read(&self, answer: &Map<String, Value>, now: Now) -> Result<(Principal, Option<u64>), IntrospectError> {
        if answer.get("active") != Some(&Value::Bool(true)) {
            return Err(IntrospectError::Inactive);
        }
        let expires_at_s = bearer::seconds(answer, "exp")?;
        if expires_at_s.is_some_and(|expires_at_s| expires_at_s <= now.unix_s) {
            return Err(IntrospectError::Inactive);
        }
        let IntrospectionSettings { audiences, .. } = &self.settings;
        let is_ours = |audience: &Value| audience.as_str().is_some_and(|one| audiences.iter().any(|ours| ours == one));
        let is_for_us = audiences.is_empty()
            || match answer.get("aud") {
                Some(Value::Array(named)) => named.iter().any(is_ours),
                Some(one) => is_ours(one),
                None => false,
            };
        if !is_for_us {
            return Err(BearerError::WrongAudience.into());
        }
        let reading = Expected {
            issuer: String::new(),
            audiences: Vec::new(),
            name_claim: self.settings.name_claim.clone(),
            groups_claim: self.settings.groups_claim.clone(),
            name_prefix: self.settings.name_prefix.clone(),
            group_prefix: self.settings.group_prefix.clone(),
            nonce: None,
        };
        Ok((reading.principal(answer, Source::Introspection)?, expires_at_s))
    }

    fn keep(&self, token: Digest, answer: Answer, now: Now) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= ENTRIES_MAX {
            answers.retain(|_, answer| now.mono_us < answer.until_us);
            if answers.len() >= ENTRIES_MAX {
                // Unknown tokens first: they are what floods are made of.
                answers.retain(|_, answer| answer.outcome.is_ok());
            }
            if answers.len() >= ENTRIES_MAX {
                answers.clear();
            }
        }
        answers.insert(token, answer);
    }

    /// RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
    fn authorization(&self) -> HeaderValue {
        basic(&self.settings.client_id, &self.settings.client_secret)
    }
}

/// The `Authorization` of a client towards its provider.
pub(crate) fn basic(client_id: &str, client_secret: &Secret) -> HeaderValue {
    let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    let pair = format!("{}:{}", encoded(client_id), encoded(client_secret.expose()));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).expect("base64 is visible ASCII");
    value.set_sensitive(true);
    value
}
