//! Opaque tokens: the provider is asked about each (RFC 7662), and its answer is kept for a short while under the
//! token's digest. A token the provider does not know is remembered, too, so that it is not asked about again and
//! again.

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
use crate::{Now, bearer};
use leasehold_json as json;

/// Answers kept at once.
const ENTRIES_MAX: usize = 10_000;

/// A token that the provider does not know is not asked about again before this long, however short `cache` is.
const REFUSED_MIN_US: u64 = 10_000_000;

/// Questions under way at once. A caller past this number waits for one of them to end.
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
    answers: Mutex<HashMap<Digest, Introspected>>,
    questions: Semaphore,
}

#[derive(Clone, Debug)]
struct Introspected {
    outcome: Result<Arc<Principal>, IntrospectError>,
    until_us: u64,
    /// The end of the token itself, in seconds since 1970.
    expires_at_s: Option<u64>,
}

impl Introspection {
    pub fn new(settings: IntrospectionSettings, fetch: Arc<dyn Fetch>) -> Self {
        Introspection { settings, fetch, answers: Mutex::new(HashMap::new()), questions: Semaphore::new(QUESTIONS_MAX) }
    }

    /// The answer that is known without asking.
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
        // Another call with the same token may have asked meanwhile.
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
        let kept_us = match outcome {
            Ok(_) => self.settings.cache_us,
            Err(_) => self.settings.cache_us.max(REFUSED_MIN_US),
        };
        self.keep(
            digest,
            Introspected { outcome: outcome.clone(), until_us: now.mono_us + kept_us, expires_at_s },
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

    fn keep(&self, token: Digest, answer: Introspected, now: Now) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= ENTRIES_MAX {
            answers.retain(|_, answer| now.mono_us < answer.until_us);
            if answers.len() >= ENTRIES_MAX {
                // Unknown tokens go first: floods consist of them.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::Bytes;

    use super::*;
    use crate::fetch::{FetchError, Fetched};

    /// A provider that always gives the same answer, and none while it is down.
    #[derive(Debug)]
    struct Script {
        says: Option<&'static str>,
        asked: AtomicUsize,
    }

    impl Fetch for Script {
        fn get<'a>(&'a self, _: &'a str) -> Fetched<'a> {
            unreachable!("tokens are asked about with a form")
        }

        fn post<'a>(&'a self, url: &'a str, form: Form) -> Fetched<'a> {
            assert!(form.body.starts_with("token=opaque%2D") && form.authorization.is_some(), "{form:?}");
            self.asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(async {
                tokio::task::yield_now().await;
                self.says.map(Bytes::from).ok_or(FetchError::TimedOut { url: url.to_owned() })
            })
        }
    }

    fn world(says: Option<&'static str>) -> (Arc<Script>, Introspection) {
        let script = Arc::new(Script { says, asked: AtomicUsize::new(0) });
        let settings = IntrospectionSettings {
            endpoint: "https://login.example.org/introspect".to_owned(),
            client_id: "leasehold".to_owned(),
            client_secret: Secret::new("secret"),
            audiences: vec!["leasehold".to_owned()],
            name_claim: ClaimPath::new("sub"),
            groups_claim: ClaimPath::new("scope"),
            name_prefix: String::new(),
            group_prefix: String::new(),
            cache_us: 30_000_000,
        };
        let fetch: Arc<dyn Fetch> = Arc::<Script>::clone(&script);
        (script, Introspection::new(settings, fetch))
    }

    fn at(seconds: u64) -> Now {
        Now { unix_s: 1_000 + seconds, mono_us: seconds * 1_000_000 }
    }

    async fn check(it: &Introspection, token: &str, now: Now) -> Result<String, IntrospectError> {
        let known = it.known(&Digest::of(token.as_bytes()), now);
        let outcome = if let Some(known) = known { known } else { it.ask(token, now).await };
        outcome.map(|principal| format!("{} {}", principal.name, principal.groups.join("+")))
    }

    #[tokio::test]
    async fn an_answer_is_kept_for_a_while_and_no_longer_than_the_token_lives() {
        let says = r#"{"active": true, "sub": "ci", "aud": ["x", "leasehold"], "scope": "a b", "exp": 1050}"#;
        let (script, it) = world(Some(says));
        for (seconds, asked) in [(0, 1), (29, 1), (30, 2), (49, 2)] {
            assert_eq!(check(&it, "opaque-1", at(seconds)).await, Ok("ci a+b".to_owned()));
            assert_eq!(script.asked.load(Ordering::SeqCst), asked, "after {seconds} s");
        }
        assert_eq!(check(&it, "opaque-1", at(50)).await, Err(IntrospectError::Inactive), "expired while kept");
        assert_eq!(script.asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn what_is_not_ours_or_not_active_is_refused_and_remembered() {
        for (says, expected) in [
            (r#"{"active": false}"#, IntrospectError::Inactive),
            (r#"{"active": "true", "sub": "ci", "aud": "leasehold"}"#, IntrospectError::Inactive),
            (r#"{"active": true, "sub": "ci", "aud": "leasehold", "exp": 1000}"#, IntrospectError::Inactive),
            (r#"{"active": true, "sub": "ci", "aud": "leasehold", "exp": "9"}"#, BearerError::WrongKind("exp").into()),
            (r#"{"active": true, "sub": "ci", "aud": "billing"}"#, BearerError::WrongAudience.into()),
            (r#"{"active": true, "sub": "ci"}"#, BearerError::WrongAudience.into()),
            (r#"{"active": true, "aud": "leasehold"}"#, BearerError::BadName.into()),
        ] {
            let (script, it) = world(Some(says));
            for _ in 0..3 {
                assert_eq!(check(&it, "opaque-1", at(0)).await, Err(expected.clone()), "{says}");
            }
            assert_eq!(script.asked.load(Ordering::SeqCst), 1, "{says}");
        }
    }

    #[tokio::test]
    async fn an_outage_is_not_remembered_and_nobody_is_let_in() {
        for says in [None, Some("<html>"), Some(r#"{"active": false, "active": true}"#)] {
            let (script, it) = world(says);
            for _ in 0..2 {
                assert_eq!(check(&it, "opaque-1", at(0)).await, Err(IntrospectError::Unavailable), "{says:?}");
            }
            assert_eq!(script.asked.load(Ordering::SeqCst), 2);
        }
    }

    #[tokio::test]
    async fn many_tokens_leave_the_table_bounded() {
        let (_, it) = world(Some(r#"{"active": false}"#));
        for number in 0..11_000 {
            let _ = check(&it, &format!("opaque-{number}"), at(0)).await;
        }
        assert!(it.answers.lock().unwrap().len() <= ENTRIES_MAX);
    }
}
