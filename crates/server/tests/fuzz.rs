//! Input of callers that this crate parses in public: bodies, queries, paths, durations. The corpus is in
//! `fuzz/corpus`; private parsers have their targets in `src/fuzz.rs`.

#[path = "fuzz/checks.rs"]
mod checks;

#[test]
fn bodies() {
    let words = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\\u0000",
        "\\ud800",
        "\\udc00",
        "null",
        "true",
        "1e999",
        "-0",
        "1e-400",
        "\"ttl\"",
        "\"wait\"",
        "\"count\"",
        "\"resource\"",
        "\"lease\"",
        "\"metadata\"",
        "0.000001",
        "é",
        "\u{10ffff}",
    ];
    leasehold_fuzz::run("body", &words, checks::body);
}

#[test]
fn queries_and_paths() {
    let words = ["%", "%2", "%00", "%ff", "%C3%A9", "%ED%A0%80", "&", "=", "+", "client", "wait", "a=1&a=2", "é"];
    leasehold_fuzz::run("query", &words, checks::query);
}

#[test]
fn durations() {
    let words =
        ["ns", "us", "µs", "μs", "ms", "s", "m", "h", "d", ".", "-", "+", "0", "9223372036854775807", "999999999999"];
    leasehold_fuzz::run("duration", &words, checks::duration);
}
