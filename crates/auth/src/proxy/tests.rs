//! Headers in, a principal or a reason out.

use http::HeaderValue;

use super::*;

const PROXY: &str = "10.0.0.5";

fn settings(preset: Preset) -> ProxySettings {
    ProxySettings {
        from: vec!["10.0.0.0/24".parse().unwrap(), "::1/128".parse().unwrap()],
        secret_header: HeaderName::from_static("x-proxy-secret"),
        secret: Secret::new("s3cret"),
        user_header: preset.user_header(),
        groups_header: Some(preset.groups_header()),
        groups_separator: preset.groups_separator(),
        name_prefix: String::new(),
        group_prefix: String::new(),
    }
}

fn read(settings: &ProxySettings, peer: &str, headers: &[(&str, &str)]) -> Result<Said, ProxyError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    settings.read(&map, peer.parse().unwrap())
}

fn said(name: &str, groups: &[&str]) -> Said {
    let groups = groups.iter().map(|group| (*group).into()).collect();
    Said::Somebody(Principal { name: name.into(), groups, source: Source::Proxy })
}

#[test]
fn every_preset_reads_its_proxys_headers() {
    for (preset, user, groups, value) in [
        (Preset::Shibboleth, "X-Remote-User", "X-Remote-Groups", "a;b c"),
        (Preset::Oauth2Proxy, "X-Forwarded-User", "X-Forwarded-Groups", "a,b c"),
        (Preset::Authelia, "Remote-User", "Remote-Groups", "a, b c"),
        (Preset::Authentik, "X-authentik-username", "X-authentik-groups", "a|b c"),
        (Preset::Nginx, "X-Remote-User", "X-Remote-Groups", "a, ,b c,"),
        (Preset::Traefik, "X-Forwarded-User", "X-Forwarded-Groups", "a,b c"),
    ] {
        let headers = [("X-Proxy-Secret", "s3cret"), (user, "alice"), (groups, value)];
        assert_eq!(read(&settings(preset), PROXY, &headers), Ok(said("alice", &["a", "b c"])), "{preset:?}");
        assert_eq!(Preset::parse(preset.as_str()), Some(preset));
    }
}

#[test]
fn who_is_believed() {
    let settings = settings(Preset::Nginx);
    let secret = ("x-proxy-secret", "s3cret");
    for (peer, headers, expected) in [
        (PROXY, &[][..], Ok(Said::Nothing)),
        ("192.0.2.1", &[], Ok(Said::Nothing)),
        (PROXY, &[secret][..], Ok(Said::Nobody)),
        (PROXY, &[secret, ("x-remote-user", "")], Ok(Said::Nobody)),
        (PROXY, &[secret, ("x-remote-user", "(null)"), ("x-remote-groups", "(null)")], Ok(Said::Nobody)),
        (PROXY, &[secret, ("x-remote-user", " alice ")], Ok(said("alice", &[]))),
        (PROXY, &[secret, ("x-remote-user", "zoë")], Ok(said("zoë", &[]))),
        ("::ffff:10.0.0.5", &[secret, ("x-remote-user", "alice")], Ok(said("alice", &[]))),
        ("::1", &[secret, ("x-remote-user", "alice")], Ok(said("alice", &[]))),
    ] {
        assert_eq!(read(&settings, peer, headers), expected, "{peer} {headers:?}");
    }
}

