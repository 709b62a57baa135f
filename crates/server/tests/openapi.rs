//! The OpenAPI document by itself: the committed one is the served one, it lists the endpoints of the router and
//! nothing else, and it is sound. The transcripts show that real answers fit it, and schemathesis shows it from
//! outside.
//!
//! `OPENAPI=rewrite cargo test -p leasehold-server --test openapi` writes `docs/openapi.json` anew.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::collections::BTreeSet;
use std::path::Path;

use leasehold_server::document::{document, served};
use leasehold_server::{Audience, Settings};
use serde_json::{Value, json};

const METHODS: [&str; 7] = ["get", "put", "post", "delete", "patch", "head", "options"];

/// Every operation: its method, its path and its description.
fn operations(document: &Value) -> Vec<(String, String, &Value)> {
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if method == "x-additionalOperations" {
                let more = operation.as_object().unwrap().iter();
                operations.extend(more.map(|(method, operation)| (method.clone(), path.clone(), operation)));
                continue;
            }
            assert!(METHODS.contains(&&**method), "{method} is no method");
            operations.push((method.to_uppercase(), path.clone(), operation));
        }
    }
    operations
}

#[test]
fn the_committed_document_is_the_served_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let served = format!("{:#}\n", document(Audience::Whole, &Settings::default()));
    if std::env::var("OPENAPI").is_ok_and(|mode| mode == "rewrite") {
        std::fs::write(&path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    let first_difference = committed.lines().zip(served.lines()).enumerate().find(|(_, (left, right))| left != right);
    assert!(committed == served, "docs/openapi.json is not what is served, first here: {first_difference:#?}");
}

#[test]
fn the_document_lists_what_the_router_serves_and_nothing_else() {
    for audience in [Audience::Whole, Audience::Callers, Audience::Operators] {
        let document = document(audience, &Settings::default());
        let listed: BTreeSet<(String, String)> =
            operations(&document).into_iter().map(|(method, path, _)| (method, path)).collect();
        let served: BTreeSet<(String, String)> =
            served(audience).into_iter().map(|(method, path)| (method.to_string(), path)).collect();
        let unserved: Vec<_> = listed.difference(&served).collect();
        assert!(unserved.is_empty(), "{audience:?}: listed and not served: {unserved:?}");
        for (method, path) in served {
            // With and without its slash it is one operation, listed with it.
            let twin = (method.clone(), format!("{path}/"));
            assert!(
                listed.contains(&(method, path.clone())) || listed.contains(&twin),
                "{audience:?}: {path} is not listed"
            );
        }
    }
}

#[test]
fn the_served_limits_are_the_settings() {
    let settings =
        Settings { count_max: 7, public_url: Some("https://locks.example.org".to_owned()), ..Settings::default() };
    let document = document(Audience::Whole, &settings);
    assert_eq!(document["components"]["schemas"]["PoolSettings"]["properties"]["count"]["maximum"], 7);
    assert_eq!(document["servers"][0]["url"], "https://locks.example.org");
}

#[test]
fn every_operation_is_complete() {
    let document = document(Audience::Whole, &Settings::default());
    let mut ids = BTreeSet::new();
    let tags: Vec<&Value> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    for (method, path, operation) in operations(&document) {
        let at = format!("{method} {path}");
        let id = operation["operationId"].as_str().unwrap();
        assert!(ids.insert(id), "{at}: {id} is taken");
        assert!(!operation["summary"].as_str().unwrap().is_empty(), "{at} has no summary");
        assert!(tags.contains(&&operation["tags"][0]), "{at} is in no group");
        let in_path: BTreeSet<&str> =
            path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}')).collect();
        let parameters = operation["parameters"].as_array().unwrap();
        let given = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let given: BTreeSet<&str> = given.map(|parameter| parameter["name"].as_str().unwrap()).collect();
        assert_eq!(given, in_path, "{at}");
        let answers = operation["responses"].as_object().unwrap();
        assert!(answers.keys().any(|status| status.starts_with('2') || status == "303"), "{at} never succeeds");
    }
}

#[test]
fn every_reference_leads_somewhere_and_nothing_is_left_over() {
    let document = document(Audience::Whole, &Settings::default());
    let mut references = BTreeSet::new();
    collect_references(&document, &mut references);
    for reference in &references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for group in ["schemas", "headers", "responses", "parameters"] {
        for name in document["components"][group].as_object().unwrap().keys() {
            // Said for completeness: no operation has a method that is not allowed.
            let is_apart = name == "MethodNotAllowed" || name == "Allow";
            let reference = format!("#/components/{group}/{name}");
            assert!(is_apart || references.contains(&reference), "no reference to {reference}");
        }
    }
    let ids: Vec<&Value> =
        operations(&document).into_iter().map(|(_, _, operation)| &operation["operationId"]).collect();
    for (method, path, operation) in operations(&document) {
        for answer in operation["responses"].as_object().unwrap().values() {
            for link in answer["links"].as_object().into_iter().flat_map(serde_json::Map::values) {
                assert!(ids.contains(&&link["operationId"]), "{method} {path} links to {}", link["operationId"]);
            }
        }
    }
}

fn collect_references(value: &Value, references: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "$ref" => drop(references.insert(text.clone())),
                    other => collect_references(other, references),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, references)),
        _ => {}
    }
}

#[test]
fn every_example_fits_its_schema() {
    let document = document(Audience::Whole, &Settings::default());
    let mut contents = Vec::new();
    collect_contents(&document, &mut contents);
    let mut checked = 0;
    for content in contents {
        let Some(example) = content.get("example") else { continue };
        let validator = validator(&document, &content["schema"]);
        let faults: Vec<String> = validator.iter_errors(example).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{example} does not fit {}: {faults:?}", content["schema"]);
        checked += 1;
    }
    assert!(checked > 40, "only {checked} examples were found");
}

fn collect_contents<'a>(value: &'a Value, contents: &mut Vec<&'a Value>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                if name == "content" {
                    contents.extend(member.as_object().unwrap().values());
                } else {
                    collect_contents(member, contents);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_contents(item, contents)),
        _ => {}
    }
}

fn validator(document: &Value, schema: &Value) -> jsonschema::Validator {
    // References are into the whole document.
    let whole = json!({"allOf": [schema], "components": document["components"]});
    jsonschema::options().should_validate_formats(true).build(&whole).unwrap()
}

#[test]
fn every_error_code_is_in_the_contract() {
    let contract = include_str!("../../../docs/api.md");
    let (_, table) = contract.split_once("## 6. Error codes").expect("the contract has a table of codes");
    for code in leasehold_server::Code::ALL {
        assert!(table.contains(&format!("`{}`", code.as_str())), "{code:?} is not in the table");
    }
}
