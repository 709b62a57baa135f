//! Every endpoint of the OpenAPI document for every kind of caller, on every listener, compared with `matrix.txt`. An
//! endpoint that is new in the document fails here until a reviewer has checked the answer for each caller.
//!
//! `MATRIX=rewrite cargo test -p leasehold --test it matrix` writes the table anew; the reader judges whether it is
//! right.

use std::fmt::Write as _;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::support::{Guarded, Member};
use crate::support::{Client, EventStream, random_uuid, report};

/// Signed on without any right; with the owner's rights, but not the owner; the owner; a caller with all rights.
const ROLES: [&str; 5] = ["anonymous", "stranger", "peer", "owner", "operator"];

const CONFIG: &str = r#"
[auth]

[[policy]]
groups = ["users"]
actions = ["inspect", "acquire", "update-own"]

[[policy]]
groups = ["operators"]
actions = ["*"]
"#;

/// The endpoints of one listener: all of them, those for callers, or those for operators.
const LISTENERS: [&str; 3] = ["everything", "callers", "operators"];

struct Rig {
    it: Guarded,
    /// Where operators are served, if not there too.
    operators: Option<SocketAddr>,
    stranger: Member,
    peer: Member,
    owner: Member,
    operator: Member,
}

/// Things of the owner's, made afresh for one request.
struct Things {
    pool: String,
    lease: String,
    resource: String,
    claim: String,
    token: u64,
}

fn world(is_split: bool) -> Rig {
    let (stranger, peer) = (Member::new("stranger", &[]), Member::new("peer", &["users"]));
    let (owner, operator) = (Member::new("owner", &["users"]), Member::new("operator", &["operators"]));
    let tokens = [&stranger, &peer, &owner, &operator].map(|member| member.snippet.as_str()).concat();
    let more = if is_split { "admin_listen = \"127.0.0.1:0\"\n" } else { "" };
    let it = Guarded::start(&format!("{more}{CONFIG}\n{tokens}"));
    let operators = is_split.then(|| {
        let line = it.server.wait_for_line("are served on http://");
        line.split("://").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap()
    });
    Rig { it, operators, stranger, peer, owner, operator }
}

impl Rig {
    fn member(&self, role: &str) -> Option<&Member> {
        match role {
            "anonymous" => None,
            "stranger" => Some(&self.stranger),
            "peer" => Some(&self.peer),
            "owner" => Some(&self.owner),
            "operator" => Some(&self.operator),
            other => panic!("no role is {other}"),
        }
    }

