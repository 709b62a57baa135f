//! Tokens as a provider signs them, and as forgers do: each forgery is refused, and for the right reason.

mod forge;

use serde_json::json;

pub(crate) use forge::{Claims, Signer, jwks};

use super::*;
use crate::identity::Source;

pub(crate) const NOW: Now = Now { unix_s: 1_800_000_000, mono_us: 0 };
pub(crate) const ISSUER: &str = "https://login.example.org/realms/x";

pub(crate) fn expected() -> Expected {
    Expected {
        issuer: ISSUER.to_owned(),
        audiences: vec!["leasehold".to_owned(), "other-name".to_owned()],
        name_claim: ClaimPath::new("sub"),
        groups_claim: ClaimPath::new("groups"),
        name_prefix: String::new(),
        group_prefix: String::new(),
        nonce: None,
    }
}

/// As the service does it: take apart, look the key up, verify.
fn check(token: &str, keys: &[VerifyingKey]) -> Result<Verified, BearerError> {
    let unverified = Unverified::parse(token)?;
    let named = |key: &&VerifyingKey| unverified.kid.is_none() || key.kid() == unverified.kid.as_deref();
    let key = keys.iter().find(named).ok_or(BearerError::UnknownKey)?;
    unverified.verify(key, &expected(), NOW)
}

#[test]
fn every_algorithm_there_is_verifies() {
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"] {
        let signer = Signer::new(algorithm, "k1");
        let verified = check(&signer.sign(&Claims::good()), &signer.published()).unwrap();
        assert_eq!(&*verified.principal.name, "alice", "{algorithm}");
        assert_eq!(verified.principal.source, Source::Oidc);
        assert_eq!(verified.expires_at_s, NOW.unix_s + 300 + 30);
    }
}

#[test]
fn claims_that_are_right_in_other_ways() {
    let signer = Signer::new("ES256", "k1");
    let keys = signer.published();
    for (claim, value) in [
        ("aud", json!(["x", "other-name"])),
        ("exp", json!(1_800_000_300.75)),
        // Within the leeway.
        ("exp", json!(NOW.unix_s - 29)),
        ("nbf", json!(NOW.unix_s + 30)),
        ("iat", json!(NOW.unix_s + 30)),
        ("unknown", json!({"deep": [1, 2, {"x": null}]})),
        ("groups", json!(null)),
    ] {
        let token = signer.sign(&Claims::good().with(claim, &value));
        assert!(check(&token, &keys).is_ok(), "{claim} {value}");
    }
    for (header, value) in [("typ", json!("at+jwt")), ("typ", json!("application/at+jwt")), ("typ", json!("jwt"))] {
        assert!(check(&signer.sign_with(&[(header, value.clone())], &Claims::good()), &keys).is_ok(), "{value}");
    }
}

#[test]
fn names_and_groups_are_found_where_the_settings_say() {
    let claims = json!({
        "sub": "1234", "preferred_username": "alice", "scope": "read write", "groups": ["a", "b"],
        "realm_access": {"roles": ["admin"]}, "https://example.org/groups": ["x"]
    });
    let Value::Object(claims) = claims else { unreachable!() };
    for (name, groups, expected_name, expected_groups) in [
        ("sub", "groups", "p:1234", &["g:a", "g:b"][..]),
        ("preferred_username", "realm_access.roles", "p:alice", &["g:admin"]),
        ("sub", "https://example.org/groups", "p:1234", &["g:x"]),
        ("sub", "scope", "p:1234", &["g:read", "g:write"]),
        ("sub", "nowhere.at.all", "p:1234", &[]),
    ] {
        let expected = Expected {
            name_claim: ClaimPath::new(name),
            groups_claim: ClaimPath::new(groups),
            name_prefix: "p:".to_owned(),
            group_prefix: "g:".to_owned(),
            ..expected()
        };
        let principal = expected.principal(&claims, Source::Oidc).unwrap();
        assert_eq!(&*principal.name, expected_name);
        assert_eq!(principal.groups.iter().map(|group| &**group).collect::<Vec<_>>(), expected_groups);
    }
}

