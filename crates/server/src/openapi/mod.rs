//! The HTTP contract for machines: an OpenAPI 3.1 document made from the table of endpoints, so that it lists exactly
//! what the router serves. The inputs and answers of each operation stand beside its code (`dialect/*/openapi.rs` and
//! their like), in an exhaustive match: an action without a description does not compile. `docs/openapi.json` is this
//! document, written down.

mod common;
mod operation;
mod schema;
mod service;

use http::Method;
use serde_json::{Map, Value, json};

pub(crate) use common::code_schema;
pub(crate) use operation::{Answer, Operation, Tag};
pub(crate) use schema::Schema;

use crate::endpoint::{Action, Face, endpoints};
use crate::faces::{claims, ended, lock, pools, watch};
use crate::http::router::Endpoint;
use crate::settings::Settings;

/// The document of a listener with this face, under these settings.
pub fn document(face: Face, settings: &Settings) -> Value {
    let endpoints = endpoints(face);
    let mut paths: Map<String, Value> = Map::new();
    let mut tags: Vec<Tag> = Vec::new();
    for endpoint in endpoints.iter().filter(|endpoint| !is_alias(endpoint, &endpoints)) {
        let Endpoint { method, pattern, handler } = endpoint;
        let operation = operation(*handler, settings);
        tags.push(operation.tag());
        let namesakes = endpoints.iter().filter(|other| other.handler == *handler && other.pattern == *pattern);
        let path = paths.entry(*pattern).or_insert_with(|| json!({})).as_object_mut().expect("an object was made");
        path.insert(method.as_str().to_ascii_lowercase(), operation.into_value(method, namesakes.count() == 1));
    }
    let tags: Vec<Value> = Tag::ALL
        .into_iter()
        .filter(|tag| tags.contains(tag))
        .map(|tag| json!({"name": tag.name(), "description": tag.description()}))
        .collect();
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
        // Neither is needed unless the operator asks for it.
        "security": [{}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": schemas(settings),
            "parameters": common::parameters(),
            "headers": common::headers(),
            "responses": common::responses(),
            "securitySchemes": common::security_schemes(),
        },
    })
}

fn introduction() -> String {
    format!(
        "Three dialects over one engine. JSON in and out; a body is read as JSON whatever type is declared. An answer leaves when \
         what it says is durable. Durations are seconds. 4xx means fix the call, 5xx means retry with backoff. Every grant \
         carries `token`, the fencing token. {} Paths that end in a slash work without it, too.",
        common::limits_in_words()
    )
}

/// `/v1/claims` beside `/v1/claims/`: one operation under two paths, of which the longer is documented.
fn is_alias(endpoint: &Endpoint<Action>, all: &[Endpoint<Action>]) -> bool {
    all.iter().any(|other| {
        other.handler == endpoint.handler
            && other.method == endpoint.method
            && other.pattern.strip_suffix('/') == Some(endpoint.pattern)
    })
}

fn operation(action: Action, settings: &Settings) -> Operation {
    match action {
        Action::Pools(action) => pools::openapi::operation(action, settings),
        Action::Claims(action) => claims::openapi::operation(action, settings),
        Action::Lock(action) => lock::openapi::operation(action, settings),
        Action::Observe(action) => watch::openapi::operation(action),
        Action::Dashboard(action) => service::dashboard(action),
        Action::Docs(action) => service::docs(action),
        Action::SignOn(action) => service::sign_on(action),
        Action::Health => service::health(),
        Action::Readiness => service::readiness(),
        Action::Metrics => service::metrics(),
    }
}

fn schemas(settings: &Settings) -> Map<String, Value> {
    let mut all = vec![("Error", common::error_schema()), ended::schema()];
    all.extend(pools::openapi::schemas(settings));
    all.extend(claims::openapi::schemas(settings));
    all.extend(lock::openapi::schemas());
    all.extend(watch::openapi::schemas());
    all.extend(service::schemas());
    let count = all.len();
    let schemas: Map<_, _> = all.into_iter().map(|(name, schema)| (name.to_owned(), schema.into())).collect();
    assert_eq!(schemas.len(), count, "every schema has a name of its own");
    schemas
}

/// Every endpoint of the router, for a test that compares the document with it.
pub fn served(face: Face) -> Vec<(Method, &'static str)> {
    endpoints(face).into_iter().map(|endpoint| (endpoint.method, endpoint.pattern)).collect()
}
