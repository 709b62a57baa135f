//! Proofs of holding from the real binary: they end with their leases and never before the grant is real, the keys go
//! with the data, and neither a pool's id nor a lease is in one. The guards of docs/guarding.md check their signatures
//! (`tests/recipes`).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::support::{Client, Launch, random_uuid};

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// The header and the claims of a proof, as they are in it.
fn parts(proof: &str) -> [Value; 2] {
    let part = |nth| {
        let text = proof.split('.').nth(nth).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
    };
    [part(0), part(1)]
}

fn kids(client: &mut Client) -> Vec<String> {
    let keys = client.call("GET", "/.well-known/leasehold/jwks.json", "").unwrap().expect(200).json();
    keys["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_proof_ends_with_its_lease_and_is_of_the_present_alone() {
    let server = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    let mut client = server.client();
    let claim = client.call("POST", "/v1/claims/", "{\"resource\":\"db\",\"timeout\":20}").unwrap().expect(201);
    let target = format!("/v1/claims/{}/proof?aud=vault", claim.text("id"));
    let proof = client.call("GET", &target, "").unwrap().expect(200);
    let [header, said] = parts(&proof.text("proof"));
    assert_eq!((&header["typ"], &header["alg"]), (&"lease+jwt".into(), &"EdDSA".into()));
    assert!(said["exp"].as_u64().unwrap() <= now_s() + 20, "{said} outlives its lease of 20 s");
    assert_eq!(
        (&said["res"], &said["aud"], &said["tok"]),
        (&"claim:db".into(), &"vault".into(), &claim.json()["token"])
    );
    let claimed = format!("/v1/claims/{}/", claim.text("id"));
    client.call("PATCH", &claimed, "{\"status\":\"released\"}").unwrap().expect(204);
    assert_eq!(client.call("GET", &target, "").unwrap().expect(409).text("ended"), "returned");

    let pool = random_uuid();
    client.call("PUT", &format!("/l/{pool}"), "{\"count\":2}").unwrap().expect(200);
    let lease = client.call("POST", &format!("/l/{pool}/borrow"), "{\"ttl\":7200}").unwrap().expect(200).text("lease");
    let body = format!("{{\"lease\":\"{lease}\",\"aud\":\"vault\"}}");
    let proof = client.call("POST", &format!("/l/{pool}/proof"), &body).unwrap().expect(200);
    let [header, said] = parts(&proof.text("proof"));
    assert!(said["exp"].as_u64().unwrap() <= now_s() + 300, "five minutes at the most");
    let whole = format!("{header}{said}").replace('-', "");
    assert!(!whole.contains(&pool.replace('-', "")) && !whole.contains(&lease.replace('-', "")), "{whole}");
}

#[test]
fn the_keys_of_proofs_stay_with_the_data() {
    let directory = tempfile::tempdir().unwrap();
    let server = Launch::on(directory.path()).start();
    let first = kids(&mut server.client());
    assert_eq!(first.len(), 1);
    let rotated = server.client().call("POST", "/v1/admin/proof-key", "").unwrap().expect(200).text("kid");
    let known = kids(&mut server.client());
    assert_eq!(known, [rotated, first[0].clone()]);
    server.kill();
    let server = Launch::on(directory.path()).start();
    assert_eq!(kids(&mut server.client()), known);
    let other = Launch::with(&["--listen", "127.0.0.1:0", "--memory"]).start();
    assert_ne!(kids(&mut other.client()), known);
}
