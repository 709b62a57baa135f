//! A whole login against a scripted provider, and the errors on the way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::bearer::tests::{Claims, ISSUER, NOW, Signer, expected, jwks};
use crate::fetch::Fetched;
use crate::jwks::{KeySource, RingSettings};
use crate::secret::Secret;

/// A provider that gives out one id token.
#[derive(Debug)]
struct Script {
    keys: Vec<u8>,
    id_token: std::sync::Mutex<String>,
    /// The form that the code was redeemed with.
    redeemed: std::sync::Mutex<Option<Form>>,
    /// It does not answer, and how often it was asked.
    is_away: AtomicBool,
    asked: AtomicUsize,
}

impl Fetch for Script {
    fn get<'a>(&'a self, url: &'a str) -> Fetched<'a> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            if self.is_away.load(Ordering::Relaxed) {
                return Err(FetchError::Status { url: url.to_owned(), status: 503 });
            }
            Ok(if url.ends_with("openid-configuration") {
                let endpoint = |name: &str| format!("https://login.example.org/{name}");
                let text = json!({
                    "issuer": ISSUER, "jwks_uri": endpoint("keys"), "token_endpoint": endpoint("token"),
                    "authorization_endpoint": endpoint("authorize"),
                });
                Bytes::from(text.to_string())
            } else {
                Bytes::from(self.keys.clone())
            })
        })
    }

    fn post<'a>(&'a self, _: &'a str, form: Form) -> Fetched<'a> {
        *self.redeemed.lock().unwrap() = Some(form);
        Box::pin(async { Ok(Bytes::from(json!({"id_token": *self.id_token.lock().unwrap()}).to_string())) })
    }
}

struct Rig {
    script: Arc<Script>,
    signer: Signer,
    login: Login,
}

fn world() -> Rig {
    let signer = Signer::new("ES256", "k1");
    let script = Arc::new(Script {
        keys: jwks(&[&signer]),
        id_token: std::sync::Mutex::default(),
        redeemed: std::sync::Mutex::default(),
        is_away: AtomicBool::default(),
        asked: AtomicUsize::default(),
    });
    let fetch: Arc<dyn Fetch> = Arc::<Script>::clone(&script);
    let keys = KeySource { issuer: ISSUER.to_owned(), jwks_uri: None, allow_http: false };
    let oidc = OidcSettings {
        keys: keys.clone(),
        ring: RingSettings::default(),
        expected: expected(),
        login: Some(LoginSettings {
            client_id: "dash".to_owned(),
            client_secret: Some(Secret::new("s: %")),
            scopes: "openid profile".to_owned(),
            session_us: 3_600_000_000,
        }),
    };
    let jwks = Arc::new(Jwks::new(keys, RingSettings::default(), Arc::clone(&fetch)));
    let login = Login::new(&oidc, &jwks, &fetch, None).unwrap();
    assert!(login.is_for(&oidc));
    Rig { script, signer, login }
}

impl Rig {
    async fn begin(&self) -> (Begun, HashMap<String, String>) {
        let begun = self.login.begin("https://locks.example.org/callback".to_owned(), "/x?y=1", NOW).await.unwrap();
        let (_, query) = begun.location.split_once('?').unwrap();
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8().unwrap().into_owned();
        let query = query.split('&').map(|pair| pair.split_once('=').unwrap());
        (
            Begun { location: begun.location.clone(), flow: begun.flow },
            query.map(|(n, v)| (n.to_owned(), decode(v))).collect(),
        )
    }

    fn issue(&self, claims: &Claims) {
        *self.script.id_token.lock().unwrap() = self.signer.sign(claims);
    }
}

fn callback(state: &str) -> Callback {
    Callback { state: Some(state.to_owned()), code: Some("c0de".to_owned()), error: None }
}

/// Logins neither wait for it in line nor fill the log.
#[tokio::test]
async fn a_provider_that_is_away_is_left_alone_for_a_while() {
    let Rig { script, login, .. } = world();
    let begin = |after_us: u64| {
        let now = Now { mono_us: NOW.mono_us + after_us, ..NOW };
        login.begin("https://locks.example.org/callback".to_owned(), "/", now)
    };
    script.is_away.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        assert_eq!(begin(0).await.unwrap_err(), LoginError::Unavailable);
    }
    let asked = script.asked.load(Ordering::Relaxed);
    assert_eq!(begin(PROVIDER_AWAY_US - 1).await.unwrap_err(), LoginError::Unavailable);
    assert_eq!((asked, script.asked.load(Ordering::Relaxed)), (1, 1));
    script.is_away.store(false, Ordering::Relaxed);
    begin(PROVIDER_AWAY_US).await.unwrap();
}

