//! API tokens, policies, owners and limits.

use serde_json::json;

use super::support::{Guarded, Member};
use crate::support::{Response, leasehold, output_of, random_uuid};

const POLICIES: &str = r#"
[[policy]]
groups = ["operators"]
actions = ["*"]

[[policy]]
groups = ["builders"]
actions = ["inspect", "acquire", "update-own"]
resources = ["build/*"]

[[policy]]
groups = ["blind"]
actions = ["acquire", "update-own"]
resources = ["build/*"]

[[policy]]
subjects = ["anonymous"]
actions = ["inspect"]
kinds = ["lock"]
resources = ["status"]
"#;

struct Rig {
    it: Guarded,
    alice: Member,
    bob: Member,
    blind: Member,
    root: Member,
}

fn world(more: &str) -> Rig {
    let alice = Member::new("alice", &["builders"]);
    let bob = Member::new("bob", &["builders"]);
    let blind = Member::new("blind", &["blind"]);
    let root = Member::new("root", &["operators"]);
    let tokens = [&alice, &bob, &blind, &root].map(|member| member.snippet.as_str()).concat();
    Rig { it: Guarded::start(&format!("[auth]\n{more}\n{tokens}\n{POLICIES}")), alice, bob, blind, root }
}

impl Rig {
    fn claim(&self, who: &Member, resource: &str) -> Response {
        let body = json!({"resource": resource, "timeout": 600}).to_string();
        self.it.ask(Some(who), "POST", "/v1/claims/", &body)
    }
}

fn error(response: &Response) -> String {
    response.text("error")
}

const HEADER: &str = "the Authorization header must be Bearer and a token, or Basic and a user with an API token";

