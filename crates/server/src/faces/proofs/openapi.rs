//! The keys of proofs in the OpenAPI document.

use serde_json::{Value, json};

use super::routes::Endpoint;
use super::wire::Rotated;
use crate::faces::proving::ProofOfHolding;
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};
use crate::proofs::{ProofKeySet, PublicProofKey};

const KID: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Keys => Operation::new(Tag::SERVICE, "proofKeys", "The public keys of proofs")
            .says("By these a guard checks proofs of holding. A key stays here for a day after another took its place.")
            .offhand()
            .answers(200, AnswerDoc::shape::<ProofKeySet>("The keys, the one that signs first.", &keys())),
        Endpoint::Rotate => Operation::new(Tag::SERVICE, "rotateProofKey", "Sign proofs with another key from now on")
            .says("Proofs signed before can be checked to their end. A few times a day, then it is 429.")
            .offhand()
            .answers(200, AnswerDoc::shape::<Rotated<'_>>("The new key.", &json!({"kid": KID})))
            .answers(
                429,
                AnswerDoc::error(
                    "Too many keys were made within a day.",
                    "as many keys as there may be were made within a day; old ones stay for a day, so that proofs can be \
                     checked",
                ),
            ),
    }
}

fn keys() -> Value {
    json!({"keys": [{
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": KID, "alg": "EdDSA",
        "use": "sig",
    }]})
}

pub(super) fn schemas() -> Vec<NamedSchema> {
    vec![
        Schema::shape::<ProofKeySet>(),
        Schema::shape::<PublicProofKey>(),
        Schema::shape::<Rotated<'_>>(),
        Schema::shape::<ProofOfHolding>(),
    ]
}