#[tokio::test]
async fn a_login_from_beginning_to_end() {
    let world = world();
    let (begun, asked) = world.begin().await;
    assert!(begun.location.starts_with("https://login.example.org/authorize?"));
    assert_eq!(
        (&*asked["client_id"], &*asked["scope"], &*asked["code_challenge_method"]),
        ("dash", "openid profile", "S256")
    );
    world.issue(&Claims::good().with("aud", &json!("dash")).with("nonce", &json!(asked["nonce"])));
    let finished = world.login.finish(callback(&asked["state"]), Some(&begun.flow), NOW).await.unwrap();
    assert_eq!((&*finished.return_to, finished.lasts_s), ("/x?y=1", 3_600));

    let form = world.script.redeemed.lock().unwrap().clone().unwrap();
    assert!(form.authorization.is_some());
    let verifier = form.body.split('&').find_map(|pair| pair.strip_prefix("code_verifier=")).unwrap();
    let verifier = percent_encoding::percent_decode_str(verifier).decode_utf8().unwrap();
    let challenge = URL_SAFE_NO_PAD.encode(Digest::of(verifier.as_bytes()).bytes());
    assert_eq!(challenge, asked["code_challenge"]);

    let later = |seconds| Now { unix_s: NOW.unix_s + seconds, ..NOW };
    let principal = world.login.session(&finished.session, later(3_599)).unwrap();
    assert_eq!((&*principal.name, &*principal.groups[0], principal.source), ("alice", "staff", Source::Session));
    assert_eq!(world.login.session(&finished.session, later(3_600)), None);
    assert_eq!(world.login.session(&begun.flow, NOW), None, "sealed for something else");
    let mut changed = finished.session.clone().into_bytes();
    changed[40] ^= 1;
    assert_eq!(world.login.session(std::str::from_utf8(&changed).unwrap(), NOW), None);
    assert_eq!(self::world().login.session(&finished.session, NOW), None, "another process");
}

#[tokio::test]
async fn what_does_not_belong_together_is_refused() {
    let world = world();
    let (begun, asked) = world.begin().await;
    let (other, other_asked) = world.begin().await;
    let good = || Claims::good().with("aud", &json!("dash")).with("nonce", &json!(asked["nonce"]));
    world.issue(&good());
    let late = Now { unix_s: NOW.unix_s + 600, ..NOW };
    let refused = Callback { error: Some("access_denied <b>".to_owned()), ..callback(&asked["state"]) };
    for (callback, flow, now, expected) in [
        (callback(&asked["state"]), None, NOW, LoginError::NoFlow),
        (callback(&asked["state"]), Some("rubbish"), NOW, LoginError::NoFlow),
        (callback(&asked["state"]), Some(&*begun.flow), late, LoginError::NoFlow),
        (callback(&other_asked["state"]), Some(&*begun.flow), NOW, LoginError::WrongState),
        (Callback::default(), Some(&*begun.flow), NOW, LoginError::WrongState),
        (refused, Some(&*begun.flow), NOW, LoginError::Refused("access_denied<b>".to_owned())),
        // The token of one login in the flow of another.
        (callback(&other_asked["state"]), Some(&*other.flow), NOW, LoginError::Token(BearerError::WrongNonce)),
    ] {
        let outcome = world.login.finish(callback, flow, now).await;
        assert_eq!(outcome.map(|finished| finished.principal).unwrap_err(), expected);
    }
    for (claims, expected) in [
        (good().with("aud", &json!("leasehold")), BearerError::WrongAudience),
        (good().with("exp", &json!(NOW.unix_s - 60)), BearerError::Expired),
        (Claims::good().with("aud", &json!("dash")), BearerError::WrongNonce),
    ] {
        world.issue(&claims);
        let outcome = world.login.finish(callback(&asked["state"]), Some(&begun.flow), NOW).await;
        assert_eq!(outcome.map(|finished| finished.principal).unwrap_err(), LoginError::Token(expected));
    }
    let many: Vec<String> = (0..200).map(|number| format!("a group with a rather long name {number}")).collect();
    world.issue(&good().with("groups", &json!(many)));
    let outcome = world.login.finish(callback(&asked["state"]), Some(&begun.flow), NOW).await;
    assert_eq!(outcome.map(|finished| finished.principal).unwrap_err(), LoginError::TooManyGroups);
}

#[test]
fn nobody_is_sent_elsewhere() {
    for (wanted, expected) in [
        ("/", "/"),
        ("/a?b=c#d", "/a?b=c#d"),
        ("", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("/a\r\nset-cookie: x", "/"),
    ] {
        assert_eq!(local_path(wanted), expected, "{wanted:?}");
    }
}

/// The cookie of a session that was ended is worth nothing, also where it was copied to, and so are the name's others.
#[tokio::test]
async fn a_logout_ends_every_session_of_the_name() {
    let world = world();
    let at = |seconds: u64| Now { unix_s: NOW.unix_s + seconds, mono_us: NOW.mono_us + seconds * 1_000_000 };
    let log_in = async |seconds: u64| {
        let (begun, asked) = world.begin().await;
        world.issue(&Claims::good().with("aud", &json!("dash")).with("nonce", &json!(asked["nonce"])));
        world.login.finish(callback(&asked["state"]), Some(&begun.flow), at(seconds)).await.unwrap().session
    };
    let (here, elsewhere) = (log_in(1).await, log_in(2).await);
    assert!(world.login.session(&here, at(3)).is_some() && world.login.session(&elsewhere, at(3)).is_some());
    assert_eq!(world.login.end("nonsense", at(3)), None);
    assert_eq!(world.login.end(&here, at(3)).as_deref(), Some("alice"));
    assert!(world.login.session(&here, at(4)).is_none() && world.login.session(&elsewhere, at(4)).is_none());
    assert_eq!(world.login.end(&here, at(4)), None, "it is over");
    let again = log_in(5).await;
    assert!(world.login.session(&again, at(6)).is_some());
}
