//! A proof of holding, the same in every dialect: the audience that a caller names, and the answer. The engine says
//! whether the caller holds anything, through the gate like any read; what it said is then signed here.

use std::sync::Arc;

use http::{Response, StatusCode};
use leasehold_engine::{ResourceKey, Token, Wall};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::Envelope;
use super::face::Service;
use crate::http::json::to_bytes;
use crate::http::json::value::Seconds;
use crate::http::query::Query;
use crate::http::{Body, Problem};
use crate::limits::AUDIENCE_MAX;
use crate::openapi::{AnswerDoc, Schema};
use crate::proofs::{Keyring, NoKeys, Proof, Provable};
use crate::response;
use crate::watch::key::public_name;

/// A grant as the engine told of it.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    pub(crate) resource: &'a ResourceKey,
    pub(crate) subject: &'a str,
    pub(crate) slot: u32,
    pub(crate) token: Token,
    pub(crate) left_us: u64,
}

/// A proof of holding.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProofOfHolding {
    /// A JWT of type `lease+jwt`, signed with `EdDSA`.
    proof: String,
    /// Seconds until it ends: no later than the lease, and after 5 minutes at the latest.
    expires_in: Seconds,
}

/// The audience in the query: the guard that the proof is for.
pub(crate) fn audience(query: &Query<'_>) -> Result<Box<str>, Problem> {
    match query.get("aud") {
        None => {
            let reason =
                format!("aud is missing, it names the guard that the proof is for, in 1 to {AUDIENCE_MAX} bytes");
            Err(Problem::about("aud", reason))
        }
        Some(aud) if (1..=AUDIENCE_MAX).contains(&aud.len()) => Ok(aud.into()),
        Some(aud) => Err(Problem::about("aud", format!("aud must have 1 to {AUDIENCE_MAX} bytes, got {}", aud.len()))),
    }
}

/// The keys that sign.
pub(crate) async fn keys(service: &Service) -> Result<Arc<Keyring>, Problem> {
    service.proof_keys.current().await.map_err(|error| away(&error))
}

pub(crate) fn away(error: &NoKeys) -> Problem {
    tracing::warn!("{error}");
    Problem::unavailable("the keys of proofs cannot be reached", 1)
}

/// `asked_at` is the wall clock before the engine was asked.
pub(crate) fn answer(
    service: &Service,
    keys: &Keyring,
    held: &Held<'_>,
    (audience, asked_at): (&str, Wall),
    envelope: &Envelope<'_>,
) -> Response<Body> {
    let digester = service.observer.digester();
    let issuer = match &service.settings.public_url {
        Some(url) => url.clone(),
        None => format!("urn:leasehold:{}", digester.service()),
    };
    let resource = format!("{}:{}", held.resource.kind().as_str(), public_name(held.resource, digester));
    let &Held { subject, slot, token: Token(token), left_us, .. } = held;
    let grant = Provable { issuer: &issuer, subject, resource: &resource, slot, token, left_us };
    let Proof { text, expires_in_us } = keys.prove(&grant, audience, asked_at.0);
    let body = to_bytes(&ProofOfHolding { proof: text, expires_in: Seconds(expires_in_us) });
    envelope.positioned(response::json(StatusCode::OK, envelope.id, body))
}

/// For the OpenAPI document: the audience …
pub(crate) fn audience_schema() -> Schema {
    Schema::string().length(1, AUDIENCE_MAX).says(format!("1 to {AUDIENCE_MAX} bytes.")).example("db.example.org")
}

pub(crate) const AUDIENCE_SAYS: &str = "The guard that the proof is for: it takes no other.";

/// … and the answer.
pub(crate) fn proof_answer() -> AnswerDoc {
    AnswerDoc::shape::<ProofOfHolding>("The proof.", &example())
}

fn example() -> Value {
    json!({"proof": "eyJ0eXAiOiJsZWFzZStqd3QiLCJhbGciOiJFZERTQSJ9.eyJ0b2siOjd9.c2lnbmF0dXJl", "expires_in": 29.75})
}
