//! Slots with names, at their bounds: number, length of a name, bytes of all data. A thousand of them are granted by
//! name, and are there again after a restart.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Client, Launch, random_uuid};

fn slots(number: usize) -> Value {
    json!({"slots": (0..number).map(|nth| json!({"name": format!("bench-{nth}")})).collect::<Vec<_>>()})
}

/// The status of naming slots so, of a pool and of a resource alike, and the sentence of a refusal.
fn named(client: &mut Client, body: &Value) -> (u16, String) {
    let pool = client.call("PUT", &format!("/l/{}", random_uuid()), &body.to_string()).unwrap();
    let resource = client.call("PUT", &format!("/v1/resources/{}", random_uuid()), &body.to_string()).unwrap();
    assert_eq!(pool.status, resource.status, "{}", resource.json());
    let said = pool.json()["error"].as_str().unwrap_or_default().to_owned();
    (pool.status, said)
}

#[test]
fn the_bounds_of_their_number_their_names_and_their_data() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let client = &mut server.client();
    for number in [1, 999, 1_000] {
        assert_eq!(named(client, &slots(number)).0, 200, "{number}");
    }
    for number in [0, 1_001, 2_000] {
        let (status, said) = named(client, &slots(number));
        assert_eq!(status, 400, "{number}");
        assert!(said.contains("slots") && said.contains("1000"), "{said}");
    }
    // Past these bounds a body is too long by itself.
    assert_eq!(named(client, &slots(10_000)).0, 413);
    for (len, wanted) in [(0, 400), (1, 200), (99, 200), (100, 200), (101, 400), (100_000, 413)] {
        assert_eq!(named(client, &json!({"slots": [{"name": "n".repeat(len)}]})).0, wanted, "{len}");
    }
    // A text takes its quotes as well.
    for (len, wanted) in [((16 << 10) - 3, 200), ((16 << 10) - 2, 200), ((16 << 10) - 1, 400), (100_000, 413)] {
        let one = json!({"slots": [{"name": "a", "data": "d".repeat(len)}]});
        assert_eq!(named(client, &one).0, wanted, "{len}");
        let half = "d".repeat(len / 2);
        let two = json!({"slots": [{"name": "a", "data": half}, {"name": "b", "data": "d".repeat(len - 2 - len / 2)}]});
        assert_eq!(named(client, &two).0, wanted, "{len} in two");
    }
}

#[test]
fn a_thousand_of_them_are_granted_by_name_and_outlive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Launch::on(directory.path()).start();
    let pool = random_uuid();
    server.client().call("PUT", &format!("/l/{pool}"), &slots(1_000).to_string()).unwrap().expect(200);
    let borrow = |client: &mut Client| client.call("POST", &format!("/l/{pool}/borrow"), r#"{"ttl": 600}"#).unwrap();
    let mut names = BTreeSet::new();
    for nth in 0..1_000 {
        if nth == 500 {
            server.kill();
            server = Launch::on(directory.path()).start();
        }
        let lease = borrow(&mut server.client()).expect(200);
        let (number, name) =
            (&lease.json()["slot"]["number"], lease.json()["slot"]["name"].as_str().unwrap().to_owned());
        assert_eq!(name, format!("bench-{number}"));
        assert!(names.insert(name.clone()), "{name} was granted twice");
    }
    assert_eq!(borrow(&mut server.client()).status, 409);
}