#[test]
fn nobody_gets_past_without_a_token_that_is_known() {
    let Rig { it, alice, .. } = world("");
    for (header, status, challenge) in [
        (None, 401, r#"Bearer realm="leasehold""#.to_owned()),
        (Some("Bearer lh_0000"), 401, told("the API token is unknown or was revoked")),
        (Some("Bearer nonsense"), 401, told("the token is of a kind that is not accepted here")),
        (Some("Basic YTpi"), 401, told("the API token is unknown or was revoked")),
        (Some("Basic YQ=="), 401, told("the Basic credential must be the base64 of a user, a colon and an API token")),
        (Some("Bearer"), 401, told(HEADER)),
        (Some("Digest YTpi"), 401, told(HEADER)),
    ] {
        let headers: Vec<_> = header.map(|value| ("authorization", value)).into_iter().collect();
        let response = it.ask_with(None, &headers, "GET", "/v1/claims/", "");
        assert_eq!((response.status, response.header("www-authenticate")), (status, Some(&*challenge)), "{header:?}");
    }
    let twice = it.ask_with(Some(&alice), &[("authorization", "Bearer x")], "GET", "/v1/claims/", "");
    assert_eq!((twice.status, &*error(&twice)), (401, "the Authorization header is there more than once"));
    it.ask(Some(&alice), "GET", "/v1/claims/", "").expect(200);
    for open in ["/healthz", "/readyz", "/v1/whoami"] {
        it.ask(None, "GET", open, "").expect(200);
    }
    for closed in ["/metrics", "/"] {
        it.ask(None, "GET", closed, "").expect(401);
        assert_eq!(
            error(&it.ask(Some(&alice), "GET", closed, "").expect(403)),
            "alice needs the action 'observe' on the service"
        );
    }
}

fn told(description: &str) -> String {
    format!(r#"Bearer realm="leasehold", error="invalid_token", error_description="{description}""#)
}

#[test]
fn a_claim_is_its_owners() {
    let world = world("");
    let Rig { it, alice, bob, blind, root } = &world;
    let claim = world.claim(alice, "build/a").expect(201);
    assert_eq!(claim.text("owner"), "alice");
    let one = format!("/v1/claims/{}/", claim.text("id"));
    let patch = |who: &Member, body: &str| it.ask(Some(who), "PATCH", &one, body);
    patch(alice, r#"{"ttl": 100}"#).expect(200);
    let refused = patch(bob, r#"{"status": "released"}"#).expect(403);
    assert_eq!(error(&refused), "bob needs the action 'revoke-any' on claim 'build/a'");
    assert_eq!(refused.header("www-authenticate"), Some(r#"Bearer realm="leasehold", error="insufficient_scope""#));
    // A caller that may not even look at it is not told that it exists.
    let nowhere = it.ask(Some(blind), "PATCH", &format!("/v1/claims/{}/", random_uuid()), r#"{"ttl": 1}"#).expect(404);
    for body in [r#"{"ttl": 1}"#, r#"{"status": "revoked"}"#, r#"{"nonsense": 1}"#, "{}"] {
        assert_eq!(patch(blind, body).expect(404).body, nowhere.body, "{body}");
    }
    assert_eq!(it.ask(Some(blind), "GET", &one, "").expect(404).body, nowhere.body);
    it.ask(Some(bob), "GET", &one, "").expect(200);
    for id in [one.clone(), format!("/v1/claims/{}/", random_uuid())] {
        it.ask(None, "PATCH", &id, r#"{"ttl": 1}"#).expect(401);
        it.ask(None, "GET", &id, "").expect(401);
    }
    patch(root, r#"{"status": "revoked"}"#).expect(204);
    let line = it.server.wait_for_line(r#"action="revoke-any" on="claim 'build/a'" outcome="done""#);
    assert!(line.contains(r#"who="root" source="token""#), "{line}");
    it.server.wait_for_line(r#"who="bob" source="token" action="revoke-any" on="claim 'build/a'" outcome="denied""#);
}

#[test]
fn what_belongs_to_somebody_else_is_not_listed() {
    let world = world("");
    let Rig { it, alice, bob, blind, root } = &world;
    world.claim(alice, "build/a").expect(201);
    world.claim(blind, "build/b").expect(201);
    world.claim(root, "deploy").expect(201);
    assert_eq!(error(&world.claim(alice, "deploy").expect(403)), "alice needs the action 'acquire' on claim 'deploy'");
    let listed = |who: &Member, path: &str, member: &str| -> Vec<String> {
        let list = it.ask(Some(who), "GET", path, "").expect(200).json();
        list.as_array().unwrap().iter().map(|item| item[member].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(root, "/v1/claims/", "resource"), ["build/a", "build/b", "deploy"]);
    assert_eq!(listed(bob, "/v1/claims/", "resource"), ["build/a", "build/b"]);
    assert_eq!(listed(bob, "/v1/claims/?limit=1&offset=1", "resource"), ["build/b"]);
    assert_eq!(listed(bob, "/v1/claims/?resource=deploy", "resource"), [""; 0]);
    assert_eq!(listed(bob, "/v1/resources/", "name"), ["build/a", "build/b"]);
    let refused = it.ask(Some(blind), "GET", "/v1/claims/", "").expect(403);
    assert_eq!(error(&refused), "blind needs the action 'inspect' on some claims");
    it.ask(Some(bob), "GET", "/v1/resources/deploy", "").expect(403);
    it.ask(Some(bob), "PUT", "/v1/resources/build%2Fa", r#"{"capacity": 2}"#).expect(403);
    it.ask(Some(root), "PUT", "/v1/resources/build%2Fa", r#"{"capacity": 2}"#).expect(200);
}

#[test]
fn an_idempotency_key_is_its_owners() {
    let Rig { it, alice, bob, .. } = world("");
    let body = r#"{"resource": "build/a", "timeout": 60}"#;
    let claim = |who: &Member| it.ask_with(Some(who), &[("idempotency-key", "k1")], "POST", "/v1/claims/", body);
    let first = claim(&alice).expect(201);
    assert_eq!(claim(&alice).expect(201).text("id"), first.text("id"));
    let other = claim(&bob).expect(202);
    assert_ne!(other.text("id"), first.text("id"));
    assert_eq!(other.text("owner"), "bob");
    let one = format!("/v1/claims/{}/", first.text("id"));
    it.ask(Some(&alice), "PATCH", &one, r#"{"status": "released"}"#).expect(204);
    assert_eq!(claim(&alice).status, 410, "spent");
    assert_eq!(claim(&bob).expect(201).text("id"), other.text("id"));
}

#[test]
fn pools_require_sign_on_unless_they_are_opened() {
    let open = world("pools_require_sign_on = false");
    let pool = format!("/l/{}", random_uuid());
    open.it.ask(None, "PUT", &pool, r#"{"count": 1}"#).expect(200);
    open.it.ask(None, "POST", &format!("{pool}/borrow"), r#"{"ttl": 60}"#).expect(200);
    // A token that is wrong is wrong everywhere.
    let wrong = Member { token: "lh_wrong".to_owned(), snippet: String::new() };
    open.it.ask(Some(&wrong), "GET", &pool, "").expect(401);

    let Rig { it, alice, root, .. } = world("");
    it.ask(None, "PUT", &pool, r#"{"count": 1}"#).expect(401);
    let refused = it.ask(Some(&alice), "PUT", &pool, r#"{"count": 1}"#).expect(403);
    assert_eq!(error(&refused), "alice needs the action 'configure' on a pool");
    it.ask(Some(&root), "PUT", &pool, r#"{"count": 1}"#).expect(200);
    let lease = it.ask(Some(&root), "POST", &format!("{pool}/borrow"), r#"{"ttl": 60}"#).expect(200);
    let body = json!({"lease": lease.text("lease")}).to_string();
    it.ask(None, "POST", &format!("{pool}/return"), &body).expect(401);
    it.ask(Some(&root), "POST", &format!("{pool}/return"), &body).expect(200);
    let id = pool.trim_start_matches("/l/").to_owned();
    assert!(!it.server.log().contains(&id), "a pool's id is in the log");
}

#[test]
fn a_lock_is_held_under_ones_own_name_unless_it_is_unbound() {
    let Rig { it, alice, bob, root, .. } = world("");
    let lock = |who: &Member, method: &str, client: &str| {
        it.ask(Some(who), method, &format!("/lock?job=build%2Fx&client={client}"), "")
    };
    lock(&alice, "POST", "alice").expect(200);
    lock(&alice, "POST", "alice%2Frunner-1").expect(409);
    for foreign in ["bob", "alicex", "ALICE", "alic"] {
        let refused = lock(&alice, "POST", foreign).expect(403);
        assert_eq!(
            error(&refused),
            "client must be \"alice\", or begin with it and a slash: locks are held under one's own name"
        );
    }
    lock(&bob, "DELETE", "alice").expect(403);
    it.ask(None, "GET", "/lock?job=status", "").expect(200);
    it.ask(None, "GET", "/lock?job=build%2Fx", "").expect(401);
    lock(&root, "DELETE", "alice").expect(200);
    lock(&alice, "POST", "alice%2Frunner-1").expect(200);

    let Rig { it, alice, .. } = world("bind_lock_client = false");
    it.ask(Some(&alice), "POST", "/lock?job=build%2Fx&client=laptop1", "").expect(200);
}

/// With one bucket for all that do not sign on, pools that were opened are metered, too.
#[test]
fn open_pools_are_metered() {
    let tokens = Member::new("root", &["operators"]);
    let config = format!(
        "[auth]\npools_require_sign_on = false\n{}\n{POLICIES}\n[limits]\nrequests_per_second = 1\nburst = 5\n",
        tokens.snippet
    );
    let it = Guarded::start(&config);
    let pool = format!("/l/{}", random_uuid());
    let statuses: Vec<u16> = (0..20).map(|_| it.ask(None, "PUT", &pool, r#"{"count": 1}"#).status).collect();
    assert_eq!(statuses[..5], [200; 5]);
    assert!(statuses[5..].contains(&429), "{statuses:?}");
    it.ask(Some(&tokens), "PUT", &pool, r#"{"count": 1}"#).expect(200);
}

/// Callers without a name owned everything that had no owner: each other's claims, and all from before there was
/// sign-on.
#[test]
fn callers_without_a_name_own_nothing() {
    let root = Member::new("root", &["operators"]);
    let policies =
        format!("{POLICIES}\n[[policy]]\nsubjects = [\"*\"]\nactions = [\"acquire\", \"update-own\", \"inspect\"]\n");
    let it = Guarded::start(&format!("[auth]\n{}\n{policies}", root.snippet));
    let claim = it.ask(None, "POST", "/v1/claims/", r#"{"resource": "x", "timeout": 60}"#).expect(201);
    assert!(claim.json()["owner"].is_null(), "{claim:?}");
    let one = format!("/v1/claims/{}/", claim.text("id"));
    let refused = it.ask(None, "PATCH", &one, r#"{"status": "released"}"#).expect(401);
    assert_eq!(error(&refused), "an anonymous caller needs the action 'revoke-any' on claim 'x'");
    it.ask(Some(&root), "PATCH", &one, r#"{"status": "revoked"}"#).expect(204);
}

/// Behind a terminator of TLS all callers have one address; a trusted one names the client of each request.
#[test]
fn failures_are_held_against_whom_a_trusted_proxy_names() {
    let Rig { it, .. } = world("");
    let bad = Member { token: "lh_bad".to_owned(), snippet: String::new() };
    let ask = |it: &Guarded, from: &str| {
        let headers = [("x-forwarded-for", from)];
        it.ask_with(Some(&bad), &headers, "GET", "/v1/claims/", "").status
    };
    let spread = |it: &Guarded| (0..30).map(|n| ask(it, &format!("198.51.100.{n}"))).filter(|s| *s == 429).count();
    assert_eq!(spread(&it), 20, "no proxy is believed unless told so");
    let config = std::fs::read_to_string(it.directory.path().join("leasehold.toml")).unwrap();
    let it = Guarded::start(&format!("trusted_proxies = \"127.0.0.1, 10.0.0.0/8\"\n{config}"));
    assert_eq!(spread(&it), 0);
    let one: Vec<u16> = (0..12).map(|_| ask(&it, "203.0.113.9, 10.1.2.3")).collect();
    assert_eq!((&one[..10], &one[10..]), (&[401; 10][..], &[429; 2][..]));
    assert_eq!(ask(&it, "203.0.113.9, 198.51.100.77"), 401, "a header that a caller wrote itself is not believed");
}

/// An operator who pastes the token where its digest belongs must not find it in a log.
#[test]
fn a_token_in_place_of_its_digest_is_not_printed() {
    let member = Member::new("ci", &[]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leasehold.toml");
    for pasted in [member.token.clone(), format!("sha256:{}", member.token)] {
        std::fs::write(&file, format!("[[auth.token]]\nname = \"ci\"\ndigest = \"{pasted}\"\n")).unwrap();
        for more in [&["serve"][..], &["serve", "--print-config"], &["policy", "explain", "--action", "observe"]] {
            let output = output_of(leasehold().args(more).arg("--config").arg(&file));
            let said =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(2), "{said}");
            assert!(
                said.contains("auth.token.digest must be the digest that `leasehold token new` printed, but it"),
                "{said}"
            );
            assert!(!said.contains(&member.token), "{said}");
        }
    }
}

#[test]
fn too_many_failures_are_put_off_and_a_good_token_still_works() {
    let Rig { it, alice, .. } = world("");
    let bad = Member { token: "lh_bad".to_owned(), snippet: String::new() };
    let statuses: Vec<u16> = (0..12).map(|_| it.ask(Some(&bad), "GET", "/v1/claims/", "").status).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    let put_off = it.ask(Some(&bad), "GET", "/v1/claims/", "").expect(429);
    assert_eq!(error(&put_off), "too many failed attempts to sign on from this address");
    assert!(put_off.header("retry-after").is_some());
    it.ask(Some(&alice), "GET", "/v1/claims/", "").expect(200);
}

#[test]
fn requests_past_the_limit_are_told_when_to_come_back() {
    let world = world("");
    let Rig { it, alice, bob, root, .. } = &world;
    let mut config = std::fs::read_to_string(it.directory.path().join("leasehold.toml")).unwrap();
    config.push_str("\n[limits]\nrequests_per_second = 1\nburst = 5\n");
    it.rewrite(&config);
    it.server.signal(rustix::process::Signal::HUP);
    it.server.wait_for_line("were reloaded");
    let statuses: Vec<u16> = (0..8).map(|_| it.ask(Some(alice), "GET", "/v1/claims/", "").status).collect();
    assert_eq!(statuses[..5], [200; 5]);
    assert!(statuses[5..].contains(&429), "{statuses:?}");
    it.ask(Some(bob), "GET", "/v1/claims/", "").expect(200);
    let metrics = it.ask(Some(root), "GET", "/metrics", "").expect(200);
    let text = String::from_utf8(metrics.body).unwrap();
    assert!(text.contains(r#"leasehold_sign_ins_total{source="token",outcome="accepted"}"#), "{text}");
}

#[test]
fn nobody_has_more_than_their_share() {
    let world = world("");
    let Rig { it, alice, bob, root, .. } = &world;
    let mut config = std::fs::read_to_string(it.directory.path().join("leasehold.toml")).unwrap();
    config.push_str("\n[limits]\nlive_claims = 3\nwaiters = 1\n");
    it.rewrite(&config);
    it.server.signal(rustix::process::Signal::HUP);
    it.server.wait_for_line("were reloaded");
    world.claim(bob, "build/a").expect(201);
    world.claim(alice, "build/a").expect(202);
    let waits = world.claim(alice, "build/a").expect(429);
    assert_eq!(error(&waits), "the caller has 1 claims that wait, as many as it may");
    assert_eq!(waits.header("retry-after"), Some("1"));
    world.claim(alice, "build/b").expect(201);
    let last = world.claim(alice, "build/c").expect(201);
    assert_eq!(error(&world.claim(alice, "build/d").expect(429)), "the caller has 3 claims, as many as it may");
    world.claim(bob, "build/d").expect(201);
    it.ask(Some(alice), "PATCH", &format!("/v1/claims/{}/", last.text("id")), r#"{"status": "released"}"#).expect(204);
    world.claim(alice, "build/e").expect(201);
    // Over all kinds.
    let pool = format!("/l/{}", random_uuid());
    it.ask(Some(root), "PUT", &pool, r#"{"count": 9}"#).expect(200);
    let borrow = || it.ask(Some(root), "POST", &format!("{pool}/borrow"), r#"{"ttl": 60}"#).status;
    world.claim(root, "x").expect(201);
    assert_eq!([borrow(), borrow(), borrow()], [200, 200, 429]);
}

/// A lock's client is a name that its caller chooses: what a principal may have was counted for each of these names.
#[test]
fn locks_count_for_the_principal_whatever_the_client_is_called() {
    const LIMITS: &str = "\n[limits]\nlive_claims = 3\nwaiters = 1\n";
    let (alice, bob) = (Member::new("alice", &["operators"]), Member::new("bob", &["operators"]));
    for (bind, [one, two, three, four]) in [
        ("", ["alice", "alice%2F1", "alice%2F2", "alice%2F3"]),
        // Unbound, she may even call herself bob: he is not charged for it.
        ("bind_lock_client = false", ["alice", "x", "y", "bob"]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.log");
        let log_setting = format!("audit_log = {:?}", log.display().to_string());
        let tokens = [&alice, &bob].map(|member| member.snippet.as_str()).concat();
        let config = format!("{log_setting}\n[auth]\n{bind}\n{tokens}\n{POLICIES}{LIMITS}");
        std::fs::write(directory.path().join("leasehold.toml"), config).unwrap();
        let mut it = Guarded { server: super::support::launch(directory.path()).start(), directory };
        let lock = |it: &Guarded, who: &Member, job: &str, client: &str| {
            it.ask(Some(who), "POST", &format!("/lock?job={job}&client={client}&ttl=600s"), "")
        };
        lock(&it, &alice, "a", one).expect(200);
        lock(&it, &alice, "b", two).expect(200);
        lock(&it, &alice, "c", three).expect(200);
        let refused = "the caller has 3 claims, as many as it may";
        assert_eq!(error(&lock(&it, &alice, "d", four).expect(429)), refused);
        // Over all kinds, and what she has she may renew.
        let claim = |it: &Guarded| it.ask(Some(&alice), "POST", "/v1/claims/", r#"{"resource": "x", "timeout": 60}"#);
        assert_eq!(error(&claim(&it).expect(429)), refused);
        lock(&it, &alice, "b", two).expect(200);
        for job in ["e", "f", "g"] {
            lock(&it, &bob, job, "bob").expect(200);
        }
        lock(&it, &bob, "h", "bob%2F1").expect(429);

        // Killed, it reads the journal; stopped, what it left behind in order.
        for is_killed in [true, false] {
            let Guarded { server, directory } = it;
            if is_killed {
                server.kill();
            } else {
                server.stop(rustix::process::Signal::TERM);
            }
            it = Guarded { server: super::support::launch(directory.path()).start(), directory };
            assert_eq!(error(&lock(&it, &alice, "d", four).expect(429)), refused);
            lock(&it, &bob, "h", "bob%2F1").expect(429);
        }
        it.ask(Some(&alice), "DELETE", &format!("/lock?job=b&client={two}"), "").expect(200);
        lock(&it, &alice, "d", four).expect(200);

        // The audit log says who did it, beside what the client was called.
        let audit = std::fs::read_to_string(&log).unwrap();
        let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let done: Vec<_> = audit.lines().map(line).filter(|line| line["outcome"] == "done").collect();
        let who = |job: &str| {
            let resource = format!("lock:{job}");
            let taken = done.iter().find(|line| line["resource"] == *resource && line["action"] == "acquire").unwrap();
            [&taken["principal"], &taken["client"]].map(|name| name.as_str().unwrap_or("-").to_owned())
        };
        for (job, client) in [("a", one), ("c", three), ("d", four)] {
            assert_eq!(who(job), ["alice".to_owned(), client.replace("%2F", "/")], "{audit}");
        }
    }
}
