//! Identity headers, as a proxy sends them and as others do. A real Apache passes them on in `apache`.

use super::support::Guarded;

const CONFIG: &str = r#"
[auth.proxy]
preset = "authelia"
from = ["127.0.0.1"]
secret = "only the proxy knows this"

[[policy]]
groups = ["staff"]
actions = ["*"]
"#;

const SECRET: (&str, &str) = ("leasehold-proxy-secret", "only the proxy knows this");

#[test]
fn headers_are_believed_with_the_secret_and_tricks_are_refused() {
    let it = Guarded::start(CONFIG);
    let ask = |headers: &[(&str, &str)]| it.ask_with(None, headers, "GET", "/v1/claims/", "");
    let user = ("Remote-User", "alice");
    let groups = ("Remote-Groups", "staff,others");
    ask(&[SECRET, user, groups]).expect(200);
    let claim = it.ask_with(None, &[SECRET, user, groups], "POST", "/v1/claims/", r#"{"resource":"x","timeout":9}"#);
    assert_eq!(claim.expect(201).text("owner"), "alice");
    for (what, headers, status) in [
        ("nobody", &[SECRET][..], 401),
        ("no secret", &[user, groups], 401),
        ("a wrong secret", &[("leasehold-proxy-secret", "guess"), user, groups], 401),
        ("not in the group", &[SECRET, user, ("Remote-Groups", "others")], 403),
        ("a second user", &[SECRET, user, ("remote-user", "root"), groups], 401),
        ("a name that turns text around", &[SECRET, ("Remote-User", "alice\u{202e}"), groups], 401),
        ("a name with a space that does not break", &[SECRET, ("Remote-User", "alice\u{a0}"), groups], 401),
        ("a name with nothing in it to see", &[SECRET, ("Remote-User", "al\u{200b}ice"), groups], 401),
        ("a group that looks like another", &[SECRET, user, ("Remote-Groups", "sta\u{200d}ff")], 401),
        ("a look-alike", &[SECRET, user, groups, ("Remote_User", "root")], 401),
        ("hop by hop", &[SECRET, user, groups, ("Connection", "Remote-User")], 401),
    ] {
        assert_eq!(ask(headers).status, status, "{what}");
    }
}

#[test]
fn headers_from_elsewhere_are_refused() {
    let it = Guarded::start(&CONFIG.replace("127.0.0.1", "10.20.30.40"));
    let refused = it.ask_with(None, &[SECRET, ("Remote-User", "alice")], "GET", "/v1/claims/", "").expect(401);
    assert_eq!(refused.text("error"), "the header remote-user is believed only from the proxy");
}