#[test]
fn forged_and_broken_tokens_are_refused_each_for_its_reason() {
    let rsa = Signer::new("RS256", "rsa");
    let ec = Signer::new("ES256", "ec");
    let stranger = Signer::new("RS256", "rsa");
    let keys: Vec<VerifyingKey> = rsa.published().into_iter().chain(ec.published()).collect();
    let good = Claims::good();
    let token = rsa.sign(&good);
    assert!(check(&token, &keys).is_ok());
    let with = |claim: &str, value: Value| rsa.sign(&Claims::good().with(claim, &value));
    let without = |claim: &str| rsa.sign(&Claims::good().without(claim));
    let headed = |name: &str, value: Value| rsa.sign_with(&[(name, value)], &Claims::good());
    let (head, rest) = token.split_once('.').unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let evil_body = forge::encode(&json!({"sub": "root", "iss": ISSUER, "aud": "leasehold", "exp": NOW.unix_s + 300}));
    let none_head = forge::encode(&json!({"alg": "none", "kid": "rsa"}));
    let forgeries: Vec<(&str, String, BearerError)> = vec![
        ("no signature, alg none", format!("{none_head}.{evil_body}."), BearerError::UnknownAlgorithm),
        ("alg None", format!("{}.{body}.", forge::encode(&json!({"alg": "None"}))), BearerError::UnknownAlgorithm),
        ("alg none with a signature", format!("{none_head}.{body}.{signature}"), BearerError::UnknownAlgorithm),
        ("the public key as a shared secret", rsa.as_shared_secret(&good), BearerError::UnknownAlgorithm),
        ("no alg", format!("{}.{body}.{signature}", forge::encode(&json!({"kid": "rsa"}))), BearerError::NoAlgorithm),
        ("alg a number", headed("alg", json!(256)), BearerError::NoAlgorithm),
        ("alg ES256 with the RSA key", headed("alg", json!("ES256")), BearerError::WrongAlgorithmForKey),
        ("the RSA key's name on an EC token", ec.sign_with(&[("kid", json!("rsa"))], &good), {
            BearerError::WrongAlgorithmForKey
        }),
        ("alg the key is not for", Signer::new("RS512", "rsa").sign(&good), BearerError::WrongAlgorithmForKey),
        ("a foreign key of the same name", stranger.sign(&good), BearerError::BadSignature),
        ("an unknown kid", headed("kid", json!("other")), BearerError::UnknownKey),
        ("kid a number", headed("kid", json!(7)), BearerError::BadKid),
        ("kid too long", headed("kid", json!("k".repeat(513))), BearerError::BadKid),
        ("its own jwk", stranger.sign_with(&[("jwk", stranger.jwk())], &good), BearerError::BringsItsKey("jwk")),
        ("a jku", headed("jku", json!("https://evil.example/jwks")), BearerError::BringsItsKey("jku")),
        ("an x5u", headed("x5u", json!("https://evil.example/x5")), BearerError::BringsItsKey("x5u")),
        ("an x5c", headed("x5c", json!(["AAAA"])), BearerError::BringsItsKey("x5c")),
        ("crit", headed("crit", json!(["exp"])), BearerError::Critical),
        ("compressed", headed("zip", json!("DEF")), BearerError::Critical),
        ("a logout token", headed("typ", json!("logout+jwt")), BearerError::WrongType),
        ("typ a number", headed("typ", json!(1)), BearerError::WrongType),
        ("another's claims", format!("{head}.{evil_body}.{signature}"), BearerError::BadSignature),
        ("one bit of the signature", forge::flip_bit(&token), BearerError::BadSignature),
        ("the signature cut short", token[..token.len() - 2].to_owned(), BearerError::BadSignature),
        ("no signature", format!("{head}.{body}."), BearerError::NotBase64("signature")),
        ("padded base64", format!("{token}=="), BearerError::NotBase64("signature")),
        ("standard base64", format!("{head}.{body}.+/{}", &signature[2..]), BearerError::NotBase64("signature")),
        ("two parts", format!("{head}.{body}"), BearerError::NotThreeParts),
        ("one part", head.to_owned(), BearerError::NotThreeParts),
        ("four parts", format!("{token}.{signature}"), BearerError::NotThreeParts),
        ("encrypted, five parts", format!("{head}..{body}.{signature}.x"), BearerError::NotThreeParts),
        ("a header that is no JSON", format!("{}.{body}.{signature}", forge::encode_raw("nope")), {
            BearerError::NotJson("header")
        }),
        ("a header that is a list", format!("{}.{body}.{signature}", forge::encode_raw("[]")), {
            BearerError::NotJson("header")
        }),
        ("alg twice", format!("{}.{body}.x", forge::encode_raw(r#"{"alg":"RS256","alg":"none"}"#)), {
            BearerError::NotJson("header")
        }),
        ("iss twice", rsa.sign_raw(&good.twice("iss", &json!("https://evil.example"))), BearerError::NotJson("claims")),
        ("sub twice", rsa.sign_raw(&good.twice("sub", &json!("root"))), BearerError::NotJson("claims")),
        ("claims that are a string", rsa.sign_raw("\"root\""), BearerError::NotJson("claims")),
        ("garbage after the claims", rsa.sign_raw(&format!("{} x", good.text())), BearerError::NotJson("claims")),
        ("another issuer", with("iss", json!("https://evil.example")), BearerError::WrongIssuer),
        ("the issuer and a slash", with("iss", json!(format!("{ISSUER}/"))), BearerError::WrongIssuer),
        ("issuers in a list", with("iss", json!([ISSUER])), BearerError::WrongKind("iss")),
        ("no issuer", without("iss"), BearerError::Missing("iss")),
        ("another audience", with("aud", json!("billing")), BearerError::WrongAudience),
        ("no audience in the list", with("aud", json!([])), BearerError::WrongAudience),
        ("audience of another type", with("aud", json!(["leasehold", 7])), BearerError::WrongKind("aud")),
        ("no audience", without("aud"), BearerError::Missing("aud")),
        ("expired", with("exp", json!(NOW.unix_s - 30)), BearerError::Expired),
        ("expired long ago", with("exp", json!(0)), BearerError::Expired),
        ("exp a string", with("exp", json!("9999999999")), BearerError::WrongKind("exp")),
        ("exp negative", with("exp", json!(-1)), BearerError::WrongKind("exp")),
        ("exp absurd", with("exp", json!(1e300)), BearerError::WrongKind("exp")),
        ("exp null", with("exp", json!(null)), BearerError::WrongKind("exp")),
        ("no exp", without("exp"), BearerError::Missing("exp")),
        ("nbf in the future", with("nbf", json!(NOW.unix_s + 31)), BearerError::NotYet),
        ("nbf a string", with("nbf", json!("0")), BearerError::WrongKind("nbf")),
        ("issued in the future", with("iat", json!(NOW.unix_s + 3_600)), BearerError::NotYet),
        ("no name", without("sub"), BearerError::BadName),
        ("an empty name", with("sub", json!("")), BearerError::BadName),
        ("a name with a line break", with("sub", json!("root\nalice")), BearerError::BadName),
        ("a name that is a number", with("sub", json!(0)), BearerError::BadName),
        ("a name that is too long", with("sub", json!("x".repeat(257))), BearerError::BadName),
        ("groups that are an object", with("groups", json!({"operators": true})), BearerError::BadGroups),
        ("a group that is a number", with("groups", json!(["a", 7])), BearerError::BadGroups),
        ("too many groups", with("groups", json!(vec!["g"; 1_001])), BearerError::BadGroups),
        ("oversized", with("padding", json!("x".repeat(12_000))), BearerError::TooLong),
        ("nothing", String::new(), BearerError::NotThreeParts),
    ];
    for (what, token, expected) in &forgeries {
        assert_eq!(check(token, &keys), Err(*expected), "{what}");
    }
    println!("tokens: {} forged or broken ones, each refused for its reason", forgeries.len());
    assert!(forgeries.len() >= 25);
}

#[test]
fn keys_that_are_not_for_this_are_passed_over() {
    let good = Signer::new("RS256", "good");
    let mut published: Vec<Value> = vec![
        json!({"kty": "oct", "kid": "shared", "k": "c2VjcmV0"}),
        json!({"kty": "RSA", "kid": "small", "n": "AQAB", "e": "AQAB"}),
        json!({"kty": "EC", "crv": "P-521", "kid": "p521", "x": "AA", "y": "AA"}),
        json!({"kty": "XX", "kid": "odd"}),
        json!("not even an object"),
    ];
    for (name, value) in [("use", json!("enc")), ("key_ops", json!(["encrypt"])), ("alg", json!("HS256"))] {
        let mut jwk = good.jwk();
        jwk["kid"] = json!(name);
        jwk[name] = value;
        published.push(jwk);
    }
    published.push(good.jwk());
    let keys = keys_of(json!({"keys": published}).to_string().as_bytes()).unwrap();
    assert_eq!(keys.iter().filter_map(VerifyingKey::kid).collect::<Vec<_>>(), ["good"]);
    for nothing in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":[],"keys":[]}"#] {
        assert!(keys_of(nothing.as_bytes()).is_none(), "{nothing}");
    }
}
