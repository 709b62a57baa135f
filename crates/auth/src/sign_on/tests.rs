//! Several sources at once: which one decides, and the cost of a failure.

use http::HeaderValue;

use super::*;
use crate::fetch::{FetchError, Fetched, Form};
use crate::proxy::{Preset, ProxySettings};
use crate::secret::Secret;
use crate::token::TokenSettings;

#[derive(Debug)]
struct Nobody;

impl Fetch for Nobody {
    fn get<'a>(&'a self, url: &'a str) -> Fetched<'a> {
        Box::pin(async move { Err(FetchError::TimedOut { url: url.to_owned() }) })
    }

    fn post<'a>(&'a self, url: &'a str, _: Form) -> Fetched<'a> {
        self.get(url)
    }
}

const PROXY: &str = "10.0.0.5";
const ELSEWHERE: &str = "192.0.2.1";
const NOW: Now = Now { unix_s: 1_000, mono_us: 0 };

fn sign_on() -> (SignOn, String) {
    let (secret, digest) = token::make();
    let preset = Preset::Nginx;
    let settings = SignOnSettings {
        tokens: vec![TokenSettings { name: "ci".into(), digest, groups: Vec::new(), expires_at_s: None }],
        proxy: Some(ProxySettings {
            from: vec!["10.0.0.5/32".parse().unwrap()],
            secret_header: http::HeaderName::from_static("x-secret"),
            secret: Secret::new("s3cret"),
            user_header: preset.user_header(),
            groups_header: None,
            groups_separator: ',',
            name_prefix: String::new(),
            group_prefix: String::new(),
        }),
        certificates: Some(crate::certificate::CertificateSettings::default()),
        ..SignOnSettings::default()
    };
    let fetch: Arc<dyn Fetch> = Arc::new(Nobody);
    (SignOn::new(settings, &fetch, None, None), format!("Bearer {}", secret.expose()))
}

