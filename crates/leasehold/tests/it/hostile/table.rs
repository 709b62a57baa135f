//! Requests that are malformed, or that one server reads differently from the next. Grouped by the part of a request
//! that is wrong; each has the one fate that is safe.

use std::fmt::Write as _;

use super::SMUGGLED;

/// Bytes, and their required fate.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) fate: Fate,
}

/// The required answers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// Refused with this status, and closed: where the request ends is unknown, so nothing after it may be read.
    Refused(u16),
    /// Served with this status; what follows it is the next request, and is served as well.
    Served(u16),
    /// Served with this status, and closed all the same.
    Last(u16),
    /// Two requests in a row: the first is served, the second refused as above.
    Then(u16, u16),
    /// The sender leaves in the middle. It may be told so, and nothing happens.
    CutOff(u16),
}

impl Fate {
    pub(super) fn allows(self, statuses: &[u16]) -> bool {
        match (self, statuses) {
            (Fate::CutOff(_), []) => true,
            (Fate::Refused(wanted) | Fate::Last(wanted) | Fate::CutOff(wanted), [status])
            // A client that asked whether to go on is told so first.
            | (Fate::Served(wanted), [status, 200] | [100, status, 200]) => *status == wanted,
            (Fate::Then(first, second), [served, refused]) => (*served, *refused) == (first, second),
            _ => false,
        }
    }
}

/// A body that its call takes.
const BODY: &str = "{\"capacity\":1}";
/// The call it belongs to. Its head is left open.
const PUT: &str = "PUT /v1/resources/hostile HTTP/1.1\r\nhost: localhost\r\n";
const GET: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n";

use Fate::{CutOff, Last, Refused, Served, Then};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = lengths();
    rows.extend(codings());
    rows.extend(chunks());
    rows.extend(bodies());
    rows.extend(headers());
    rows.extend(hosts());
    rows.extend(request_lines());
    rows.extend(switching());
    rows
}

fn row(name: impl Into<String>, bytes: impl AsRef<[u8]>, fate: Fate) -> Row {
    Row { name: name.into(), bytes: bytes.as_ref().to_vec(), fate }
}

/// `PUT` with these header lines and this body.
fn put(headers: &str, body: &str, fate: Fate) -> Row {
    row(
        format!("PUT {headers:?} {:?}", body.chars().take(60).collect::<String>()),
        format!("{PUT}{headers}\r\n\r\n{body}"),
        fate,
    )
}

/// `GET` with these header lines.
fn get(headers: impl AsRef<[u8]>, fate: Fate) -> Row {
    let headers = headers.as_ref();
    let name = format!("GET {:?}", String::from_utf8_lossy(&headers[..headers.len().min(60)]));
    row(name, [GET.as_bytes(), headers, b"\r\n\r\n"].concat(), fate)
}

/// Where a body ends, said with a length.
fn lengths() -> Vec<Row> {
    let mut rows = vec![
        put("content-length: 14\r\ncontent-length: 15", BODY, Refused(400)),
        put("content-length: 0\r\ncontent-length: 14", BODY, Refused(400)),
        // Twice the same says the same.
        put("content-length: 14\r\ncontent-length: 14", BODY, Served(200)),
        put("content-length:   14  ", BODY, Served(200)),
        put("content-length:\t14\t", BODY, Served(200)),
        put("content-length: 0014", BODY, Served(200)),
    ];
    for length in [
        "",
        "-1",
        "-14",
        "+14",
        "14, 14",
        "14, 15",
        "14,",
        "1 4",
        "14a",
        "0x0e",
        "14.0",
        "1e1",
        "\"14\"",
        "14;",
        "١٤",
        "18446744073709551616",
        "99999999999999999999999999",
    ] {
        rows.push(put(&format!("content-length: {length}"), BODY, Refused(400)));
    }
    rows.push(put("content-length: 9223372036854775807", BODY, Refused(413)));
    rows
}

