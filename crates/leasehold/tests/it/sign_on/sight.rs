//! Observers of some resources: a team sees its own in lists, details, histories and streams, and nothing of others.

use serde_json::{Value, json};

use super::support::{Guarded, Member};
use crate::support::{EventStream, random_uuid};

const POLICIES: &str = r#"
[[policy]]
groups = ["operators"]
actions = ["*"]

[[policy]]
groups = ["web"]
actions = ["observe"]
kinds = ["claim", "lock"]
resources = ["web/*"]

[[policy]]
groups = ["lenders"]
actions = ["observe"]
kinds = ["pool"]
"#;

struct Rig {
    it: Guarded,
    web: Member,
    lender: Member,
    root: Member,
}

fn rig() -> Rig {
    let web = Member::new("wendy", &["web"]);
    let lender = Member::new("lena", &["lenders"]);
    let root = Member::new("root", &["operators"]);
    let tokens = [&web, &lender, &root].map(|member| member.snippet.as_str()).concat();
    Rig { it: Guarded::start(&format!("[auth]\nbind_lock_client = false\n{tokens}\n{POLICIES}")), web, lender, root }
}

impl Rig {
    fn claim(&self, resource: &str) {
        let body = json!({"resource": resource, "timeout": 600}).to_string();
        self.it.ask(Some(&self.root), "POST", "/v1/claims/", &body).expect(201);
    }

    fn seen(&self, who: &Member, target: &str) -> Value {
        self.it.ask(Some(who), "GET", target, "").expect(200).json()
    }

    /// The keys of a list, page by page.
    fn keys(&self, who: &Member, query: &str) -> Vec<String> {
        let mut keys = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.seen(who, &format!("/v1/observe/resources?limit=2&{query}{after}"));
            keys.extend(
                page["resources"].as_array().unwrap().iter().map(|line| line["key"].as_str().unwrap().to_owned()),
            );
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return keys,
            }
        }
    }
}

#[test]
fn a_team_sees_its_own_and_counts_nothing_else() {
    let rig = rig();
    for resource in ["web/a", "web/b", "web/c", "db/a"] {
        rig.claim(resource);
    }
    for job in ["web/deploy", "db/deploy", "web"] {
        rig.it.ask(Some(&rig.root), "POST", &format!("/lock?client=root&job={job}&ttl=60s"), "").expect(200);
    }
    let pool = random_uuid();
    rig.it.ask(Some(&rig.root), "PUT", &format!("/l/{pool}"), r#"{"count": 1}"#).expect(200);
    let own = ["claim:web/a", "claim:web/b", "claim:web/c", "lock:web/deploy"];
    for sort in ["name", "contended", "waiting", "expiry"] {
        let mut keys = rig.keys(&rig.web, &format!("sort={sort}"));
        keys.sort();
        assert_eq!(keys, own, "by {sort}, page by page");
    }
    assert!(rig.keys(&rig.web, "q=db").is_empty());
    let page = rig.seen(&rig.web, "/v1/observe/resources");
    let counts =
        (&page["total"], &page["matched"], &page["counts"]["claim"], &page["counts"]["lock"], &page["counts"]["pool"]);
    assert_eq!(counts, (&4.into(), &4.into(), &3.into(), &1.into(), &0.into()), "{page}");
    assert_eq!(rig.keys(&rig.root, "").len(), 8);
    let pools = rig.keys(&rig.lender, "");
    assert!(pools.len() == 1 && pools[0].starts_with("pool:"), "{pools:?}");

    // An order that another observer's list goes on with is not theirs.
    let first = rig.seen(&rig.root, "/v1/observe/resources?sort=contended&limit=2");
    let next = format!("/v1/observe/resources?sort=contended&limit=2&after={}", first["next"].as_str().unwrap());
    rig.it.ask(Some(&rig.web), "GET", &next, "").expect(400);
    rig.it.ask(Some(&rig.root), "GET", &next, "").expect(200);

    let paths = |key: &str| [format!("/v1/observe/resources/{key}"), format!("/v1/observe/resources/{key}/history")];
    for path in paths("claim:web%2Fa").into_iter().chain(paths("lock:web%2Fdeploy")) {
        rig.it.ask(Some(&rig.web), "GET", &path, "").expect(200);
        rig.it.ask(Some(&rig.lender), "GET", &path, "").expect(403);
    }
    let denied = |path: &str, wanted: &str| {
        let response = rig.it.ask(Some(&rig.web), "GET", path, "").expect(403);
        assert_eq!(response.text("error"), format!("wendy needs the action 'observe' on {wanted}"));
    };
    for path in paths("claim:db%2Fa") {
        denied(&path, "claim 'db/a'");
    }
    denied("/v1/observe/resources/claim:never-heard-of", "claim 'never-heard-of'");
    for path in paths(&pools[0]) {
        denied(&path, "a pool");
        rig.it.ask(Some(&rig.lender), "GET", &path, "").expect(200);
    }
    // Of the service as a whole they learn its version, and see the page.
    denied("/v1/observe/series", "the service");
    denied("/metrics", "the service");
    rig.it.ask(Some(&rig.web), "GET", "/v1/observe/service", "").expect(200);
    rig.it.ask(Some(&rig.web), "GET", "/", "").expect(200);
    let whoami = rig.seen(&rig.web, "/v1/whoami");
    assert_eq!(whoami["actions"], json!(["observe"]));
    let find = json!({"id": pool}).to_string();
    rig.it.ask(Some(&rig.web), "POST", "/v1/observe/pool", &find).expect(403);
    rig.it.ask(Some(&rig.lender), "POST", "/v1/observe/pool", &find).expect(200);
}

#[test]
fn a_team_hears_of_its_own() {
    let rig = rig();
    let mut stream = EventStream::open_as(rig.it.server.addr, "/v1/events", &rig.web.bearer());
    stream.expect("hello");
    for resource in ["db/a", "web/a", "db/b", "web/b"] {
        rig.claim(resource);
    }
    let heard: Vec<String> =
        (0..2).map(|_| stream.expect("granted").data["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(heard, ["claim:web/a", "claim:web/b"]);
}