fn look(
    it: &SignOn,
    peer: &str,
    headers: &[(&'static str, &str)],
    cert: Option<ClientCert<'_>>,
) -> Result<String, Refused> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let peer = peer.parse().unwrap();
    let evidence = Evidence { headers: &map, peer, client: peer, is_encrypted: false, certificate: cert, now: NOW };
    match it.look(&evidence)? {
        Looked::Known(identity) => Ok(identity
            .principal()
            .map_or("nobody".to_owned(), |principal| format!("{} by {}", principal.name, principal.source.as_str()))),
        Looked::Ask(_) => Ok("to be asked".to_owned()),
    }
}

#[test]
fn the_first_source_that_has_something_to_say_decides() {
    let (it, bearer) = sign_on();
    let cert = certificate();
    let (secret, user) = (("x-secret", "s3cret"), ("x-remote-user", "alice"));
    let token = ("authorization", &*bearer);
    for (peer, headers, cert, expected) in [
        (ELSEWHERE, &[][..], None, "nobody"),
        (ELSEWHERE, &[token], None, "ci by token"),
        (ELSEWHERE, &[], Some(cert), "host-7 by certificate"),
        (ELSEWHERE, &[token], Some(cert), "ci by token"),
        (PROXY, &[secret, user, token], Some(cert), "alice by proxy"),
        (PROXY, &[secret, token], None, "ci by token"),
        // The certificate is the proxy's own, and the proxy has no principal.
        (PROXY, &[secret], Some(cert), "nobody"),
        (PROXY, &[secret, ("x-remote-user", "(null)")], Some(cert), "nobody"),
        (PROXY, &[secret, user, ("authorization", "Basic eDp5")], None, "alice by proxy"),
    ] {
        assert_eq!(look(&it, peer, headers, cert).as_deref(), Ok(expected), "{peer} {headers:?}");
    }
}

#[test]
fn a_wrong_credential_is_refused_and_not_passed_over() {
    let (it, _) = sign_on();
    let cert = certificate();
    for (peer, headers) in [
        (ELSEWHERE, [("authorization", "Bearer lh_wrong")]),
        (ELSEWHERE, [("authorization", "Bearer eyJ.eyJ.x")]),
        (ELSEWHERE, [("authorization", "Basic eDp5")]),
        (ELSEWHERE, [("authorization", "Basic nonsense")]),
        (ELSEWHERE, [("authorization", "Digest eDp5")]),
        (ELSEWHERE, [("x-remote-user", "root")]),
        (PROXY, [("x-remote-user", "root")]),
    ] {
        let refused = look(&it, peer, &headers, Some(cert));
        assert!(matches!(refused, Err(Refused::Invalid { .. })), "{headers:?} {refused:?}");
    }
}

#[test]
fn basic_brings_an_api_token_and_its_name() {
    use base64::Engine as _;
    let (it, bearer) = sign_on();
    let token = bearer.strip_prefix("Bearer ").unwrap();
    let basic = |pair: String| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    let told = |pair: String| match look(&it, ELSEWHERE, &[("authorization", &basic(pair))], None) {
        Err(Refused::Invalid { source: Some(Source::Token), reason }) => Err(reason.into_owned()),
        other => Ok(other),
    };
    for user in ["ci", "-"] {
        assert_eq!(told(format!("{user}:{token}")), Ok(Ok("ci by token".to_owned())), "{user}");
    }
    let wrong_user = "the user must be the name of the API token that is the password, or -";
    let unknown = "the API token is unknown or was revoked";
    for (pair, reason) in [
        (format!(":{token}"), wrong_user),
        (format!("alice:{token}"), wrong_user),
        // A wrong password is told the same way whether or not the user is one.
        (format!("ci:{}", &token[..token.len() - 1]), unknown),
        ("alice:".to_owned(), unknown),
        ("ci:eyJ.eyJ.x".to_owned(), unknown),
    ] {
        assert_eq!(told(pair.clone()), Err(reason.to_owned()), "{pair}");
    }
    // Ten failures with Basic or Bearer count together: five were above.
    for _ in 0..5 {
        assert!(told("ci:lh_wrong".to_owned()).is_err());
    }
    let wrong = [("authorization", "Bearer lh_wrong")];
    assert_eq!(look(&it, ELSEWHERE, &wrong, None), Err(Refused::TooMany { retry_after_s: 6 }));
    assert_eq!(told(format!("ci:{token}")), Ok(Ok("ci by token".to_owned())), "a valid one is served all the same");
}

#[test]
fn failures_are_held_against_the_address_but_not_against_the_proxy() {
    let (it, bearer) = sign_on();
    let wrong = [("authorization", "Bearer lh_wrong")];
    for _ in 0..10 {
        assert!(matches!(look(&it, ELSEWHERE, &wrong, None), Err(Refused::Invalid { .. })));
    }
    assert_eq!(look(&it, ELSEWHERE, &wrong, None), Err(Refused::TooMany { retry_after_s: 6 }));
    assert_eq!(look(&it, ELSEWHERE, &[("authorization", &bearer)], None).as_deref(), Ok("ci by token"));
    let relayed = [("x-secret", "s3cret"), ("authorization", "Bearer lh_wrong")];
    for _ in 0..30 {
        assert!(matches!(look(&it, PROXY, &relayed, None), Err(Refused::Invalid { .. })));
    }
}

#[test]
fn a_reload_forgets_tokens_but_not_failures() {
    let (it, bearer) = sign_on();
    for _ in 0..11 {
        let _ = look(&it, ELSEWHERE, &[("authorization", "Bearer lh_wrong")], None);
    }
    let fetch: Arc<dyn Fetch> = Arc::new(Nobody);
    let after = SignOn::new(SignOnSettings { tokens: Vec::new(), ..it.settings().clone() }, &fetch, Some(&it), None);
    assert!(matches!(look(&after, ELSEWHERE, &[("authorization", &bearer)], None), Err(Refused::TooMany { .. })));
}

/// A provider that publishes these keys.
#[derive(Debug)]
struct Provider(Vec<u8>);

impl Fetch for Provider {
    fn get<'a>(&'a self, _: &'a str) -> Fetched<'a> {
        Box::pin(async { Ok(self.0.clone().into()) })
    }

    fn post<'a>(&'a self, _: &'a str, _: Form) -> Fetched<'a> {
        unreachable!("keys are not asked for with a form")
    }
}

#[tokio::test]
async fn a_token_that_was_checked_a_moment_ago_is_not_trusted_past_its_end() {
    use crate::bearer::tests::{Claims, ISSUER, NOW, Signer, expected, jwks};
    let signer = Signer::new("ES256", "k1");
    let keys = crate::jwks::KeySource {
        issuer: ISSUER.to_owned(),
        jwks_uri: Some("https://login.example.org/keys".to_owned()),
        allow_http: false,
    };
    let oidc = OidcSettings { keys, ring: crate::jwks::RingSettings::default(), expected: expected(), login: None };
    let fetch: Arc<dyn Fetch> = Arc::new(Provider(jwks(&[&signer])));
    let it = SignOn::new(SignOnSettings { oidc: Some(oidc), ..SignOnSettings::default() }, &fetch, None, None);
    // It ends within the minute for which it is remembered, and has the leeway of half a minute after that.
    let token = signer.sign(&Claims::good().with("exp", &serde_json::json!(NOW.unix_s + 10)));
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap())]);
    let look = |after_s: u64| {
        let now = Now { unix_s: NOW.unix_s + after_s, mono_us: after_s * 1_000_000 };
        it.look(&evidence(&headers, now))
    };
    let Ok(Looked::Ask(question)) = look(0) else { panic!("it is new") };
    assert_eq!(&**it.ask(question).await.unwrap().name().unwrap(), "alice");
    assert!(matches!(look(39), Ok(Looked::Known(_))), "remembered");
    let Ok(Looked::Ask(question)) = look(40) else { panic!("remembered past its end") };
    let refused = it.ask(question).await;
    assert!(matches!(refused, Err(Refused::Invalid { source: Some(Source::Oidc), .. })), "{refused:?}");
}

