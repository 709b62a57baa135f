//! Tables about sign-on: a file goes in, settings or a sentence come out.

use super::*;

const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const TOKEN: &str = "[[auth.token]]\nname = \"ci\"\ndigest = \"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n";

/// A file called `f`; every other file has a secret in it.
fn load_text(text: &str) -> Result<Loaded, String> {
    let args = ServeArgs { config: Some("f".into()), ..ServeArgs::default() };
    let read = |path: &Path| match path.to_str() {
        Some("f") => Ok(text.to_owned()),
        Some("nowhere") => Err(std::io::ErrorKind::NotFound.into()),
        _ => Ok("a secret of its own file\n".to_owned()),
    };
    load(&args, [], read).map_err(|error| error.to_string())
}

fn settings(text: &str) -> leasehold_auth::SignOnSettings {
    load_text(text).unwrap_or_else(|error| panic!("{error}")).config.sign_on.unwrap()
}

const WHOLE: &str = r#"
listen = "127.0.0.1:9000"

[auth]
pools_require_sign_on = true
bind_lock_client = true

[[auth.token]]
name = "ci"
digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
groups = ["builders"]
expires = 2030-01-31

[auth.oidc]
issuer = "https://login.example.org/realms/x"
audience = ["leasehold", "locks"]
name_claim = "preferred_username"
groups_claim = "realm_access.roles"
name_prefix = "sso:"
keys_cooldown = "5s"
client_id = "leasehold-dashboard"
client_secret_file = "secret"
session = "1h"

[auth.introspection]
endpoint = "https://login.example.org/introspect"
client_id = "leasehold"
client_secret_file = "secret"
cache = "10s"

[auth.proxy]
preset = "shibboleth"
from = ["127.0.0.1", "10.1.2.0/24", "::1"]
secret_file = "secret"

[auth.certificates]
name_from = "san"
groups = ["machines"]

[[policy]]
name = "builders"
subjects = ["anonymous", "ci-*"]
groups = ["builders"]
actions = ["acquire", "update-own"]
kinds = ["claim"]
resources = ["build/*"]

[[policy]]
subjects = "root"
actions = "*"

[limits]
live_claims = 100
waiters = 10
requests_per_second = 50
burst = 200
"#;

#[test]
fn everything_that_can_be_said_is_read() {
    let settings = settings(WHOLE);
    assert!(settings.pools_require_sign_on && settings.bind_lock_client);
    let token = &settings.tokens[0];
    assert_eq!((&*token.name, &*token.digest.to_string(), token.expires_at_s), ("ci", DIGEST, Some(1_896_048_000)));
    let oidc = settings.oidc.as_ref().unwrap();
    assert_eq!(oidc.expected.audiences, ["leasehold", "locks"]);
    assert_eq!(oidc.expected.groups_claim.to_string(), "realm_access.roles");
    assert_eq!((oidc.ring.cooldown_us, oidc.keys.allow_http), (5_000_000, false));
    assert_eq!(oidc.login.as_ref().unwrap().scopes, "openid profile");
    assert_eq!(settings.introspection.as_ref().unwrap().client_secret.expose(), "a secret of its own file");
    let proxy = settings.proxy.as_ref().unwrap();
    assert_eq!((proxy.user_header.as_str(), proxy.groups_separator, proxy.from.len()), ("x-remote-user", ';', 3));
    assert_eq!(settings.policy.rules().len(), 2);
    assert_eq!(settings.policy.rules()[1].actions.len(), 7);
    assert_eq!((settings.limits.live_claims, settings.limits.waiters), (Some(100), Some(10)));
    assert_eq!(settings.limits.requests.unwrap().burst, 200);
}

#[test]
fn what_is_printed_gives_the_same_again_and_secrets_are_hidden() {
    let loaded = load_text(WHOLE).unwrap();
    let again = load_text(&loaded.to_toml()).unwrap();
    assert_eq!(again.config, loaded.config);
    let printed =
        load_text(&WHOLE.replace("secret_file = \"secret\"", "secret = \"not for your eyes!\"")).unwrap().to_toml();
    assert!(!printed.contains("not for your eyes"), "{printed}");
    assert_eq!(printed.matches("secret = \"(hidden)\"").count(), 3, "{printed}");
}

#[test]
fn no_tables_means_no_sign_on() {
    assert_eq!(load_text("grace = \"1s\"").unwrap().config.sign_on, None);
}

