//! The provider as a script: what it publishes, whether it answers, and how often it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::bearer::tests::{Claims, ISSUER, NOW, Signer, expected, jwks};
use crate::fetch::{Fetched, Form};

const S_US: u64 = 1_000_000;
const DAY: u64 = 24 * 3600;

#[derive(Debug, Default)]
struct Script {
    /// The JWKS; none while the provider is down.
    published: Mutex<Option<Vec<u8>>>,
    asked: AtomicUsize,
}

impl Script {
    fn publish(&self, signers: &[&Signer]) {
        *self.published.lock().unwrap() = Some(jwks(signers));
    }

    fn go_down(&self) {
        *self.published.lock().unwrap() = None;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Fetch for Script {
    fn get<'a>(&'a self, url: &'a str) -> Fetched<'a> {
        Box::pin(async move {
            // Others get to run, so that a second question could slip in if it were let.
            tokio::task::yield_now().await;
            if url.ends_with("openid-configuration") {
                let text = json!({"issuer": ISSUER, "jwks_uri": "https://login.example.org/keys"}).to_string();
                return Ok(Bytes::from(text));
            }
            self.asked.fetch_add(1, Ordering::SeqCst);
            let published = self.published.lock().unwrap().clone();
            published.map(Bytes::from).ok_or_else(|| FetchError::TimedOut { url: url.to_owned() })
        })
    }

    fn post<'a>(&'a self, _: &'a str, _: Form) -> Fetched<'a> {
        unreachable!("keys are not asked for with a form")
    }
}

fn world() -> (Arc<Script>, Arc<Jwks>) {
    let script = Arc::new(Script::default());
    let source = KeySource { issuer: ISSUER.to_owned(), jwks_uri: None, allow_http: false };
    let fetch: Arc<dyn Fetch> = Arc::<Script>::clone(&script);
    (script, Arc::new(Jwks::new(source, RingSettings::default(), fetch)))
}

fn at(seconds: u64) -> Now {
    Now { unix_s: NOW.unix_s, mono_us: seconds * S_US }
}

async fn check(jwks: &Arc<Jwks>, token: &str, now: Now) -> Result<(), KeyError> {
    let unverified = Unverified::parse(token)?;
    let key = jwks.key_for(&unverified, now).await?;
    unverified.verify(&key, &expected(), now)?;
    Ok(())
}

/// The renewal in the background has come to its end.
async fn settled(script: &Script, jwks: &Jwks, asked: usize) {
    for _ in 0..1_000 {
        if script.asked() >= asked {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(jwks.flight.lock().await);
    assert_eq!(script.asked(), asked);
}

#[tokio::test]
async fn ten_thousand_made_up_key_ids_are_asked_about_at_most_twice() {
    let (script, jwks) = world();
    let signer = Signer::new("ES256", "k1");
    script.publish(&[&signer]);
    let good = signer.sign(&Claims::good());
    check(&jwks, &good, at(0)).await.unwrap();
    let mut tasks = Vec::new();
    for number in 0..10_000_u64 {
        let token = signer.sign_with(&[("kid", json!(format!("made-up-{number}")))], &Claims::good());
        let (jwks, now) = (Arc::clone(&jwks), at(31 + number / 400));
        tasks.push(tokio::spawn(async move { check(&jwks, &token, now).await }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), Err(KeyError::Token(BearerError::UnknownKey)));
    }
    check(&jwks, &good, at(60)).await.unwrap();
    println!("key ids: 10000 made up, the provider was asked {} times", script.asked());
    assert!(script.asked() <= 2, "asked {} times", script.asked());
}

#[tokio::test]
async fn a_thousand_at_once_share_the_first_answer() {
    let (script, jwks) = world();
    let signer = Signer::new("ES256", "k1");
    script.publish(&[&signer]);
    let token = signer.sign(&Claims::good());
    let tasks: Vec<_> = (0..1_000)
        .map(|_| {
            let (jwks, token) = (Arc::clone(&jwks), token.clone());
            tokio::spawn(async move { check(&jwks, &token, at(0)).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(script.asked(), 1);
}

#[tokio::test]
async fn a_new_key_is_found_and_an_old_one_forgotten() {
    let (script, jwks) = world();
    let (old, new) = (Signer::new("ES256", "old"), Signer::new("RS256", "new"));
    let (old_token, new_token) = (old.sign(&Claims::good()), new.sign(&Claims::good()));
    script.publish(&[&old]);
    check(&jwks, &old_token, at(0)).await.unwrap();
    script.publish(&[&new]);
    let unknown = Err(KeyError::Token(BearerError::UnknownKey));
    assert_eq!(check(&jwks, &new_token, at(29)).await, unknown, "the provider was asked just now");
    check(&jwks, &old_token, at(29)).await.unwrap();
    check(&jwks, &new_token, at(30)).await.unwrap();
    assert_eq!(check(&jwks, &old_token, at(31)).await, unknown, "the provider took it back");
    assert_eq!(script.asked(), 2);
}

#[tokio::test]
async fn an_outage_is_bridged_and_past_the_maximum_age_nothing_is_believed() {
    let (script, jwks) = world();
    let signer = Signer::new("ES256", "k1");
    let token = signer.sign(&Claims::good());
    script.go_down();
    assert_eq!(check(&jwks, &token, at(0)).await, Err(KeyError::Unavailable), "there was never a key");
    assert_eq!(check(&jwks, &token, at(1)).await, Err(KeyError::Unavailable));
    assert_eq!(script.asked(), 1, "not asked again at once");
    script.publish(&[&signer]);
    check(&jwks, &token, at(2)).await.unwrap();
    script.go_down();
    for (seconds, asked) in [(602, 3), (3_600, 4), (DAY + 1, 5)] {
        check(&jwks, &token, at(seconds)).await.unwrap();
        settled(&script, &jwks, asked).await;
    }
    assert_eq!(check(&jwks, &token, at(DAY + 2)).await, Err(KeyError::Unavailable), "too old to be believed");
    script.publish(&[&signer]);
    check(&jwks, &token, at(DAY + 10)).await.unwrap();
}

#[tokio::test]
async fn aging_keys_are_renewed_in_the_background() {
    let (script, jwks) = world();
    let (old, new) = (Signer::new("ES256", "old"), Signer::new("ES256", "new"));
    script.publish(&[&old]);
    let old_token = old.sign(&Claims::good());
    check(&jwks, &old_token, at(0)).await.unwrap();
    script.publish(&[&new]);
    check(&jwks, &old_token, at(600)).await.unwrap();
    settled(&script, &jwks, 2).await;
    let revoked = check(&jwks, &old_token, at(601)).await;
    assert_eq!(revoked, Err(KeyError::Token(BearerError::UnknownKey)));
}

#[tokio::test]
async fn discovery_is_held_against_the_issuer() {
    #[derive(Debug)]
    struct Answer(&'static str);
    impl Fetch for Answer {
        fn get<'a>(&'a self, _: &'a str) -> Fetched<'a> {
            Box::pin(async { Ok(Bytes::from_static(self.0.as_bytes())) })
        }
        fn post<'a>(&'a self, _: &'a str, _: Form) -> Fetched<'a> {
            unreachable!()
        }
    }
    for (document, allow_http, expected) in [
        (r#"{"issuer":"https://a","jwks_uri":"https://a/k"}"#, false, Ok("https://a/k")),
        (r#"{"issuer":"https://a","jwks_uri":"http://a/k"}"#, true, Ok("http://a/k")),
        (
            r#"{"issuer":"https://a","jwks_uri":"http://a/k"}"#,
            false,
            Err("it has no jwks_uri, or one that is not https"),
        ),
        (r#"{"issuer":"https://a","jwks_uri":"file:///k"}"#, true, Err("it has no jwks_uri, or one that is not https")),
        (
            r#"{"issuer":"https://a/","jwks_uri":"https://a/k"}"#,
            false,
            Err("its issuer is another than the one configured, to the letter"),
        ),
        ("<html>", false, Err("it is no JSON")),
    ] {
        let source = KeySource { issuer: "https://a".to_owned(), jwks_uri: None, allow_http };
        let jwks = Jwks::new(source, RingSettings::default(), Arc::new(Answer(document)));
        let found = jwks.discover().await;
        let found = found.as_ref().map(|provider| &*provider.jwks_uri).map_err(|error| match error {
            FetchError::Content { reason, .. } => *reason,
            other => panic!("{other}"),
        });
        assert_eq!(found, expected, "{document}");
    }
}
