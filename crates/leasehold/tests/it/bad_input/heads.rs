//! Paths, queries, methods, headers and sizes that are wrong, and bytes that are no HTTP at all.

use super::{Known, Row};

const BODY_MAX: usize = 64 * 1024;
const URI_MAX: usize = 4 * 1024;
const HEADERS_MAX: usize = 16 * 1024;

pub(super) fn rows(known: &Known) -> Vec<Row> {
    let mut rows = paths(known);
    rows.extend(methods(known));
    rows.extend(locks());
    rows.extend(lists(known));
    rows.extend(sizes(known));
    rows
}

fn paths(known: &Known) -> Vec<Row> {
    let Known { pool, lease, claim } = known;
    let mut rows = Vec::new();
    let no_uuids = [
        "x".to_owned(),
        "0".to_owned(),
        pool.replace('-', ""),
        pool.replace('-', "%2D"),
        pool.replace('-', "_"),
        format!("{{{pool}}}"),
        format!("%7B{pool}%7D"),
        format!("urn:uuid:{pool}"),
        format!("{pool}0"),
        format!("{pool}%00"),
        pool[..35].to_owned(),
        format!("{}g", &pool[..35]),
        "%00".to_owned(),
        "%".to_owned(),
        "%zz".to_owned(),
        "%C0%AF".to_owned(),
        "..%2F..%2Fetc".to_owned(),
        "..".to_owned(),
        "a".repeat(2_000),
    ];
    for id in &no_uuids {
        for (method, rest, body) in [
            ("GET", "", ""),
            ("PUT", "", "{\"count\":1}"),
            ("DELETE", "", ""),
            ("POST", "/borrow", "{\"ttl\":5}"),
            ("POST", "/return", "{}"),
            ("POST", "/renew", "{}"),
        ] {
            rows.push(
                Row::new(method, format!("/l/{id}{rest}"), body, 400).naming("pool id in the path must be a uuid"),
            );
        }
        let lookup = Row::new("GET", format!("/l/{pool}/leases/{id}"), "", 400);
        rows.push(lookup.naming("lease in the path must be a uuid"));
    }
    for path in [
        "/l".to_owned(),
        "/l/".to_owned(),
        "/l//borrow".to_owned(),
        format!("/L/{pool}"),
        format!("//l/{pool}"),
        format!("/l/{pool}/"),
        format!("/l/{pool}/borrow/"),
        format!("/l/{pool}/leases"),
        format!("/l/{pool}/leases/{lease}/renew"),
        format!("/l%2F{pool}"),
        format!("/v1/claims/{claim}/release"),
        "/v1".to_owned(),
        "/v2/claims".to_owned(),
        "/v1/claims//".to_owned(),
        "/lock/".to_owned(),
        "/Lock".to_owned(),
        "/lock/default".to_owned(),
        "/healthz/".to_owned(),
        "/../../etc/passwd".to_owned(),
        "/%2e%2e/lock".to_owned(),
        "/wp-login.php".to_owned(),
    ] {
        rows.push(Row::new("GET", path, "", 404).naming("no such path"));
    }
    for (name, names) in [
        ("%", "% that is not followed by two hex digits"),
        ("%2", "% that is not followed by two hex digits"),
        ("%zz", "% that is not followed by two hex digits"),
        ("%ff", "not utf-8"),
        ("%C0%AE%C0%AE", "not utf-8"),
        ("%ED%A0%80", "not utf-8"),
        ("%F0%9F%98", "not utf-8"),
        (&*"n".repeat(1_025), "1 to 1024 bytes"),
    ] {
        for (method, body) in [("GET", ""), ("PUT", "{\"capacity\":1}"), ("DELETE", "")] {
            rows.push(Row::new(method, format!("/v1/resources/{name}"), body, 400).naming(names));
        }
    }
    // An encoded slash is part of the name, and of no path.
    rows.push(Row::new("GET", "/v1/resources/a%2Fb%00", "", 404).naming("no such resource"));
    rows
}

