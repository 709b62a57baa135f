//! Moving a whole service into a cluster and back, with the real binary, real etcd and real PostgreSQL: everything that
//! a caller can ask for is the same afterwards, and at no instant can both sides be served, however a move ends.

mod killed;

use leasehold_testbed::{Etcd, Postgres};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Client, Launch, PATIENCE, Server, done, random_uuid, refused, until, utf8};

/// A node of the cluster in a store, once it owns every partition.
fn node(store: &str) -> Server {
    let args = ["--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--store", store];
    let server = Launch::with(&args).start();
    until("the node owns everything", PATIENCE, || {
        let status = server.client().call("GET", "/v1/cluster", "").ok()?.json();
        status["partitions"].as_array()?.iter().all(|partition| partition["here"] == true).then_some(())
    });
    server
}

fn stop(server: Server) {
    let (status, log) = server.stop(Signal::TERM);
    assert!(status.success(), "{log}");
}

/// Resources of every kind, with holders, waiters, ended claims, keys and labels.
struct Lent {
    pools: Vec<(String, Vec<String>)>,
    claims: usize,
    locks: usize,
}

fn lend(server: &Server) -> Lent {
    let mut client = server.client();
    let mut pools = Vec::new();
    for number in 0..5 {
        let pool = random_uuid();
        let body = format!("{{\"count\":3,\"label\":\"pool {number}\"}}");
        client.call("PUT", &format!("/l/{pool}"), &body).unwrap().expect(200);
        let mut leases = Vec::new();
        for key in ["a", "b"] {
            let (target, key) = (format!("/l/{pool}/borrow"), [("Idempotency-Key", key)]);
            let lease = client.call_with("POST", &target, &key, b"{\"ttl\":3600}").unwrap().expect(200);
            leases.push(lease.text("lease"));
        }
        pools.push((pool, leases));
    }
    let claims = 12;
    for number in 0..claims {
        let body =
            json!({"resource": format!("r{number}"), "timeout": 3600, "metadata": {"number": number}}).to_string();
        client.call("POST", "/v1/claims/", &body).unwrap().expect(201);
        client.call("POST", "/v1/claims/", &body).unwrap().expect(202);
        if number % 3 == 0 {
            let over = json!({"resource": format!("over{number}"), "timeout": 3600}).to_string();
            let ended = client.call("POST", "/v1/claims/", &over).unwrap().expect(201).text("id");
            let target = format!("/v1/claims/{ended}/");
            client.call("PATCH", &target, "{\"status\":\"released\"}").unwrap().expect(204);
        }
    }
    client.call("PUT", "/v1/resources/wide", "{\"capacity\":4,\"label\":\"a note\"}").unwrap().expect(200);
    let locks = 5;
    for number in 0..locks {
        let target = format!("/lock?job=job{number}&client=c{number}&ttl=1h");
        client.call("POST", &target, "").unwrap().expect(200);
    }
    Lent { pools, claims, locks }
}

/// Everything that callers can ask for, without the clocks in it.
fn picture(server: &Server, lent: &Lent) -> Value {
    fn without(mut value: Value, members: &[&str]) -> Value {
        if let Some(object) = value.as_object_mut() {
            for member in members {
                object.remove(*member);
            }
        }
        value
    }
    let mut client = server.client();
    let mut get = |target: &str| client.call("GET", target, "").unwrap().expect(200);
    let claims = get("/v1/claims/?limit=1000").json().as_array().unwrap().clone();
    let clocks = ["ttl", "url", "waiting_duration", "active_duration", "eta_s", "holders"];
    let claims: Vec<Value> = claims.into_iter().map(|claim| without(claim, &clocks)).collect();
    let mut resources = get("/v1/resources/").json().as_array().unwrap().clone();
    resources.sort_by_key(|resource| resource["resource"].to_string());
    let resources: Vec<Value> = resources.into_iter().map(|resource| without(resource, &["eta_s"])).collect();
    let pools: Vec<Value> = lent
        .pools
        .iter()
        .map(|(pool, leases)| {
            let pool_now = get(&format!("/l/{pool}")).json();
            let leases = leases.iter().map(|lease| get(&format!("/l/{pool}/leases/{lease}")).json());
            let leases: Vec<Value> =
                leases.map(|lease| without(lease, &["expires_in", "expires_at_unix", "renew_after"])).collect();
            json!([without(pool_now, &["eta_s"]), leases])
        })
        .collect();
    let locks: Vec<Value> = (0..lent.locks)
        .map(|number| {
            let lock = get(&format!("/lock?job=job{number}")).json();
            json!([lock["holder"], lock["token"], lock["is_expired"]])
        })
        .collect();
    let observed = get("/v1/observe/resources?limit=500&sort=name").json();
    let observed: Vec<&Value> = observed["resources"].as_array().unwrap().iter().map(|one| &one["key"]).collect();
    let service = get("/healthz").header("leasehold-service").unwrap().to_owned();
    json!({
        "claims": claims, "resources": resources, "pools": pools, "locks": locks, "observed": observed, "service": service,
    })
}

