//! Tokens of a real OpenID provider: accepted, refused, while its keys change, and while it is away.

use std::time::Duration;

use super::provider::Provider;
use super::support::{Guarded, Member};
use crate::support::{PATIENCE, Response, until};

const POLICIES: &str = r#"
[[policy]]
groups = ["builders"]
actions = ["inspect", "acquire", "update-own"]
"#;

fn jwt_config(provider: &Provider) -> String {
    let issuer = provider.issuer();
    format!("[auth.oidc]\nissuer = \"{issuer}\"\naudience = \"leasehold\"\nkeys_cooldown = \"1s\"\n{POLICIES}")
}

fn ask(it: &Guarded, token: &str) -> Response {
    let member = Member { token: token.to_owned(), snippet: String::new() };
    it.ask(Some(&member), "GET", "/v1/claims/", "")
}

#[test]
fn real_tokens_are_accepted_whatever_they_are_signed_with() {
    let provider = Provider::start();
    let it = Guarded::start(&jwt_config(&provider));
    for algorithm in ["RS256", "PS256", "ES256", "ES384", "EdDSA"] {
        let token = provider.token("ci", &format!("urn:leasehold:{algorithm}"));
        ask(&it, &token).expect(200);
        let member = Member { token, snippet: String::new() };
        let me = it.ask(Some(&member), "GET", "/v1/whoami", "").expect(200).json();
        assert_eq!((&me["name"], &me["source"], &me["groups"][0]), (&"ci".into(), &"oidc".into(), &"builders".into()));
        let claim = it.ask(Some(&member), "POST", "/v1/claims/", r#"{"resource": "x", "timeout": 60}"#);
        assert_eq!(claim.text("owner"), "ci");
    }
    let stranger = ask(&it, &provider.token("stranger", "urn:leasehold:RS256")).expect(403);
    assert_eq!(stranger.text("error"), "stranger needs the action 'inspect' on some claims");
    let mut forged = provider.token("stranger", "urn:leasehold:ES256");
    forged.replace_range(60..61, if &forged[60..61] == "A" { "B" } else { "A" });
    ask(&it, &forged).expect(401);
    let opaque = ask(&it, &provider.token("ci", "urn:opaque")).expect(401);
    assert_eq!(opaque.text("error"), "the token is of a kind that is not accepted here");
}

/// Ten bad tokens of one address, and every JWT of that address had to wait that was not seen a moment ago.
#[test]
fn a_forger_does_not_lock_out_its_neighbours() {
    let provider = Provider::start();
    let it = Guarded::start(&jwt_config(&provider));
    let good: Vec<String> = (0..3).map(|_| provider.token("ci", "urn:leasehold:ES256")).collect();
    let forged = provider.token("ci", "urn:leasehold:ES256");
    let refused: Vec<u16> = (0..30)
        .map(|number: usize| {
            let mut forged = forged.clone();
            // In the signature, each time elsewhere.
            let at = forged.len() - 40 + number % 30;
            forged.replace_range(at..=at, if &forged[at..=at] == "A" { "B" } else { "A" });
            ask(&it, &forged).status
        })
        .collect();
    assert_eq!((&refused[..10], &refused[10..]), (&[401; 10][..], &[429; 20][..]));
    for token in &good {
        ask(&it, token).expect(200);
    }
}

#[test]
fn keys_rotate_while_serving() {
    let provider = Provider::start();
    let it = Guarded::start(&jwt_config(&provider));
    let used = provider.token("ci", "urn:leasehold:ES256");
    let unused = provider.token("ci", "urn:leasehold:ES256");
    ask(&it, &used).expect(200);
    provider.rotate();
    let new = provider.token("ci", "urn:leasehold:ES256");
    // At most the cooldown later, the new key is known.
    until("the new key is found", PATIENCE, || (ask(&it, &new).status == 200).then_some(()));
    // As often as the new key was asked for before it was known, this address may have to wait before it is told why.
    let refused =
        until("the old key is unknown", PATIENCE, || Some(ask(&it, &unused)).filter(|refused| refused.status == 401));
    assert_eq!(refused.text("error"), "the provider has no key with the token's kid");
    ask(&it, &used).expect(200);
}

#[test]
fn a_provider_that_is_away_is_waited_for_and_missed_by_nobody() {
    let provider = Provider::start();
    let config = jwt_config(&provider);
    let tokens: Vec<String> = (0..2).map(|_| provider.token("ci", "urn:leasehold:RS256")).collect();
    let port = provider.addr.port();
    let it = Guarded::start(&config);
    ask(&it, &tokens[0]).expect(200);
    drop(provider);
    // Its keys are known, so no caller notices: neither with a token that was seen before nor with one that was not.
    ask(&it, &tokens[0]).expect(200);
    ask(&it, &tokens[1]).expect(200);

    let early = Guarded::start(&config);
    let unavailable = ask(&early, &tokens[0]).expect(503);
    assert_eq!(unavailable.text("error"), "the keys of the sign-on provider cannot be had at the moment");
    assert_eq!(unavailable.header("retry-after"), Some("5"));
    early.ask(None, "GET", "/healthz", "").expect(200);

    let back = Provider::start_on(port);
    let fresh = back.token("ci", "urn:leasehold:RS256");
    for server in [&it, &early] {
        until("it is found again", Duration::from_secs(10), || (ask(server, &fresh).status == 200).then_some(()));
    }
}

#[test]
fn opaque_tokens_are_asked_about() {
    let provider = Provider::start();
    let it = Guarded::start(&format!(
        "[auth.introspection]\nendpoint = \"{}/token/introspection\"\nclient_id = \"asker\"\n\
         client_secret = \"may: ask+about tokens\"\naudience = \"leasehold\"\nname_claim = \"client_id\"\n\
         cache = \"0s\"\n{POLICIES}",
        provider.issuer()
    ));
    let token = provider.token("ci", "urn:opaque");
    ask(&it, &token).expect(200);
    ask(&it, &provider.token("stranger", "urn:opaque")).expect(403);
    provider.revoke("ci", &token);
    let revoked = ask(&it, &token).expect(401);
    assert_eq!(revoked.text("error"), "the provider does not know the token, or it has expired or was revoked");
    ask(&it, "never-issued").expect(401);
    let kept = provider.token("ci", "urn:opaque");
    drop(provider);
    let unavailable = ask(&it, &kept).expect(503);
    assert_eq!(unavailable.text("error"), "the sign-on provider cannot be asked about tokens at the moment");
}