fn evidence(headers: &HeaderMap, now: Now) -> Evidence<'_> {
    let peer = ELSEWHERE.parse().unwrap();
    Evidence { headers, peer, client: peer, is_encrypted: false, certificate: None, now }
}

/// Ten bad tokens made every JWT of the same address wait that was not checked a moment ago.
#[tokio::test]
async fn a_forger_does_not_lock_out_those_who_share_its_address() {
    use crate::bearer::tests::{Claims, ISSUER, NOW, Signer, expected, jwks};
    let (signer, forger) = (Signer::new("ES256", "k1"), Signer::new("ES256", "k1"));
    let keys = crate::jwks::KeySource {
        issuer: ISSUER.to_owned(),
        jwks_uri: Some("https://login.example.org/keys".to_owned()),
        allow_http: false,
    };
    let oidc = OidcSettings { keys, ring: crate::jwks::RingSettings::default(), expected: expected(), login: None };
    let fetch: Arc<dyn Fetch> = Arc::new(Provider(jwks(&[&signer])));
    let it = SignOn::new(SignOnSettings { oidc: Some(oidc), ..SignOnSettings::default() }, &fetch, None, None);
    let headers = |token: String| {
        HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap())])
    };
    for number in 0..50 {
        let wrong = headers(forger.sign(&Claims::good().with("n", &serde_json::json!(number))));
        let Ok(Looked::Ask(question)) = it.look(&evidence(&wrong, NOW)) else { panic!("a signature is to be checked") };
        let refused = it.ask(question).await.unwrap_err();
        assert_eq!(matches!(refused, Refused::TooMany { .. }), number >= 10, "{number}: {refused:?}");
    }
    for number in 0..20 {
        let good = headers(signer.sign(&Claims::good().with("n", &serde_json::json!(number))));
        let Ok(Looked::Ask(question)) = it.look(&evidence(&good, NOW)) else { panic!("{number} was locked out") };
        assert_eq!(&**it.ask(question).await.unwrap().name().unwrap(), "alice");
    }
}

#[test]
fn which_cookie_counts_is_said_by_the_scheme_alone() {
    for (sent, plain, secure) in [
        ("a=1; leasehold-session=x; b=2", Some("x"), None),
        ("leasehold-session=x; __Host-leasehold-session=y", Some("x"), Some("y")),
        ("__Host-leasehold-session=y", None, Some("y")),
        ("leasehold-session=1; leasehold-session=2", Some("1"), None),
        ("xleasehold-session=x", None, None),
        ("", None, None),
    ] {
        let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(sent))]);
        assert_eq!(SESSION_COOKIE.sent(&headers, false), plain, "{sent}");
        assert_eq!(SESSION_COOKIE.sent(&headers, true), secure, "{sent}");
    }
}

fn certificate() -> ClientCert<'static> {
    ClientCert { common_name: Some("host-7"), subject: "CN=host-7", sans: &[], not_after_s: u64::MAX }
}