#[track_caller]
fn is_same(before: &Value, after: &Value) {
    for member in ["service", "pools", "locks", "resources", "observed", "claims"] {
        assert_eq!(before[member], after[member], "{member}");
    }
}

/// The seconds that are left of a lease of an hour.
fn left_s(server: &Server, lent: &Lent) -> f64 {
    let (pool, leases) = &lent.pools[0];
    let lease = server.client().call("GET", &format!("/l/{pool}/leases/{}", leases[0]), "").unwrap().expect(200);
    lease.json()["expires_in"].as_f64().unwrap()
}

/// The highest token that is held, and the token of a new grant in each dialect: all are higher.
fn grants_go_on(server: &Server, lent: &Lent, before: &Value) {
    let mut client = server.client();
    let last = before["claims"].as_array().unwrap().iter().filter_map(|claim| claim["token"].as_u64()).max().unwrap();
    for (pool, leases) in &lent.pools {
        let target = format!("/l/{pool}/borrow");
        let again =
            client.call_with("POST", &target, &[("Idempotency-Key", "a")], b"{\"ttl\":3600}").unwrap().expect(200);
        assert_eq!(again.text("lease"), leases[0], "a copy of the request finds its lease");
        let new = client.call("POST", &target, "{\"ttl\":3600}").unwrap().expect(200);
        assert!(new.number("token") > last, "{} after {last}", new.number("token"));
        let returned = format!("{{\"lease\":\"{}\"}}", new.text("lease"));
        client.call("POST", &format!("/l/{pool}/return"), &returned).unwrap().expect(200);
    }
    let claims = client.call("GET", "/v1/claims/?limit=1000&status=active&resource=r0", "").unwrap().expect(200).json();
    let (holder, token) = (claims[0]["id"].as_str().unwrap(), claims[0]["token"].as_u64().unwrap());
    let target = format!("/v1/claims/{holder}/");
    client.call("PATCH", &target, "{\"status\":\"released\"}").unwrap().expect(204);
    let claims = client.call("GET", "/v1/claims/?status=active&resource=r0", "").unwrap().expect(200).json();
    assert!(claims[0]["token"].as_u64().unwrap() > token, "the next in line: {claims}");
}