#[test]
fn rules_that_allow_nothing_are_worth_a_warning() {
    let warnings = load_text(TOKEN).unwrap().warnings;
    assert_eq!(warnings, ["callers sign on, but there is no [[policy]], so no caller may do anything"]);
}

#[test]
fn mistakes_are_told_with_key_problem_and_line() {
    let proxy = |lines: &str| format!("[auth.proxy]\nfrom = \"127.0.0.1\"\n{lines}");
    let oidc = |lines: &str| format!("[auth.oidc]\n{lines}");
    let policy = |lines: &str| format!("{TOKEN}[[policy]]\n{lines}");
    for (text, expected) in [
        (
            "[auth]".to_owned(),
            "auth names no way to sign on, give at least one of [[auth.token]], [auth.oidc], [auth.introspection], [auth.proxy], [auth.certificates] (file f line 1)",
        ),
        (
            "[[policy]]\nsubjects = \"*\"\nactions = \"*\"".to_owned(),
            "policy is of no use without [auth], which says how callers sign on (file f line 1)",
        ),
        (
            "[limits]\nwaiters = 1".to_owned(),
            "limits is of no use without [auth], which says how callers sign on (file f line 1)",
        ),
        ("auth = true".to_owned(), "auth must be a table, [auth], but is a TOML boolean (file f line 1)"),
        (
            "[auth]\ntoken = 5".to_owned(),
            "auth.token must be a list of tables, [[auth.token]], but is a TOML integer (file f line 2)",
        ),
        (
            "[auth]\npools_require_signon = true".to_owned(),
            "f line 2 has the unknown key \"auth.pools_require_signon\", did you mean pools_require_sign_on?",
        ),
        ("[auth.oauth]\nissuer = \"x\"".to_owned(), "f line 1 has the unknown key \"auth.oauth\""),
        (
            "[[auth.token]]\nname = \"ci\"".to_owned(),
            "auth.token needs digest, the digest that `leasehold token new` printed (file f line 1)",
        ),
        (
            "[[auth.token]]\nname = \"ci\"\ndigest = \"lh_1234\"".to_owned(),
            "auth.token.digest must be the digest that `leasehold token new` printed, but it does not begin with sha256: (file f line 3)",
        ),
        (
            format!("{TOKEN}{TOKEN}"),
            "auth.token.digest must be another than those of the other tokens, but is there twice (file f line 6)",
        ),
        (
            format!("{TOKEN}expires = \"soon\""),
            "auth.token.expires must be a date or an RFC 3339 time, but \"soon\" is neither, or before 1970 (file f line 4)",
        ),
        (
            format!("{TOKEN}groups = [7]"),
            "auth.token.groups must be a list of names, but has a TOML integer in it (file f line 4)",
        ),
        (oidc(""), "auth.oidc needs issuer, the URL that its tokens name as iss (file f line 1)"),
        (
            oidc("issuer = \"http://login.example.org\""),
            "auth.oidc.issuer must be a URL that begins with https:// (or http:// with allow_http = true or on this machine), but \"http://login.example.org\" is not encrypted (file f line 2)",
        ),
        (
            oidc("issuer = \"https://x\""),
            "auth.oidc needs audience, the name (or names) under which this service is known to the provider, as tokens name it in aud (file f line 1)",
        ),
        (
            oidc("issuer = \"https://x\"\naudience = []"),
            "auth.oidc.audience must be the name (or names) under which this service is known to the provider, as tokens name it in aud, but is empty (file f line 3)",
        ),
        (
            oidc("issuer = \"https://x\"\naudience = \"y\"\nkeys_cooldown = \"5\""),
            "auth.oidc.keys_cooldown must be a duration from 1s to 1h, but \"5\" has no unit, write one of ms, s, m, h, d after the number (file f line 4)",
        ),
        (
            oidc("issuer = \"https://x\"\naudience = \"y\"\nclient_secret = \"z\""),
            "auth.oidc needs client_id, the name of the dashboard at the provider, as it has client_secret (file f line 1)",
        ),
        (
            "[auth.proxy]\npreset = \"nginx\"".to_owned(),
            "auth.proxy needs from, the addresses or networks of the proxy, such as 127.0.0.1 or 10.1.2.0/24 (file f line 1)",
        ),
        (
            proxy("preset = \"nginx\""),
            "auth.proxy needs secret, a secret of at least 16 characters that the proxy sends along (or secret_file) (file f line 1)",
        ),
        (
            proxy("preset = \"nginx\"\nsecret = \"short\""),
            "auth.proxy needs a secret of at least 16 characters, or an attacker could guess it (file f line 1)",
        ),
        (
            proxy("preset = \"nginx\"\nsecret = \"(hidden)\""),
            "auth.proxy.secret must be a secret, but it is what --print-config shows in place of a secret (file f line 4)",
        ),
        (
            proxy("preset = \"nginx\"\nsecret_file = \"nowhere\""),
            "auth.proxy.secret_file must be the name of a file with the secret in it, but \"nowhere\" could not be read: entity not found (file f line 4)",
        ),
        (
            proxy("preset = \"nginx\"\nsecret_file = \"a\"\nsecret = \"0123456789abcdef\""),
            "auth.proxy has both secret and secret_file, give one of them (file f line 1)",
        ),
        (
            proxy("secret_file = \"a\""),
            "auth.proxy needs user_header, the header with the name of the user, or a preset (file f line 1)",
        ),
        (
            proxy("secret_file = \"a\"\nuser_header = \"leasehold-proxy-secret\""),
            "auth.proxy needs three different headers for user, groups and secret (file f line 1)",
        ),
        (
            proxy("preset = \"apache\"\nsecret_file = \"a\""),
            "auth.proxy.preset must be one of shibboleth, oauth2-proxy, authelia, authentik, nginx, traefik, but \"apache\" is none of these (file f line 3)",
        ),
        (
            "[auth.proxy]\npreset = \"nginx\"\nfrom = \"0.0.0.0/0\"\nsecret_file = \"a\"".to_owned(),
            "auth.proxy.from must be the addresses or networks of the proxy, such as 127.0.0.1 or 10.1.2.0/24, but \"0.0.0.0/0\" covers every address, so the headers of any client would be believed (file f line 3)",
        ),
        (policy("actions = \"*\""), "policy applies to no caller, give subjects or groups (file f line 4)"),
        (
            policy("subjects = \"a\""),
            "policy needs actions, a list of inspect, acquire, update-own, revoke-any, configure, observe, admin, or * for all of them (file f line 4)",
        ),
        (
            policy("subjects = \"a\"\nactions = [\"acquire\", \"release\"]"),
            "policy.actions must be a list of inspect, acquire, update-own, revoke-any, configure, observe, admin, or * for all of them, but \"release\" is none of these (file f line 6)",
        ),
        (
            policy("subjects = \"a\"\nactions = \"acquire\"\nkinds = \"mutex\""),
            "policy.kinds must be a list of pool, claim, lock, but \"mutex\" is none of these (file f line 7)",
        ),
        (
            policy("subjects = \"a\"\nactions = \"admin\"\nkinds = \"lock\""),
            "policy gives admin, which is about the whole service, so kinds and resources must be left out (file f line 4)",
        ),
        (
            policy("subjects = \"a\"\nactions = \"acquire\"\nkinds = \"pool\"\nresources = \"x\""),
            "policy names resources of pools, which have no names: their ids are credentials (file f line 4)",
        ),
        (
            policy("subject = \"a\"\nactions = \"acquire\""),
            "f line 5 has the unknown key \"policy.subject\", did you mean subjects?",
        ),
        (
            format!("{TOKEN}[limits]\nwaiters = -1"),
            "limits.waiters must be an integer from 0 to 10000000, but \"-1\" is not an integer, or far out of range (file f line 5)",
        ),
        (format!("{TOKEN}[limits]\nburst = 5"), "limits needs requests_per_second, as it has burst (file f line 4)"),
    ] {
        assert_eq!(load_text(&text).map(|loaded| loaded.config), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn every_recipe_of_the_guide_is_a_configuration() {
    let guide = include_str!("../../../../docs/sign-on.md");
    let recipes: Vec<&str> = guide.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    for recipe in &recipes {
        let loaded = load_text(recipe).unwrap_or_else(|error| panic!("{error} in\n{recipe}"));
        assert!(loaded.config.sign_on.is_some() && loaded.warnings.is_empty(), "{recipe}");
    }
    assert!(recipes.len() >= 10, "{} recipes", recipes.len());
}