/// Where a body ends, said with a transfer coding.
fn codings() -> Vec<Row> {
    let chunked = format!("e\r\n{BODY}\r\n0\r\n\r\n");
    let te = |value: &str, fate: Fate| {
        put(&format!("transfer-encoding: {value}"), &format!("e\r\n{BODY}\r\n0\r\n\r\n"), fate)
    };
    let mut rows = vec![
        // Both ways at once: the chunks count, and the connection ends.
        put("content-length: 5\r\ntransfer-encoding: chunked", &chunked, Last(200)),
        put("transfer-encoding: chunked\r\ncontent-length: 5", &chunked, Last(200)),
        put("content-length: 5\r\nTransfer-Encoding: chunked\r\ncontent-length: 6", &chunked, Last(200)),
        put("content-length: 0\r\ntransfer-encoding: chunked", &chunked, Last(200)),
        put("content-length: 4\r\ntransfer-encoding: identity", BODY, Refused(400)),
        te("chunked", Served(200)),
        te("CHUNKED", Served(200)),
        te("\tchunked ", Served(200)),
        // A body that was coded before it was cut into chunks would be read as it is.
        te("gzip, chunked", Refused(400)),
        te("identity, chunked", Refused(400)),
        te("chunked, chunked", Refused(400)),
        te(", chunked", Refused(400)),
        put("transfer-encoding: gzip\r\ntransfer-encoding: chunked", &chunked, Refused(400)),
        put("transfer-encoding: chunked\r\ntransfer-encoding: chunked", &chunked, Refused(400)),
    ];
    for value in [
        "identity",
        "xchunked",
        "x chunked",
        "chunkedx",
        "chunked, identity",
        "chunked, gzip",
        "chunked,",
        "gzip",
        "",
        "\"chunked\"",
        "chunked;q=1",
        "chunked chunked",
        "'chunked'",
        "cow",
    ] {
        rows.push(te(value, Refused(400)));
    }
    for line in [
        "transfer-encoding : chunked",
        "transfer-encoding\t: chunked",
        " transfer-encoding: chunked",
        "transfer-encoding: chunked\x0b",
        "transfer-encoding:\x0bchunked",
        "transfer-encoding: \x00chunked",
        "transfer-encoding: chunked\rx: y",
        "transfer-encoding\x00: chunked",
    ] {
        rows.push(put(line, &chunked, Refused(400)));
    }
    // Names that only look like it mean nothing: there is no body, and what follows is the next request.
    for line in ["transfer_encoding: chunked", "te: chunked", "x-transfer-encoding: chunked"] {
        rows.push(get(line, Served(200)));
    }
    rows.push(row(
        "HTTP/1.0 with chunks",
        format!("PUT /v1/resources/hostile HTTP/1.0\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n{chunked}"),
        Refused(400),
    ));
    rows
}

/// Chunks that are not as they should be.
fn chunks() -> Vec<Row> {
    let chunked = |body: &str, fate: Fate| put("transfer-encoding: chunked", body, fate);
    let mut rows = vec![
        chunked(&format!("E\r\n{BODY}\r\n0\r\n\r\n"), Served(200)),
        chunked(&format!("0000e\r\n{BODY}\r\n000\r\n\r\n"), Served(200)),
        chunked("1\r\n{\r\nd\r\n\"capacity\":1}\r\n0\r\n\r\n", Served(200)),
        chunked(&format!("e;name=value;flag\r\n{BODY}\r\n0;last\r\n\r\n"), Served(200)),
        chunked(&format!("e\r\n{BODY}\r\n0\r\nx-checksum: 1\r\n\r\n"), Served(200)),
        // A trailer cannot say anew where the message ends.
        chunked(
            &format!("e\r\n{BODY}\r\n0\r\ncontent-length: 500\r\ntransfer-encoding: identity\r\n\r\n"),
            Served(200),
        ),
    ];
    for body in [
        "zz\r\n",
        "-1\r\n",
        "+e\r\n",
        "0xe\r\n",
        "e,\r\n",
        "\r\n",
        ";name=value\r\n",
        " \r\n",
        "fffffffffffffffff\r\n",
        "10000000000000000\r\n",
        "e\r{\"capacity\":1}\r\n0\r\n\r\n",
        "e\n{\"capacity\":1}\n0\n\n",
        "e\r\n{\"capacity\":1}0\r\n\r\n",
        "e\r\n{\"capacity\":1}\n0\r\n\r\n",
        "3\r\n{\"capacity\":1}\r\n0\r\n\r\n",
        "e;name=va\nlue\r\n{\"capacity\":1}\r\n0\r\n\r\n",
        "e;name=va\rlue\r\n{\"capacity\":1}\r\n0\r\n\r\n",
        "e\r\n{\"capacity\":1}\r\n0\r\nno colon\r\n\r\n",
        "e\r\n{\"capacity\":1}\r\n0\r\nbad name: x\r\n\r\n",
        "e\r\n{\"capacity\":1}\r\n0\r\nx: \x00\r\n\r\n",
    ] {
        rows.push(chunked(body, Refused(400)));
    }
    rows.push(chunked(&format!("e;{}\r\n{BODY}\r\n0\r\n\r\n", "x".repeat(100_000)), Refused(400)));
    rows.push(chunked(&format!("e\r\n{BODY}\r\n0\r\n{}\r\n", "x: y\r\n".repeat(20_000)), Refused(400)));
    let endless = "1;extension-of-a-chunk\r\n{\r\n".repeat(3_000);
    rows.push(chunked(&endless, Refused(400)));
    for (name, body) in [
        ("no chunk", String::new()),
        ("half a size", "e".to_owned()),
        ("half a chunk", "e\r\n{\"cap".to_owned()),
        ("no last chunk", format!("e\r\n{BODY}\r\n")),
        ("half a last chunk", format!("e\r\n{BODY}\r\n0")),
        ("no end after the last chunk", format!("e\r\n{BODY}\r\n0\r\n")),
        ("half a trailer", format!("e\r\n{BODY}\r\n0\r\nx-check")),
    ] {
        rows.push(row(name, format!("{PUT}transfer-encoding: chunked\r\n\r\n{body}"), CutOff(400)));
    }
    rows
}

