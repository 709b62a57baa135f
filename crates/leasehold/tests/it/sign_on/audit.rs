//! The audit log of the real binary: a line for every change, of every caller and with every outcome; and with it
//! required, no change that is not in it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use super::support::{Guarded, Member};
use crate::support::{Launch, PATIENCE, random_uuid, until};

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))).collect()
}

#[test]
fn every_change_has_a_line_and_reads_have_none() {
    let (ci, root) = (Member::new("ci", &["users"]), Member::new("root", &["operators"]));
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("audit.log");
    let policies = r#"
[[policy]]
groups = ["users"]
actions = ["inspect", "acquire", "update-own"]
[[policy]]
groups = ["operators"]
actions = ["*"]
"#;
    let config = format!(
        "audit_log = {:?}\ntrusted_proxies = \"127.0.0.1\"\n{}\n{}\n{policies}",
        log.display().to_string(),
        ci.snippet,
        root.snippet
    );
    let it = Guarded::start(&config);
    let from = [("x-forwarded-for", "198.51.100.7")];
    let ask =
        |who: Option<&Member>, method: &str, target: &str, body: &str| it.ask_with(who, &from, method, target, body);
    let id = random_uuid();
    let pool = format!("/l/{id}");
    ask(Some(&root), "PUT", &pool, r#"{"count": 1}"#).expect(200);
    let lease = ask(Some(&ci), "POST", &format!("{pool}/borrow"), r#"{"ttl": 60}"#).expect(200);
    let body = json!({"lease": lease.text("lease"), "ttl": 30}).to_string();
    ask(Some(&ci), "POST", &format!("{pool}/renew"), &body).expect(200);
    ask(Some(&ci), "POST", &format!("{pool}/borrow"), r#"{"ttl": 60}"#).expect(409);
    ask(Some(&ci), "GET", &pool, "").expect(200);
    let claim = ask(Some(&ci), "POST", "/v1/claims/", r#"{"resource": "gpu", "timeout": 60}"#).expect(201);
    let waiting = ask(Some(&root), "POST", "/v1/claims/", r#"{"resource": "gpu", "timeout": 60}"#).expect(202);
    let one = format!("/v1/claims/{}/", claim.text("id"));
    ask(Some(&ci), "PATCH", &one, r#"{"status": "released"}"#).expect(204);
    ask(Some(&ci), "PATCH", &format!("/v1/claims/{}/", waiting.text("id")), r#"{"status": "released"}"#).expect(403);
    ask(Some(&ci), "POST", "/lock?job=j&client=ci%2F1", "").expect(200);
    ask(None, "POST", "/lock?job=j&client=x", "").expect(401);
    ask(Some(&ci), "DELETE", "/lock?job=j&client=ci%2F1", "").expect(200);
    ask(Some(&ci), "GET", "/v1/claims/", "").expect(200);

    let digest = ask(Some(&root), "POST", "/v1/observe/pool", &json!({"id": id}).to_string()).expect(200).text("key");
    let told: Vec<[String; 5]> = lines(&log)
        .iter()
        .map(|line| {
            assert_eq!(line["address"], "198.51.100.7", "{line}");
            ["principal", "action", "resource", "client", "outcome"]
                .map(|name| line[name].as_str().unwrap_or("-").to_owned())
        })
        .collect();
    let expected = [
        ["root", "configure", &digest, "-", "done"],
        ["ci", "acquire", &digest, "-", "done"],
        ["ci", "renew", &digest, "-", "done"],
        ["ci", "acquire", &digest, "-", "refused"],
        ["ci", "acquire", "claim:gpu", "-", "done"],
        ["root", "acquire", "claim:gpu", "-", "waiting"],
        ["ci", "update", "claim:gpu", "-", "done"],
        ["ci", "update", "claim:gpu", "-", "denied"],
        ["ci", "acquire", "lock:j", "ci/1", "done"],
        ["-", "acquire", "lock:j", "x", "denied"],
        ["ci", "unlock", "lock:j", "ci/1", "done"],
    ];
    assert_eq!(told, expected.map(|line| line.map(str::to_owned)));
    assert!(lines(&log).iter().all(|line| line["position"].as_str().is_some_and(|position| position.contains('.'))));
    let text = std::fs::read_to_string(&log).unwrap();
    for secret in [&id, &lease.text("lease"), &ci.token] {
        assert!(!text.contains(secret.as_str()), "{secret} is in {text}");
    }

    // Rotated by name.
    let kept = scratch.path().join("audit.log.1");
    std::fs::rename(&log, &kept).unwrap();
    ask(Some(&ci), "POST", "/v1/claims/", r#"{"resource": "cpu", "timeout": 60}"#).expect(201);
    assert_eq!((lines(&kept).len(), lines(&log).len()), (expected.len(), 1));
    assert_eq!(log.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

/// A caller that leaves while it waits is in the log all the same.
#[test]
fn a_caller_that_left_has_its_line() {
    let scratch = tempfile::tempdir().unwrap();
    let log = scratch.path().join("audit.log");
    let server = Launch::on(&scratch.path().join("data")).arg("--audit-log").arg(&log).start();
    let lock = |client: &str| format!("/lock?client={client}&ttl=60s&wait=60s");
    server.client().call("POST", &lock("a"), "").unwrap().expect(200);
    let mut waiter = server.client();
    waiter.send("POST", &lock("b"), &[], b"").unwrap();
    server.wait_for_line("waiting for the lock");
    drop(waiter);
    let left = until("its line is there", PATIENCE, || lines(&log).into_iter().find(|line| line["client"] == "b"));
    assert_eq!((&left["outcome"], &left["principal"], &left["status"]), (&"left".into(), &Value::Null, &Value::Null));
}

#[test]
fn where_it_is_required_nothing_is_changed_that_is_not_in_it() {
    let scratch = tempfile::tempdir().unwrap();
    let (there, away) = (scratch.path().join("logs"), scratch.path().join("away"));
    std::fs::create_dir(&there).unwrap();
    let log = there.join("audit.log");
    let launch = || Launch::on(&scratch.path().join("data")).arg("--audit-log").arg(&log);
    let server = launch().arg("--audit-required").start();
    let mut client = server.client();
    client.call("POST", "/lock?client=a&ttl=60s", "").unwrap().expect(200);
    let outcomes = || lines(&log).iter().map(|line| line["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(outcomes(), ["begun", "done"]);
    assert_eq!(lines(&log)[0]["request"], lines(&log)[1]["request"]);

    std::fs::rename(&there, &away).unwrap();
    let refused = client.call("DELETE", "/lock?client=a", "").unwrap().expect(503);
    let said = refused.text("error");
    assert!(said.starts_with("the audit log cannot be written (") && said.ends_with("that is not in it"), "{said}");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(client.call("GET", "/lock", "").unwrap().expect(200).text("holder"), "a", "nothing was changed");
    server.wait_for_line("the audit log cannot be written");
    std::fs::rename(&away, &there).unwrap();
    client.call("DELETE", "/lock?client=a", "").unwrap().expect(200);
    server.wait_for_line("the audit log can be written again");
    assert_eq!(outcomes(), ["begun", "done", "begun", "done"]);
    drop(server);

    // A disk that is full from the beginning; and where the log is not required, service goes on.
    let full = |required: &[&str]| {
        let mut launch = Launch::on(&scratch.path().join("data")).arg("--audit-log").arg("/dev/full");
        for arg in required {
            launch = launch.arg(arg);
        }
        let server = launch.start();
        let status = server.client().call("POST", "/lock?client=b&ttl=60s", "").unwrap().status;
        server.wait_for_line("the audit log cannot be written");
        status
    };
    assert_eq!((full(&["--audit-required"]), full(&[])), (503, 200));
    let ended = Launch::on(&scratch.path().join("data")).arg("--audit-required").try_start().unwrap_err();
    assert!(ended.log.contains("audit_required is of no use without audit_log"), "{}", ended.log);
}
