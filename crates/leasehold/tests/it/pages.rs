//! Web pages, as far as the service sees them: the headers that browsers send along. `tests/browser` checks the
//! reaction of a real browser.

use std::fmt::Write as _;

use crate::support::{Came, Client, Launch, RawH2, Response, Server};

fn ask(client: &mut Client, method: &str, target: &str, headers: &[(&str, &str)]) -> Response {
    // `host` is among them, and so no other is sent.
    let mut request = format!("{method} {target} HTTP/1.1\r\ncontent-length: 0\r\n");
    for (name, value) in headers {
        let _ = write!(request, "{name}: {value}\r\n");
    }
    request.push_str("\r\n");
    client.send_raw(request.as_bytes()).unwrap();
    client.receive().unwrap()
}

fn start(args: &[&str]) -> Server {
    Launch::with(&[&["--listen", "127.0.0.1:0", "--memory"], args].concat()).start()
}

#[test]
fn a_page_of_another_site_changes_nothing_and_curl_goes_on() {
    let server = start(&[]);
    let mut client = server.client();
    let own = format!("http://{}", server.addr);
    let host = ("host", &*server.addr.to_string());
    for (headers, status) in [
        (vec![], 200),
        (vec![("origin", &*own)], 200),
        (vec![("sec-fetch-site", "same-origin"), ("origin", &own)], 200),
        (vec![("sec-fetch-site", "none")], 200),
        (vec![("sec-fetch-site", "cross-site")], 403),
        (vec![("sec-fetch-site", "same-site")], 403),
        (vec![("origin", "https://evil.example")], 403),
        (vec![("origin", "null")], 403),
    ] {
        let headers: Vec<_> = headers.into_iter().chain([host]).collect();
        let answer = ask(&mut client, "POST", "/lock?client=c&ttl=1m", &headers).expect(status);
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
        if status == 403 {
            assert!(answer.text("error").contains("a web page of another site"), "{}", answer.text("error"));
        }
        ask(&mut client, "GET", "/lock", &headers).expect(200);
    }
}

#[test]
fn a_name_that_is_not_ours_reads_nothing_in_either_version_of_http() {
    let server = start(&["--allowed-hosts", "locks.internal", "--public-url", "https://locks.example.org"]);
    let mut client = server.client();
    for (host, status) in [
        ("localhost", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:1", 200),
        ("locks.internal:80", 200),
        ("locks.example.org", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.1.2.3", 421),
    ] {
        for target in ["/lock", "/healthz", "/metrics", "/v1/claims/", "/no/such/path"] {
            let status = if target.starts_with("/no") && status == 200 { 404 } else { status };
            let answer = ask(&mut client, "GET", target, &[("host", host)]).expect(status);
            if status == 421 {
                let expected = format!("host \"{host}\" is no name of this service, allowed_hosts says which are");
                assert_eq!(answer.text("error"), expected);
            }
            for name in ["leasehold-service", "leasehold-position"] {
                assert_eq!(answer.header(name).is_some(), status != 421, "{name} for {host}");
            }
        }
    }
    // The target may name another host than the header.
    ask(&mut client, "GET", "http://evil.example/lock", &[("host", "localhost")]).expect(421);
    let mut h2 = RawH2::connect(server.addr, 65_535);
    for (headers, is_served) in [
        (vec![(":authority", "localhost")], true),
        (vec![(":authority", "evil.example")], false),
        (vec![(":authority", "localhost"), ("host", "evil.example")], false),
        (vec![(":authority", "evil.example"), ("host", "localhost")], false),
    ] {
        let before = misdirected(&mut client);
        let stream = h2.ask_with("GET", "/lock", &headers, b"");
        while !matches!(h2.next(), Came::Data(id, _, true) if id == stream) {}
        assert_eq!(misdirected(&mut client) - before, u64::from(!is_served), "{headers:?}");
    }
}

/// How many requests were answered 421 so far.
fn misdirected(client: &mut Client) -> u64 {
    let metrics = ask(client, "GET", "/metrics", &[("host", "localhost")]).expect(200);
    let text = String::from_utf8(metrics.body).unwrap();
    let counted = text.lines().filter(|line| line.starts_with("leasehold_requests_total") && line.contains("\"421\""));
    counted.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[test]
fn allowed_origins_may_call_and_see_what_they_need() {
    let server = start(&["--allow-origin", "https://app.example, http://localhost:3000"]);
    let mut client = server.client();
    let host = ("host", "localhost");
    for origin in ["https://app.example", "http://localhost:3000"] {
        let page = [host, ("origin", origin), ("sec-fetch-site", "cross-site")];
        let asked = [&page[..], &[("access-control-request-method", "POST")]].concat();
        let preflight = ask(&mut client, "OPTIONS", "/v1/claims/", &asked).expect(204);
        assert_eq!(preflight.header("access-control-allow-origin"), Some(origin));
        for name in ["authorization", "content-type", "idempotency-key", "prefer"] {
            let allowed = preflight.header("access-control-allow-headers").unwrap().to_ascii_lowercase();
            assert!(allowed.contains(name), "{allowed}");
        }
        assert_eq!(preflight.header("access-control-allow-methods"), Some("GET, HEAD, POST, PUT, PATCH, DELETE"));
        assert_eq!(preflight.header("access-control-allow-credentials"), None, "cookies stay at home");
        let answer = ask(&mut client, "POST", "/lock?client=c&ttl=1m", &page).expect(200);
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        let exposed = answer.header("access-control-expose-headers").unwrap();
        for name in ["Leasehold-Position", "Leasehold-Service", "Retry-After", "Location", "X-Request-Id"] {
            assert!(exposed.contains(name), "{exposed}");
        }
        assert!(answer.headers.iter().any(|(name, value)| name == "vary" && value == "Origin"));
    }
    let other = [host, ("origin", "https://app.example.evil")];
    let asked = [&other[..], &[("access-control-request-method", "POST")]].concat();
    let refused = ask(&mut client, "OPTIONS", "/v1/claims/", &asked).expect(405);
    assert_eq!(refused.header("access-control-allow-origin"), None);
    ask(&mut client, "POST", "/lock?client=c&ttl=1m", &other).expect(403);
    let plain = ask(&mut client, "GET", "/lock", &[host]).expect(200);
    assert_eq!((plain.header("access-control-allow-origin"), plain.header("vary")), (None, Some("Origin")));
}

#[test]
fn mistakes_in_hosts_and_origins_are_named() {
    for (flag, value, expected) in [
        ("--allowed-hosts", "a,,b", "has a name that is empty"),
        ("--allowed-hosts", "a:80", "has \"a:80\", which is no host name"),
        ("--allow-origin", "*", "has *, name each origin that may call"),
        ("--allow-origin", "app.example", "which begins with neither http:// nor https://"),
        ("--allow-origin", "https://app.example/x", "which has a path"),
    ] {
        let output = crate::support::output_of(crate::support::leasehold().args(["serve", flag, value]));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(expected), "{flag} {value}: {said}");
    }
}