/// Bodies where none is expected, coded ones, and halves of them. The content of a body is never a request.
fn bodies() -> Vec<Row> {
    let inside = |head: &str, more: &str| {
        format!("{head} HTTP/1.1\r\nhost: localhost\r\n{more}content-length: {}\r\n\r\n{SMUGGLED}", SMUGGLED.len())
    };
    let mut rows = Vec::new();
    for (head, status) in [
        ("GET /healthz", 200),
        ("GET /lock", 200),
        ("DELETE /lock?client=nobody", 403),
        ("POST /v1/claims/", 400),
        ("GET /nowhere", 404),
        ("PATCH /lock", 405),
        ("OPTIONS /lock", 405),
    ] {
        rows.push(row(format!("{head} with a request for a body"), inside(head, ""), Served(status)));
    }
    let in_chunks = format!("{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len());
    rows.push(row(
        "GET with a request in chunks",
        format!("{GET}transfer-encoding: chunked\r\n\r\n{in_chunks}"),
        Served(200),
    ));
    rows.push(row(
        "a request longer than allowed in front of one",
        {
            let target = format!("GET /lock?{}", "u".repeat(5_000));
            inside(&target, "")
        },
        Served(414),
    ));
    for coding in ["gzip", "GZIP", "deflate", "br", "zstd", "gzip, identity", "x"] {
        let head = inside("PUT /v1/resources/hostile", &format!("content-encoding: {coding}\r\n"));
        rows.push(row(format!("content-encoding: {coding}"), head, Served(415)));
    }
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0xae, 5, 0, 0x43, 0xbf, 0xa6, 0xa3, 2, 0, 0, 0];
    let head = format!("{PUT}content-encoding: gzip\r\ncontent-length: {}\r\n\r\n", gzip.len());
    rows.push(row("a body that is gzip", [head.as_bytes(), &gzip].concat(), Served(415)));
    // Without saying so it is not UTF-8.
    let head = format!("{PUT}content-length: {}\r\n\r\n", gzip.len());
    rows.push(row("a body that is gzip and does not say so", [head.as_bytes(), &gzip].concat(), Served(400)));
    for (name, body) in [("no body", ""), ("half a body", &BODY[..7])] {
        rows.push(row(format!("{name} and gone"), format!("{PUT}content-length: 14\r\n\r\n{body}"), CutOff(400)));
    }
    rows.push(row("half a head and gone", "POST /lock?client=smuggled HTTP/1.1\r\nhost: localhost\r\n", CutOff(400)));
    rows.push(row("no end of the head and gone", SMUGGLED.trim_end_matches("\r\n").to_owned() + "\r\n", CutOff(400)));
    rows
}

