//! Proofs as a guard sees them, and the life of a key.

use std::collections::BTreeSet;

use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

use super::*;
use crate::limits::{PROOF_KEY_RETIRED_S, PROOF_KEYS_MAX};

const NOW_US: u64 = 1_705_314_600_250_000;
const NOW_S: u64 = NOW_US / 1_000_000;

fn grant(left_us: u64) -> Provable<'static> {
    Provable { issuer: "urn:leasehold:0", subject: "ann", resource: "lock:deploy", slot: 0, token: 7, left_us }
}

/// The claims of a proof that was checked by the public keys.
fn checked(proof: &str, ring: &Keyring, now_s: u64) -> Option<Value> {
    let set: JwkSet = serde_json::from_value(serde_json::to_value(ring.public(now_s)).unwrap()).unwrap();
    let header = decode_header(proof).unwrap();
    assert_eq!((header.typ.as_deref(), header.alg), (Some("lease+jwt"), Algorithm::EdDSA));
    let key = DecodingKey::from_jwk(set.find(header.kid.as_deref()?)?).unwrap();
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.set_audience(&["db"]);
    validation.validate_exp = false;
    Some(decode(proof, &key, &validation).unwrap().claims)
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

#[test]
fn a_proof_says_who_holds_what_and_ends_with_the_lease_or_after_five_minutes() {
    let keys = ProofKeys::drawn();
    let ring = block_on(keys.current()).unwrap();
    for (left_us, ends_s, expires_in_us) in [
        (0, NOW_S, 0),
        (500_000, NOW_S, 0),
        (30_000_000, NOW_S + 30, 29_750_000),
        (30_999_999, NOW_S + 31, 30_750_000),
        (300_000_000, NOW_S + 300, 299_750_000),
        (u64::MAX / 4, NOW_S + 300, 299_750_000),
    ] {
        let proof = ring.prove(&grant(left_us), "db", NOW_US);
        assert_eq!(proof.expires_in_us, expires_in_us);
        let said = checked(&proof.text, &ring, NOW_S).unwrap();
        let expected = serde_json::json!({
            "iss": "urn:leasehold:0", "sub": "ann", "aud": "db", "res": "lock:deploy", "slot": 0, "tok": 7, "iat": NOW_S, "exp": ends_s,
        });
        assert_eq!(said, expected);
        assert!(ends_s * 1_000_000 <= NOW_US.saturating_add(left_us), "it does not outlive the lease");
    }
}

#[test]
fn after_a_rotation_old_proofs_are_checked_for_a_day() {
    block_on(async {
        let keys = ProofKeys::open(Box::new(MemoryShelf::default()), NOW_S).await.unwrap();
        let before = keys.current().await.unwrap();
        let old = before.prove(&grant(30_000_000), "db", NOW_US).text;
        let rotated_s = NOW_S + 100;
        let after = keys.rotate(rotated_s).await.unwrap();
        assert_eq!(keys.current().await.unwrap().kid(), after.kid());
        assert_ne!(before.kid(), after.kid());
        let new = after.prove(&grant(30_000_000), "db", NOW_US).text;
        assert_eq!(decode_header(&new).unwrap().kid.as_deref(), Some(after.kid()));
        for (now_s, is_there) in
            [(rotated_s, true), (rotated_s + PROOF_KEY_RETIRED_S - 1, true), (rotated_s + PROOF_KEY_RETIRED_S, false)]
        {
            assert_eq!(checked(&old, &after, now_s).is_some(), is_there);
            assert!(checked(&new, &after, now_s).is_some());
        }
    });
}

#[test]
fn keys_are_the_same_when_they_are_read_again_and_old_private_ones_are_not_kept() {
    block_on(async {
        let shelf = Box::new(MemoryShelf::default());
        let keys = ProofKeys::open(shelf, NOW_S).await.unwrap();
        let first = keys.shelf.read().await.unwrap().unwrap();
        keys.rotate(NOW_S).await.unwrap();
        let second = keys.shelf.read().await.unwrap().unwrap();
        let seed_of = |record: &[u8]| {
            let record: Value = serde_json::from_slice(record).unwrap();
            record["keys"].as_array().unwrap().last().unwrap()["seed"].as_str().unwrap().to_owned()
        };
        assert!(!String::from_utf8(second.clone()).unwrap().contains(&seed_of(&first)));
        let copy = MemoryShelf::default();
        assert!(copy.replace(None, second).await.unwrap());
        let opened = ProofKeys::open(Box::new(copy), NOW_S + 50).await.unwrap();
        assert_eq!(opened.current().await.unwrap().kid(), keys.current().await.unwrap().kid());
    });
}

#[test]
fn rotations_are_bounded_within_a_day() {
    block_on(async {
        let keys = ProofKeys::open(Box::new(MemoryShelf::default()), NOW_S).await.unwrap();
        let mut kids = BTreeSet::from([keys.current().await.unwrap().kid().to_owned()]);
        for nth in 1..PROOF_KEYS_MAX as u64 {
            assert!(kids.insert(keys.rotate(NOW_S + nth).await.unwrap().kid().to_owned()));
        }
        let Err(NotRotated::TooOften { retry_after_s }) = keys.rotate(NOW_S + 10).await else { panic!("one too many") };
        // The first key's place was taken a second after it was made.
        assert_eq!(retry_after_s, PROOF_KEY_RETIRED_S - 9);
        assert_eq!(
            serde_json::to_value(keys.current().await.unwrap().public(NOW_S + 10)).unwrap()["keys"]
                .as_array()
                .unwrap()
                .len(),
            PROOF_KEYS_MAX
        );
        keys.rotate(NOW_S + 10 + retry_after_s).await.unwrap();
    });
}

#[test]
fn a_record_that_makes_no_sense_is_said_to_be_damaged() {
    for record in ["", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"made_unix":1,"public":"AAAA"}]}"#] {
        let error = Keyring::parse(record.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the keys of proofs are damaged");
    }
}