/// In and out again; `store` is the address of an empty store, `second` that of another one.
fn there_and_back(store: &str, second: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    let (data, back, file) = (path("data"), path("back"), path("backup.db"));
    let server = Launch::on(&data).start();
    let lent = lend(&server);
    let before = picture(&server, &lent);
    assert_eq!(before["claims"].as_array().unwrap().len(), lent.claims * 2 + 4);
    let moving_in = ["migrate", "--from", utf8(&data), "--to", store];
    refused(&moving_in, 3, "is in use by process");
    stop(server);

    let printed = done(&moving_in);
    assert!(printed.contains("was moved to") && printed.contains("claims held or waiting"), "{printed}");
    let ended = Launch::on(&data).try_start().map(drop).expect_err("the source is not served any more");
    assert!(ended.log.contains("its data was moved to"), "{}", ended.log);
    refused(&["backup", "--data", utf8(&data), "--to", utf8(&file)], 2, "its data was moved to");
    assert!(done(&moving_in).contains("was moved to"), "once more changes nothing");
    let printed = done(&["check", "--store", store]);
    assert!(printed.contains("is sound"), "{printed}");

    let server = node(store);
    is_same(&before, &picture(&server, &lent));
    let rest_s = left_s(&server, &lent);
    assert!((3300.0..=3600.0).contains(&rest_s), "{rest_s} s are left of an hour");
    let other = Launch::on(&path("other")).start();
    stop(other);
    refused(&["migrate", "--from", utf8(&path("other")), "--to", store], 2, "there is a cluster in");
    stop(Launch::on(&path("other")).start());
    refused(&["migrate", "--from", store, "--to", utf8(&back)], 3, "is in use by the node at");
    refused(&["migrate", "--from", store, "--to", utf8(&path("other"))], 2, "there is data in");
    grants_go_on(&server, &lent, &before);

    // A backup while it serves, which is one of a single server as well.
    let later = picture(&server, &lent);
    let printed = done(&["backup", "--store", store, "--to", utf8(&file)]);
    assert!(printed.contains("is a verified copy of"), "{printed}");
    let found: Value = serde_json::from_str(&done(&["check", "--json", "--store", store])).unwrap();
    assert_eq!((&found["sound"], &found["held"]["pool"]), (&json!(true), &json!(10)), "{found}");
    let last = found["last_token"].as_u64().unwrap();
    stop(server);

    let printed = done(&["migrate", "--from", store, "--to", utf8(&back)]);
    assert!(printed.contains("was moved to"), "{printed}");
    let args = ["--listen", "127.0.0.1:0", "--peer-listen", "127.0.0.1:0", "--store", store];
    let ended = Launch::with(&args).try_start().map(drop).expect_err("the source is not served any more");
    assert!(ended.log.contains("was moved to the data directory"), "{}", ended.log);
    let server = Launch::on(&back).start();
    is_same(&later, &picture(&server, &lent));
    grants_go_on_above(&server, &lent, last);
    stop(server);

    // The backup of the cluster, restored to a cluster and to a directory: counters jump.
    let printed = done(&["restore", "--from", utf8(&file), "--store", second, "--partitions", "4"]);
    assert!(printed.contains("tokens go on above"), "{printed}");
    refused(&["restore", "--from", utf8(&file), "--store", second], 2, "there is a cluster in");
    let server = node(second);
    is_same(&later, &picture(&server, &lent));
    grants_go_on_above(&server, &lent, 1 << 50);
    stop(server);
    done(&["restore", "--from", utf8(&file), "--data", utf8(&path("restored"))]);
    let server = Launch::on(&path("restored")).start();
    is_same(&later, &picture(&server, &lent));
    grants_go_on_above(&server, &lent, 1 << 50);
}

fn grants_go_on_above(server: &Server, lent: &Lent, last: u64) {
    let mut client: Client = server.client();
    for (pool, _) in &lent.pools {
        let new = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":3600}").unwrap().expect(200);
        assert!(new.number("token") > last, "{} after {last}", new.number("token"));
    }
}

#[test]
fn a_service_moves_to_etcd_and_back() {
    let etcd = Etcd::one();
    let store = |prefix: &str| format!("etcd://{}/{prefix}", etcd.hosts());
    there_and_back(&store("first"), &store("second"));
}

#[test]
fn a_service_moves_to_postgres_and_back() {
    let postgres = Postgres::one();
    let store = |schema: &str| format!("postgres://postgres@{}/postgres?schema={schema}", postgres.hosts());
    there_and_back(&store("first"), &store("second"));
}

#[test]
fn a_cluster_moves_from_etcd_to_postgres() {
    let (etcd, postgres) = (Etcd::one(), Postgres::one());
    let from = format!("etcd://{}/first", etcd.hosts());
    let to = format!("postgres://postgres@{}/postgres", postgres.hosts());
    let server = node(&from);
    let lent = lend(&server);
    let before = picture(&server, &lent);
    // Dead, and not buried by any node.
    server.kill();
    refused(&["migrate", "--from", &from, "--to", &from], 2, "are the same store");
    done(&["migrate", "--from", &from, "--to", &to, "--partitions", "2"]);
    let server = node(&to);
    is_same(&before, &picture(&server, &lent));
    grants_go_on(&server, &lent, &before);
}
