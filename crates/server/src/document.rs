//! The HTTP contract for machines: an OpenAPI 3.1 document made from the table of endpoints, so that it lists exactly
//! what the router serves. The inputs and answers of each operation stand beside its code (`faces/*/openapi.rs`), in an
//! exhaustive match: an endpoint without a description does not compile. `docs/openapi.json` is this document, written
//! down.

use http::Method;
use serde_json::{Map, Value, json};

use crate::code::Code;
use crate::faces::ended::EndedError;
use crate::faces::{self, Audience, Endpoint, endpoints};
use crate::http::{ErrorBody, router};
use crate::openapi::{Schema, Tag, common, header};
use crate::settings::Settings;

/// The methods that OpenAPI 3.1 has a place for.
const METHODS: [Method; 6] = [Method::GET, Method::PUT, Method::POST, Method::DELETE, Method::PATCH, Method::OPTIONS];

/// The place of all others in a path; version 3.2 has `additionalOperations`.
const ADDITIONAL: &str = "x-additionalOperations";

/// A pattern as the document writes it: a segment that takes all the rest is a segment.
fn path_of(pattern: &str) -> String {
    pattern.replace("{*", "{")
}

/// The document of a listener with this face, under these settings.
pub fn document(audience: Audience, settings: &Settings) -> Value {
    let endpoints = endpoints(audience);
    let mut paths: Map<String, Value> = Map::new();
    let mut tags: Vec<Tag> = Vec::new();
    for endpoint in endpoints.iter().filter(|endpoint| !is_alias(endpoint, &endpoints)) {
        let router::Endpoint { method, pattern, handler, .. } = endpoint;
        let operation = handler.operation(settings);
        if !tags.contains(&operation.tag()) {
            tags.push(operation.tag());
        }
        let namesakes = endpoints.iter().filter(|other| other.handler == *handler && other.pattern == *pattern);
        let path = paths.entry(path_of(pattern)).or_insert_with(|| json!({}));
        let value = operation.into_value(method, namesakes.count() == 1);
        if METHODS.contains(method) {
            path[method.as_str().to_ascii_lowercase()] = value;
        } else {
            path[ADDITIONAL][method.as_str()] = value;
        }
    }
    // In the order of the faces.
    tags.sort_by_key(|tag| *tag == Tag::SERVICE);
    let tags: Vec<Value> =
        tags.into_iter().map(|Tag { name, description }| json!({"name": name, "description": description})).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Leasehold",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Lends things over HTTP: locks, numbered slots, places in a queue.",
            "description": introduction(),
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": settings.public_url.as_deref().unwrap_or("/")}],
        "tags": tags,
        // None is needed unless the operator asks for it.
        "security": [{}, {"bearer": []}, {"basic": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(settings),
            "parameters": common::parameters(),
            "headers": header::headers(),
            "responses": common::responses(),
            "securitySchemes": common::security_schemes(),
        },
    })
}

fn introduction() -> String {
    format!(
        "Three dialects and two fronts for existing clients over one engine. JSON in and out; a body is read as JSON whatever type is declared. An answer leaves when \
         what it says is durable. Durations are seconds. 4xx means fix the call, 5xx means retry with backoff. Every grant \
         carries `token`, the fencing token. {} Paths that end in a slash work without it, too.",
        common::limits_in_words()
    )
}

/// `/v1/claims` beside `/v1/claims/`: one operation under two paths, of which the longer is documented.
fn is_alias(endpoint: &router::Endpoint<Endpoint>, all: &[router::Endpoint<Endpoint>]) -> bool {
    all.iter().any(|other| {
        other.handler == endpoint.handler
            && other.method == endpoint.method
            && other.pattern.strip_suffix('/') == Some(endpoint.pattern)
    })
}

fn schemas(settings: &Settings) -> Map<String, Value> {
    let mut all = vec![Schema::shape::<ErrorBody<'_, Code>>(), Schema::shape::<EndedError<'_>>()];
    all.extend(faces::schemas(settings));
    let count = all.len();
    let schemas: Map<_, _> = all.into_iter().map(|(name, schema)| (name.into_owned(), schema.into())).collect();
    assert_eq!(schemas.len(), count, "every schema has a name of its own");
    schemas
}

/// Every endpoint of the router, for a test that compares the document with it.
pub fn served(audience: Audience) -> Vec<(Method, String)> {
    endpoints(audience).into_iter().map(|endpoint| (endpoint.method, path_of(endpoint.pattern))).collect()
}