fn headers() -> Vec<Row> {
    let mut rows = vec![
        get("x: one\r\n two", Refused(400)),
        get("x: one\r\n\ttwo", Refused(400)),
        get("x : y", Refused(400)),
        get("x\t: y", Refused(400)),
        get("no colon", Refused(400)),
        get(": no name", Refused(400)),
        get("x: a\rb", Refused(400)),
        get("x: a\r\rb: c", Refused(400)),
        get(b"x: a\x00b", Refused(400)),
        get(b"x: a\x7fb", Refused(400)),
        get(b"x\x00y: a", Refused(400)),
        get(b"\xc3\xa9: a", Refused(400)),
        // Bytes past ASCII may stand in a value; nothing is made of them.
        get(b"x: \xc3\xa9\xff", Served(200)),
        get("x:", Served(200)),
        get("connection: close, host\r\nhost-x: y", Last(200)),
        get("x-request-id: two words\r\nx-request-id: b", Served(200)),
        row("a space before the first header", "GET /healthz HTTP/1.1\r\n host: localhost\r\n\r\n", Refused(400)),
        row("a fold before the first header", "GET /healthz HTTP/1.1\r\n\thost: localhost\r\n\r\n", Refused(400)),
    ];
    for name in
        ["bad(name)", "bad name", "bad\"name\"", "bad/name", "bad[name]", "bad@name", "bad=name", "{bad}", "bad,name"]
    {
        rows.push(get(format!("{name}: x"), Refused(400)));
    }
    let many = |count: usize| {
        (0..count).fold(String::new(), |mut lines, number| {
            let _ = write!(lines, "{}x{number}: y", if number > 0 { "\r\n" } else { "" });
            lines
        })
    };
    // With `host` a hundred, and a hundred and one.
    rows.push(get(many(99), Served(200)));
    rows.push(get(many(100), Refused(431)));
    rows.push(get(many(5_000), Refused(431)));
    rows.push(get(format!("x: {}", "y".repeat(20_000)), Served(431)));
    rows.push(get(format!("x: {}", "y".repeat(200_000)), Refused(431)));
    rows.push(get(format!("{}: y", "x".repeat(200_000)), Refused(431)));
    rows
}

/// The host of a request: given once, and in a form that fits into a URL.
fn hosts() -> Vec<Row> {
    let line = |host: &str| format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    let mut rows = vec![
        row("no host", line(""), Refused(400)),
        row("two hosts", line("host: a\r\nhost: b\r\n"), Refused(400)),
        row("the same host twice", line("host: a\r\nhost: a\r\n"), Refused(400)),
        row("no host in HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n", Last(200)),
        row("two hosts in HTTP/1.0", "GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", Refused(400)),
    ];
    for host in ["", "localhost", "LocalHost:8080", "[::1]:8080", "127.3.2.1"] {
        rows.push(row(format!("host {host:?}"), line(&format!("host: {host}\r\n")), Served(200)));
    }
    for host in ["x", "x:8080", "xn--caf-dma.example", "localhost.example", "[::2]", "10.0.0.1"] {
        rows.push(row(format!("host {host:?}"), line(&format!("host: {host}\r\n")), Served(421)));
    }
    for host in ["a b", "a, b", "a/b", "a@b", "a?b", "a#b", "a\"b", "<a>", "a\\b", "caf\u{e9}"] {
        rows.push(row(format!("host {host:?}"), line(&format!("host: {host}\r\n")), Refused(400)));
    }
    rows
}

