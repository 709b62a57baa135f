//! Health and metrics in the OpenAPI document.

use serde_json::json;

use super::routes::Endpoint;
use super::wire::{Living, Ready};
use crate::metrics::{CLASSIC_TYPE, OPENMETRICS_TYPE};
use crate::openapi::{AnswerDoc, NamedSchema, Operation, Schema, Tag};

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Health => health(),
        Endpoint::Readiness => readiness(),
        Endpoint::Metrics => metrics(),
    }
}

fn health() -> Operation {
    new("health", "Show that the process lives")
        .offhand()
        .answers(200, AnswerDoc::shape::<Living>("It does.", &json!({"status": "ok"})))
}

fn readiness() -> Operation {
    new("readiness", "Show that it can commit")
        .says("Makes the smallest of changes durable, and answers once it is.")
        .answers(200, AnswerDoc::shape::<Ready>("It can.", &json!({"status": "ready"})))
}

fn metrics() -> Operation {
    let answer = AnswerDoc::text("Every metric there is.", OPENMETRICS_TYPE).or_text(CLASSIC_TYPE);
    new("metrics", "Metrics for Prometheus")
        .says("OpenMetrics when `Accept` asks for it, else the older text format.")
        .offhand()
        .answers(200, answer)
}

fn new(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::SERVICE, id, summary)
}

pub(super) fn schemas() -> Vec<NamedSchema> {
    vec![Schema::shape::<Living>(), Schema::shape::<Ready>()]
}
