//! The log as an operator reads it: a line for each refused request at `debug`, one for every request with
//! `--access-log`, and routes as patterns. `secrets` shows that no line has a secret in it.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Launch, random_uuid};

/// The lines of a server with these flags about a request that works and two that do not, as JSON, the request's lines
/// only.
fn lines(flags: &[&str]) -> Vec<Value> {
    let mut launch = Launch::with(&["--listen", "127.0.0.1:0", "--memory", "--log-format", "json"]);
    for flag in flags {
        launch = launch.arg(flag);
    }
    let server = launch.start();
    let mut client = server.client();
    let pool = random_uuid();
    client.call("PUT", &format!("/l/{pool}"), "{\"count\":1}").unwrap().expect(200);
    let headers = [("x-request-id", "job-17")];
    client.call_with("POST", &format!("/l/{pool}/borrow"), &headers, b"{}").unwrap().expect(400);
    client.call("GET", &format!("/nowhere/{pool}"), "").unwrap().expect(404);
    let (_, log) = server.stop(Signal::TERM);
    assert!(!log.contains(&pool), "{log}");
    let parsed = log.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    parsed.filter(|line: &Value| line.get("route").is_some()).collect()
}

/// The members that tell one request's line from another's.
fn told(line: &Value) -> (&str, &str, &str, u64) {
    let text = |name: &str| line[name].as_str().unwrap();
    (text("level"), text("method"), text("route"), line["status"].as_u64().unwrap())
}

#[test]
fn at_debug_there_is_a_line_for_what_was_refused() {
    let lines = lines(&["--log-level", "debug"]);
    let expected = [("DEBUG", "POST", "/l/{id}/borrow", 400), ("DEBUG", "GET", "(none)", 404)];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
    assert_eq!(lines[0]["request"], "job-17");
    assert!(lines[0]["took_ms"].as_f64().unwrap() >= 0.0);
}

#[test]
fn an_access_log_has_a_line_for_everything() {
    let lines = lines(&["--access-log"]);
    let expected =
        [("INFO", "PUT", "/l/{id}", 200), ("INFO", "POST", "/l/{id}/borrow", 400), ("INFO", "GET", "(none)", 404)];
    assert_eq!(lines.iter().map(told).collect::<Vec<_>>(), expected);
    assert!(lines.iter().all(|line| line["target"] == "leasehold::access"), "it can be told apart by its target");
}

#[test]
fn at_info_requests_leave_no_line() {
    assert_eq!(lines(&[]), Vec::<Value>::new());
}

#[test]
fn no_value_of_a_caller_forges_a_line_or_steers_a_terminal() {
    let forged = "2026-01-01T00:00:00.000000Z ERROR forged";
    let reason = format!("a break\n{forged}\r\u{1b}[2J\u{202e}\u{2028}{forged}");
    let body = serde_json::json!({ "reason": reason }).to_string();
    for format in ["human", "json"] {
        let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory", "--log-format", format, "--access-log"])
            .arg("--log-level")
            .arg("debug")
            .start();
        let mut client = server.client();
        client.call("PUT", "/lock/pause?job=nightly%0A2026-01-01%20ERROR%20forged", &body).unwrap().expect(200);
        let headers = [("user-agent", "curl\u{9b}2J"), ("x-request-id", "a b")];
        client.call_with("GET", "/lock?job=x%1b%5b2J", &headers, b"").unwrap().expect(200);
        let (_, log) = server.stop(Signal::TERM);
        assert!(log.contains("lock paused"), "{format}: {log}");
        let is_steering = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{2028}'));
        for line in log.split('\n') {
            assert!(!line.starts_with("2026-01-01"), "{format}: {line}");
            // Readers of JSON escape what they show; a line must be one line for them as well.
            assert!(
                !line.contains(if format == "human" { is_steering } else { char::is_control }),
                "{format}: {line:?}"
            );
        }
    }
}