fn methods(known: &Known) -> Vec<Row> {
    let Known { pool, lease, claim } = known;
    let wrong: [(String, &[&'static str]); 15] = [
        (format!("/l/{pool}"), &["POST", "PATCH", "OPTIONS", "TRACE"]),
        (format!("/l/{pool}/borrow"), &["GET", "PUT", "PATCH"]),
        (format!("/l/{pool}/return"), &["GET", "PUT", "DELETE"]),
        (format!("/l/{pool}/renew"), &["GET", "PATCH", "DELETE"]),
        (format!("/l/{pool}/leases/{lease}"), &["PUT", "POST", "DELETE"]),
        ("/v1/claims".to_owned(), &["PUT", "PATCH", "DELETE"]),
        ("/v1/claims/".to_owned(), &["PUT", "PATCH", "DELETE"]),
        (format!("/v1/claims/{claim}"), &["POST", "DELETE"]),
        (format!("/v1/claims/{claim}/"), &["POST", "DELETE"]),
        ("/v1/resources/".to_owned(), &["PUT", "POST", "DELETE"]),
        ("/v1/resources/known".to_owned(), &["POST", "PATCH"]),
        ("/lock".to_owned(), &["PUT", "PATCH", "BREW", "get", "post"]),
        ("/healthz".to_owned(), &["POST", "DELETE"]),
        ("/readyz".to_owned(), &["PUT"]),
        ("/metrics".to_owned(), &["POST"]),
    ];
    let mut rows = Vec::new();
    for (target, methods) in wrong {
        for method in methods {
            let names = format!("method {} is not allowed here, use", method.to_lowercase());
            rows.push(Row::new(method, &target, "{}", 405).naming(names));
        }
    }
    // Ending what a key has takes the key.
    rows.push(Row::new("DELETE", format!("/l/{pool}/borrow"), "{}", 400).naming("idempotency-key is missing"));
    rows
}

fn locks() -> Vec<Row> {
    let mut rows = Vec::new();
    for method in ["POST", "DELETE"] {
        for query in ["", "?", "?client", "?client=", "?Client=a", "?client=&ttl=5s", "?;client=a"] {
            rows.push(Row::new(method, format!("/lock{query}"), "", 400).naming("client parameter required"));
        }
        let long = "c".repeat(1_025);
        rows.push(Row::new(method, format!("/lock?client={long}"), "", 400).naming("client must have 1 to 1024 bytes"));
        rows.push(Row::new(method, "/lock?client=a&client=b", "", 400).naming("\"client\" is given twice"));
        rows.push(Row::new(method, "/lock?client=a&%63lient=b", "", 400).naming("\"client\" is given twice"));
    }
    let no_ttls = [
        "",
        "0",
        "0s",
        "-5s",
        "5",
        "s",
        "abc",
        "5x",
        "5s%20",
        "%205s",
        "1h-5m",
        "--5s",
        "1e3s",
        "NaN",
        "Infs",
        "5s5",
        "1.2.3s",
        "999999999999999999999h",
        "5%00s",
    ];
    for ttl in no_ttls {
        rows.push(Row::new("POST", format!("/lock?client=a&ttl={ttl}"), "", 400).naming("invalid ttl format"));
    }
    for wait in ["", "5x", "abc", "-5s", "1e9s"] {
        rows.push(Row::new("POST", format!("/lock?client=a&wait={wait}"), "", 400).naming("invalid wait format"));
    }
    for method in ["POST", "DELETE", "GET"] {
        let long = "j".repeat(1_025);
        rows.push(Row::new(method, "/lock?client=a&job=", "", 400).naming("job must have 1 to 1024 bytes"));
        rows.push(Row::new(method, format!("/lock?client=a&job={long}"), "", 400).naming("job must have 1 to 1024"));
        for (text, names) in [
            ("%", "two hex digits"),
            ("a%2", "two hex digits"),
            ("%u0041", "two hex digits"),
            ("%ff", "not utf-8"),
            ("%C0%AF", "not utf-8"),
            ("%ED%A0%80", "not utf-8"),
        ] {
            let target = format!("/lock?client={text}");
            rows.push(
                Row::new(method, target, "", 400)
                    .naming(format!("\"client\" {}", if names.starts_with("not") { "is" } else { "has" })),
            );
            rows.push(Row::new(method, format!("/lock?client=a&{text}=1"), "", 400).naming(names));
        }
        let many = (0..65).map(|number| format!("p{number}")).collect::<Vec<_>>().join("&");
        rows.push(Row::new(method, format!("/lock?{many}"), "", 400).naming("at most 64"));
    }
    rows.push(Row::new("DELETE", "/lock?client=nobody", "", 403).naming("client does not hold the lock"));
    rows
}

fn lists(known: &Known) -> Vec<Row> {
    let mut rows = Vec::new();
    for (query, names) in [
        ("colour=red", "unknown query parameter \"colour\""),
        ("Status=active", "unknown query parameter \"status\""),
        ("status=", "status must be one of"),
        ("status=dead", "status must be one of"),
        ("resource=", "resource must have 1 to 1024 bytes"),
        ("ttl=5", "ttl must be a range"),
        ("ttl=a..b", "minimum_ttl must be a number"),
        ("ttl=1..b", "maximum_ttl must be a number"),
        ("ttl=1..2&minimum_ttl=1", "ttl=a..b is short for"),
        ("minimum_ttl=NaN", "minimum_ttl must be a number"),
        ("maximum_ttl=inf", "maximum_ttl must be a number"),
        ("maximum_ttl=1e999", "maximum_ttl must be a number"),
        ("minimum_active_duration=x", "minimum_active_duration must be a number"),
        ("maximum_waiting_duration=5x", "maximum_waiting_duration must be a number"),
        ("created=yesterday..", "minimum_created must be an rfc 3339 time"),
        ("minimum_created=2024-13-01T00:00:00Z", "minimum_created must be an rfc 3339 time"),
        ("maximum_created=", "maximum_created must be an rfc 3339 time"),
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("limit=1.5", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("offset=x", "offset"),
        ("offset=-1", "offset"),
        ("limit=1&limit=2", "\"limit\" is given twice"),
        ("status=%zz", "\"status\" has a %"),
        ("status=%ff", "\"status\" is not utf-8"),
    ] {
        rows.push(Row::new("GET", format!("/v1/claims/?{query}"), "", 400).naming(names));
    }
    rows.push(Row::new("GET", "/v1/resources/?colour=red", "", 400).naming("unknown query parameter \"colour\""));
    rows.push(Row::new("GET", "/v1/resources?limit=x", "", 400).naming("limit"));
    let one = format!("/v1/claims/{}/", known.claim);
    for wait in ["-1", "x", "5x", "inf", "NaN", "1e999"] {
        rows.push(Row::new("GET", format!("{one}?wait={wait}"), "", 400).naming("wait must be a number of seconds"));
        rows.push(
            Row::new("GET", &one, "", 400).with("prefer", format!("wait={wait}")).naming("wait must be a number"),
        );
        let patch = Row::new("PATCH", format!("{one}?wait={wait}"), "{\"ttl\":3600}", 400);
        rows.push(patch.naming("wait must be a number of seconds"));
        let create = Row::new("POST", format!("/v1/claims/?wait={wait}"), "{\"resource\":\"r\",\"timeout\":5}", 400);
        rows.push(create.naming("wait must be a number of seconds"));
    }
    rows.push(Row::new("GET", format!("{one}?colour=red"), "", 400).naming("unknown query parameter \"colour\""));
    rows
}

/// At each limit and one past it.
fn sizes(known: &Known) -> Vec<Row> {
    let mut rows = Vec::new();
    let put = format!("/l/{}", known.pool);
    let body = |length: usize| {
        let count = "{\"count\":1000}";
        format!("{count}{}", " ".repeat(length - count.len()))
    };
    rows.push(Row::new("PUT", &put, body(BODY_MAX), 200));
    for (method, target) in [
        ("PUT", put.clone()),
        ("POST", format!("{put}/borrow")),
        ("POST", format!("{put}/return")),
        ("POST", format!("{put}/renew")),
        ("POST", "/v1/claims/".to_owned()),
        ("PATCH", format!("/v1/claims/{}/", known.claim)),
        ("PUT", "/v1/resources/known".to_owned()),
        ("POST", "/lock?client=a".to_owned()),
        ("GET", "/healthz".to_owned()),
    ] {
        rows.push(Row::new(method, target, body(BODY_MAX + 1), 413).naming("at most 65536 bytes"));
    }
    rows.push(Row::new("POST", "/v1/claims/", body(512 * 1024), 413).naming("at most 65536 bytes"));
    for path in ["/lock?job=x&pad=", "/v1/resources/known?", "/l/pool?", "/nowhere?"] {
        let target = |length: usize| format!("{path}{}", "u".repeat(length - path.len()));
        rows.push(Row::new("GET", target(URI_MAX + 1), "", 414).naming("at most 4096 are allowed"));
    }
    rows.push(Row::new("GET", format!("/lock?pad={}", "u".repeat(URI_MAX - 10)), "", 200));

    // The headers that every call here has: `host: localhost` and `content-length: 0`, each with its line end.
    let usual = "host: localhost\r\n".len() + "content-length: 0\r\n".len();
    let padding = |total: usize| "h".repeat(total - usual - "x-pad: \r\n".len());
    rows.push(Row::new("GET", "/healthz", "", 200).with("x-pad", padding(HEADERS_MAX)));
    for target in ["/healthz", "/lock", &put, "/v1/claims/", "/nowhere"] {
        let row = Row::new("GET", target, "", 431).with("x-pad", padding(HEADERS_MAX + 1));
        rows.push(row.naming("at most 16384 are allowed"));
    }
    for encoding in ["gzip", "br", "deflate", "nonsense"] {
        let row = Row::new("PUT", &put, "{\"count\":1000}", 415).with("content-encoding", encoding);
        rows.push(row.naming("content-encoding is not supported"));
    }
    rows
}

/// Bytes that no server should make anything of.
pub(super) fn not_http() -> Vec<Vec<u8>> {
    let text = |text: &str| text.as_bytes().to_vec();
    let mut all = vec![
        text("\r\n\r\n\r\n"),
        text("hello\r\n\r\n"),
        text("GET\r\n\r\n"),
        text("GET /healthz\r\n\r\n"),
        text("GET /healthz HTTP/9.9\r\n\r\n"),
        text("GET /healthz HTTPS/1.1\r\n\r\n"),
        text("GET  /healthz HTTP/1.1\r\n\r\n"),
        text("GET /healthz HTTP/1.1\r\nno colon\r\n\r\n"),
        text("GET /healthz HTTP/1.1\r\n: empty name\r\n\r\n"),
        text("GET /healthz HTTP/1.1\r\nbad name: x\r\n\r\n"),
        text("GET /healthz HTTP/1.1\r\nx: \x00\r\n\r\n"),
        text("GET /heal\x00thz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        text("GET /he al thz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        text("G\u{e9}T /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        text("PUT /lock HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n"),
        text("PUT /lock HTTP/1.1\r\nhost: localhost\r\ncontent-length: five\r\n\r\nabcde"),
        text("PUT /lock HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999999999999\r\n\r\n"),
        text("PUT /lock HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef"),
        text(
            "PUT /lock HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        text("PUT /lock HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: nonsense\r\n\r\n"),
        text("POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
        text(
            "POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        ),
        text("POST /v1/claims/ HTTP/1.1\r\nhost: localhost\r\ncontent-length: 50\r\n\r\n{\"resource\":"),
        text("\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}"),
        format!("GET /{} HTTP/1.1\r\n\r\n", "u".repeat(100_000)).into_bytes(),
        format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "h".repeat(100_000)).into_bytes(),
        format!("GET /healthz HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(5_000)).into_bytes(),
    ];
    all.extend((0..20).map(|_| (0..rand::random_range(1..2_000)).map(|_| rand::random()).collect::<Vec<u8>>()));
    all
}