fn request_lines() -> Vec<Row> {
    let mut rows = Vec::new();
    for line in [
        // HTTP/0.9, and versions there are none of.
        "GET /healthz",
        "GET /healthz ",
        "GET /healthz HTTP/0.9",
        "GET /healthz HTTP/1.2",
        "GET /healthz HTTP/1",
        "GET /healthz HTTP/1.10",
        "GET /healthz HTTP/1.1x",
        "GET /healthz HTTP/1.1 ",
        "GET /healthz HTTP/01.1",
        "GET /healthz HTTP/2.0",
        "GET /healthz http/1.1",
        "GET /healthz XTTP/1.1",
        // Parts that are missing, or too many.
        "/healthz HTTP/1.1",
        "GET HTTP/1.1",
        "GET  /healthz HTTP/1.1",
        "GET /healthz  HTTP/1.1",
        "GET\t/healthz\tHTTP/1.1",
        "GET /healthz /lock HTTP/1.1",
        " GET /healthz HTTP/1.1",
        // A line that goes on, and line ends inside.
        "GET /healthz\r\n HTTP/1.1",
        "GET /healthz\rx HTTP/1.1",
        "GET /heal\x00thz HTTP/1.1",
        "GET /heal\x7fthz HTTP/1.1",
        "GET /heal\x0bthz HTTP/1.1",
        // Methods that are no tokens.
        "G(E)T /healthz HTTP/1.1",
        "G\u{e9}T /healthz HTTP/1.1",
        "GE\x00T /healthz HTTP/1.1",
        "GET: /healthz HTTP/1.1",
        // Targets that are none.
        "GET http:// HTTP/1.1",
        "GET http://[::1 HTTP/1.1",
        "GET http://a b/ HTTP/1.1",
        "GET /<script> HTTP/1.1",
    ] {
        rows.push(row(format!("{line:?}"), format!("{line}\r\nhost: localhost\r\n\r\n"), Refused(400)));
    }
    for (line, fate) in [
        // To a proxy, which this is not; the path counts, and so does the host, whatever the header says.
        ("GET http://localhost/healthz HTTP/1.1", Served(200)),
        ("GET https://127.0.0.1:1/lock HTTP/1.1", Served(200)),
        ("GET http://localhost HTTP/1.1", Served(200)),
        ("POST http://localhost/healthz HTTP/1.1", Served(405)),
        ("GET http://elsewhere.example/healthz HTTP/1.1", Served(421)),
        ("POST https://elsewhere.example:1/lock HTTP/1.1", Served(421)),
        ("OPTIONS * HTTP/1.1", Served(404)),
        ("GET * HTTP/1.1", Served(404)),
        ("GET localhost:80 HTTP/1.1", Served(404)),
        ("GET elsewhere.example:80 HTTP/1.1", Served(421)),
        ("GET healthz HTTP/1.1", Served(421)),
        ("GET ://x HTTP/1.1", Served(421)),
        // A tunnel is not made, so nothing goes through it.
        ("CONNECT localhost:443 HTTP/1.1", Served(404)),
        ("CONNECT elsewhere.example:443 HTTP/1.1", Served(421)),
        ("CONNECT /lock HTTP/1.1", Served(405)),
        ("TRACE /lock HTTP/1.1", Served(405)),
        ("get /healthz HTTP/1.1", Served(405)),
        ("M!#$%&'*+-.^_`|~ET /healthz HTTP/1.1", Served(405)),
        ("GET /healthz?a=b#fragment HTTP/1.1", Served(200)),
        ("GET /%68ealthz HTTP/1.1", Served(404)),
        ("GET /lock/../healthz HTTP/1.1", Served(404)),
        ("GET //healthz HTTP/1.1", Served(404)),
        ("GET /healthz;a=b HTTP/1.1", Served(404)),
        ("GET \\healthz HTTP/1.1", Refused(400)),
    ] {
        rows.push(row(line, format!("{line}\r\nhost: localhost\r\n\r\n"), fate));
    }
    rows.push(row("empty lines in front", format!("\r\n\r\n{GET}\r\n"), Served(200)));
    rows.push(row(
        "a method without end",
        format!("{} /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", "M".repeat(5_000)),
        Served(405),
    ));
    rows.push(row(
        "a method past all bounds",
        format!("{} /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n", "M".repeat(50_000)),
        Refused(431),
    ));
    rows.push(row(
        "a target past all bounds",
        format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "u".repeat(200_000)),
        Refused(431),
    ));
    rows.push(row("a good request, then a bad one", format!("{GET}\r\n{GET}x : y\r\n\r\n"), Then(200, 400)));
    rows
}

/// Asking for another protocol, or for leave to go on.
fn switching() -> Vec<Row> {
    let expecting = |value: &str, fate: Fate| put(&format!("expect: {value}\r\ncontent-length: 14"), BODY, fate);
    vec![
        expecting("100-continue", Served(200)),
        expecting("100-Continue", Served(200)),
        expecting("200-ok", Served(200)),
        row(
            "leave to go on with far too much",
            format!("{PUT}expect: 100-continue\r\ncontent-length: 70000\r\n\r\n"),
            Last(413),
        ),
        // Fourteen bytes were announced, and are the body; what is left of the next request is none.
        row(
            "no leave to go on, and going on",
            format!("{PUT}expect: 100-continue\r\ncontent-encoding: gzip\r\ncontent-length: 14\r\n\r\n"),
            Then(415, 400),
        ),
        get("connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x", Served(200)),
        get("connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__", Served(200)),
        get("upgrade: TLS/1.2\r\nconnection: upgrade", Served(200)),
        row("HTTP/2 in the middle", format!("{GET}\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Last(200)),
    ]
}