#[test]
fn tricks_are_refused() {
    let name = HeaderName::from_static;
    let settings = settings(Preset::Nginx);
    let secret = ("x-proxy-secret", "s3cret");
    let user = ("x-remote-user", "alice");
    let long = "x".repeat(300);
    let many = "g,".repeat(1_001);
    for (peer, headers, expected) in [
        // From elsewhere, with whatever secret.
        ("192.0.2.1", &[user][..], ProxyError::NotTheProxy(name("x-remote-user"))),
        ("192.0.2.1", &[secret, user], ProxyError::NotTheProxy(name("x-remote-user"))),
        ("192.0.2.1", &[("x-remote-groups", "operators")], ProxyError::NotTheProxy(name("x-remote-groups"))),
        ("192.0.2.1", &[secret], ProxyError::NotTheProxy(name("x-proxy-secret"))),
        ("10.0.1.5", &[secret, user], ProxyError::NotTheProxy(name("x-remote-user"))),
        // From the proxy's address, by another user on that machine.
        (PROXY, &[user], ProxyError::WrongSecret),
        (PROXY, &[("x-proxy-secret", "S3cret"), user], ProxyError::WrongSecret),
        (PROXY, &[("x-proxy-secret", ""), user], ProxyError::WrongSecret),
        // Twice.
        (PROXY, &[secret, user, ("x-remote-user", "root")], ProxyError::Twice(name("x-remote-user"))),
        (PROXY, &[secret, user, user], ProxyError::Twice(name("x-remote-user"))),
        (PROXY, &[secret, ("X-Proxy-Secret", "x"), user], ProxyError::Twice(name("x-proxy-secret"))),
        (
            PROXY,
            &[secret, user, ("x-remote-groups", "a"), ("x-remote-groups", "operators")],
            ProxyError::Twice(name("x-remote-groups")),
        ),
        // Look-alikes.
        (PROXY, &[secret, user, ("X_Remote_User", "root")], ProxyError::LookAlike("x_remote_user".to_owned())),
        (PROXY, &[secret, user, ("X-Remote_Groups", "x")], ProxyError::LookAlike("x-remote_groups".to_owned())),
        ("192.0.2.1", &[("x_remote-user", "root")], ProxyError::LookAlike("x_remote-user".to_owned())),
        // Taken out on the way.
        (PROXY, &[secret, user, ("connection", "X-Remote-User")], ProxyError::HopByHop(name("x-remote-user"))),
        (
            PROXY,
            &[secret, user, ("connection", "close,\tx-proxy-secret")],
            ProxyError::HopByHop(name("x-proxy-secret")),
        ),
        (PROXY, &[("connection", "keep-alive"), ("connection", "X-Remote-Groups")], {
            ProxyError::HopByHop(name("x-remote-groups"))
        }),
        (PROXY, &[("connection", "x_remote_user")], ProxyError::HopByHop(name("x_remote_user"))),
        // Names that are none.
        (PROXY, &[secret, ("x-remote-user", &long)], {
            ProxyError::BadName(name("x-remote-user"), "must have 1 to 256 bytes")
        }),
        (PROXY, &[secret, ("x-remote-user", "a\tb")], {
            ProxyError::BadName(name("x-remote-user"), "must not have control characters")
        }),
        (PROXY, &[secret, user, ("x-remote-groups", &long)], {
            ProxyError::BadGroup(name("x-remote-groups"), "must have 1 to 256 bytes")
        }),
        (PROXY, &[secret, user, ("x-remote-groups", &many)], ProxyError::TooManyGroups(name("x-remote-groups"))),
    ] {
        assert_eq!(read(&settings, peer, headers), Err(expected), "{peer} {headers:?}");
    }
    let mut latin1 = HeaderMap::new();
    latin1.insert("x-proxy-secret", HeaderValue::from_static("s3cret"));
    latin1.insert("x-remote-user", HeaderValue::from_bytes(b"zo\xeb").unwrap());
    assert_eq!(settings.read(&latin1, PROXY.parse().unwrap()), Err(ProxyError::NotText(name("x-remote-user"))));
}

#[test]
fn names_get_their_prefix() {
    let settings =
        ProxySettings { name_prefix: "sso:".to_owned(), group_prefix: "sso:".to_owned(), ..settings(Preset::Authelia) };
    let headers = [("x-proxy-secret", "s3cret"), ("remote-user", "ci"), ("remote-groups", "operators")];
    assert_eq!(read(&settings, PROXY, &headers), Ok(said("sso:ci", &["sso:operators"])));
}