    fn things(&self, number: usize) -> Things {
        let (pool, resource) = (random_uuid(), format!("thing-{number}"));
        self.it.ask(Some(&self.operator), "PUT", &format!("/l/{pool}"), r#"{"count": 2}"#).expect(200);
        let lease = self.it.ask(Some(&self.owner), "POST", &format!("/l/{pool}/borrow"), r#"{"ttl": 60}"#).expect(200);
        let body = json!({"resource": resource, "timeout": 60}).to_string();
        let claim = self.it.ask(Some(&self.owner), "POST", "/v1/claims/", &body).expect(201);
        let lock = format!("/lock?job={resource}&client=owner");
        self.it.ask(Some(&self.owner), "POST", &lock, "").expect(200);
        let lock = r#"{"ID": "the-owners"}"#;
        self.it.ask(Some(&self.owner), "LOCK", &format!("/tf/{resource}"), lock).expect(200);
        Things { pool, lease: lease.text("lease"), resource, claim: claim.text("id"), token: claim.number("token") }
    }

    fn addr(&self, listener: &str) -> SocketAddr {
        self.operators.filter(|_| listener == "operators").unwrap_or(self.it.server.addr)
    }

    /// The status this role gets.
    fn status(&self, listener: &str, role: &str, method: &str, target: &str, body: &str) -> u16 {
        let credential = self.member(role).map(|member| match listener {
            // The other way to send the same token has to be worth the same.
            "operators" => member.basic(role),
            "callers" => member.basic("-"),
            _ => member.bearer(),
        });
        let mut headers: Vec<(&str, &str)> =
            credential.as_deref().map(|credential| ("authorization", credential)).into_iter().collect();
        if method == "DELETE" && target.ends_with("/borrow") {
            // It ends the claim of a key, and a key belongs to its caller.
            headers.push(("idempotency-key", "k"));
        }
        if target.ends_with("/pre-reboot") || target.ends_with("/steady-state") {
            headers.push(("fleet-lock-protocol", "true"));
        }
        // The head is enough: a stream of events has no end.
        let mut client = Client::connect(self.addr(listener)).unwrap();
        client.call_with(method, target, &headers, body.as_bytes()).unwrap().status
    }
}

impl Things {
    /// A request for this endpoint, about the owner's things.
    fn request(&self, method: &str, path: &str, role: &str) -> (String, String) {
        let Things { pool, lease, resource, claim, token } = self;
        let id = if path.starts_with("/l/") { pool } else { claim };
        let mut target = path
            .replace("{id}", id)
            .replace("{lease}", lease)
            .replace("{name}", resource)
            .replace("{slot}", "0")
            .replace("{key}", &format!("claim%3A{resource}"))
            .replace("{file}", "index.html");
        if path.starts_with("/tf/") && method == "LOCK" {
            target = format!("/tf/free-{resource}");
        }
        assert!(!target.contains('{'), "no value is known for {target}");
        let name = if role == "anonymous" { "nobody" } else { role };
        let query = match (method, path) {
            // For itself, which no caller gets, and of the owner's.
            ("POST", "/lock") => format!("?job=free-{resource}&client={name}"),
            ("DELETE", "/lock") => format!("?job={resource}&client=owner"),
            ("GET", "/lock") | (_, "/lock/pause") => format!("?job={resource}"),
            ("GET", "/lock/proof") => format!("?job={resource}&client=owner&aud=guard"),
            ("GET", path) if path.starts_with("/v1/claims/{id}/proof") => "?aud=guard".to_owned(),
            ("GET", "/v1/fence") => format!("?kind=claim&resource={resource}&token={token}"),
            _ => String::new(),
        };
        target.push_str(&query);
        let body = match (method, path) {
            ("PUT", "/l/{id}") => json!({"count": 3}),
            ("POST", "/l/{id}/borrow") => json!({"ttl": 30}),
            ("POST", "/l/{id}/return") => json!({"lease": lease}),
            ("POST", "/l/{id}/renew") => json!({"lease": lease, "ttl": 30}),
            ("POST", "/l/{id}/proof") => json!({"lease": lease, "aud": "guard"}),
            ("POST", "/v1/claims/") => json!({"resource": format!("free-{resource}"), "timeout": 30}),
            ("PATCH" | "PUT", "/v1/claims/{id}/") => json!({"status": "released"}),
            ("PUT", "/v1/resources/{name}/") => json!({"capacity": 4}),
            ("PUT", path) if path.trim_end_matches('/').ends_with("/pause") => json!({"reason": "a drill"}),
            ("PUT", path) if path.contains("/slots/") => json!({"out_of_service": true, "reason": "a drill"}),
            ("POST", "/v1/observe/pool") => json!({"id": pool}),
            ("LOCK" | "UNLOCK", "/tf/{name}") => json!({"ID": "the-owners"}),
            ("POST", "/v1/pre-reboot" | "/fleetlock/v1/pre-reboot") => {
                json!({"client_params": {"id": role, "group": format!("free-{resource}")}})
            }
            ("POST", "/v1/steady-state" | "/fleetlock/v1/steady-state") => {
                json!({"client_params": {"id": role, "group": resource}})
            }
            ("POST", "/v1/admin/revoke") => json!({"key": format!("claim:{resource}"), "token": token}),
            _ => Value::Null,
        };
        (target, if body.is_null() { String::new() } else { body.to_string() })
    }
}

#[test]
fn everybody_gets_the_answer_they_should() {
    let document: Value = serde_json::from_str(include_str!("../../../../../docs/openapi.json")).unwrap();
    let (whole, split) = (world(false), world(true));
    let mut table = String::new();
    let mut number = 0;
    for listener in LISTENERS {
        let world = if listener == "everything" { &whole } else { &split };
        let title = format!("on the listener for {listener}");
        let _ = writeln!(table, "{title:<54}{}", ROLES.map(|role| format!("{role:>10}")).concat());
        for (path, operations) in document["paths"].as_object().unwrap() {
            let operations = operations.as_object().unwrap();
            // Methods that OpenAPI has no place for.
            let more = operations.get("x-additionalOperations").and_then(Value::as_object);
            let usual = operations.keys().filter(|method| !method.starts_with("x-"));
            for method in usual.chain(more.into_iter().flat_map(|more| more.keys())) {
                let method = method.to_ascii_uppercase();
                let _ = write!(table, "{:<54}", format!("{listener:<12}{method} {path}"));
                for role in ROLES {
                    number += 1;
                    let things = world.things(number);
                    let (target, body) = things.request(&method, path, role);
                    let _ = write!(table, "{:>10}", world.status(listener, role, &method, &target, &body));
                }
                table.push('\n');
            }
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/sign_on/matrix.txt");
    if std::env::var("MATRIX").is_ok_and(|mode| mode == "rewrite") {
        std::fs::write(&path, &table).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    let changed: Vec<&str> = table.lines().filter(|line| !expected.lines().any(|known| known == *line)).collect();
    assert!(changed.is_empty(), "not in matrix.txt:\n{}", changed.join("\n"));
    assert_eq!(table.lines().count(), expected.lines().count(), "matrix.txt has endpoints that are gone");
    let endpoints = table.lines().count() / LISTENERS.len() - 1;
    report(format_args!(
        "sign-on: {number} answers of {endpoints} endpoints on {} listeners as they should be",
        LISTENERS.len()
    ));
}

/// A stream is an answer that lasts: on whichever listener it is read, only an operator reads it, and only as long as
/// its token is one.
#[test]
fn streams_are_for_operators_and_end_with_their_token_on_every_listener() {
    let (whole, split) = (world(false), world(true));
    for listener in LISTENERS {
        let world = if listener == "everything" { &whole } else { &split };
        let statuses = ROLES.map(|role| world.status(listener, role, "GET", "/v1/events", ""));
        let expected = if listener == "callers" { [404; 5] } else { [401, 403, 403, 403, 200] };
        assert_eq!(statuses, expected, "{listener}");
    }
    for (listener, world) in [("everything", &whole), ("operators", &split)] {
        let mut stream = EventStream::open_as(world.addr(listener), "/v1/events", &world.operator.bearer());
        world.things(1);
        let told = std::iter::from_fn(|| stream.next_named()).find(|event| event.name == "granted");
        assert!(told.is_some(), "{listener}");
        let file = world.it.directory.path().join("leasehold.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        world.it.rewrite(&config.replace(&world.operator.snippet, ""));
        world.it.server.signal(rustix::process::Signal::HUP);
        world.it.server.wait_for_line("were reloaded");
        let last = std::iter::from_fn(|| stream.next_named()).last();
        assert_eq!(last.map(|event| event.name).as_deref(), Some("signed-out"), "{listener}");
    }
}
