//! Answers held against the OpenAPI document: the status is one that the operation lists, the headers it names are
//! there, and the body has the members it names, of the right kind, and no other.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jsonschema::Validator;
use leasehold_server::document::document;
use leasehold_server::{Audience, Settings};
use serde_json::{Value, json};

use crate::client::RawAnswer;

/// Where methods stand that OpenAPI has no place for.
const ADDITIONAL: &str = "x-additionalOperations";

/// The document, with what it takes to look things up in it.
pub(crate) struct Contract {
    document: Value,
    /// Made when they are first needed, by operation and status.
    validators: std::sync::Mutex<BTreeMap<(String, String), std::sync::Arc<Validator>>>,
}

/// The one of this version.
pub(crate) fn contract() -> &'static Contract {
    static CONTRACT: OnceLock<Contract> = OnceLock::new();
    CONTRACT.get_or_init(|| {
        let mut document = document(Audience::Whole, &Settings::default());
        allow_no_other_members(&mut document["components"]);
        allow_no_other_members(&mut document["paths"]);
        Contract { document, validators: std::sync::Mutex::default() }
    })
}

impl Contract {
    /// The fault of an answer. A call to a path or with a method that is not served has no operation to compare with.
    pub(crate) fn fault(&self, method: &str, target: &str, answer: &RawAnswer, has_many: bool) -> Option<String> {
        let RawAnswer { status, body, .. } = answer;
        let Some((id, operation)) = self.operation(method, target) else {
            let is_unserved = matches!(&**status, "404" | "405" | "414" | "431" | "400");
            return (!is_unserved).then(|| format!("the document has no operation that answers {status}"));
        };
        let Some(response) = operation["responses"].get(status).map(|response| self.resolve(response)) else {
            return Some(format!("the document does not list {status} for {id}"));
        };
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let _ = self.resolve(header);
            // The last page has no next one. With several partitions an answer comes from one of them, or from none.
            let may_lack = name == "Link" || has_many && name == "Leasehold-Position";
            if answer.header(name).is_none() && !may_lack {
                return Some(format!("{id} {status} is to have the header {name}"));
            }
        }
        if method == "HEAD" {
            return None;
        }
        let Some(content) = response["content"].as_object() else {
            return (!body.is_empty()).then(|| format!("{id} {status} is to have no body"));
        };
        let content_type = answer.header("content-type").unwrap_or_default();
        let Some(media) = content.get(content_type).or_else(|| content.get("*/*")) else {
            return Some(format!("{id} {status} is not to have the type {content_type}"));
        };
        if content_type != "application/json"
            || media["schema"]["properties"].as_object().is_some_and(serde_json::Map::is_empty)
        {
            return None;
        }
        let value: Value = match serde_json::from_str(body) {
            Ok(value) => value,
            Err(error) => return Some(format!("{id} {status}: {error}")),
        };
        let validator = self.validator(&id, status, &media["schema"]);
        let faults: Vec<String> =
            validator.iter_errors(&value).map(|error| format!("{} at {}", error, error.instance_path())).collect();
        (!faults.is_empty()).then(|| format!("{id} {status} does not fit the document: {}", faults.join("; ")))
    }

    /// The operation of a call and its name.
    pub(crate) fn operation(&self, method: &str, target: &str) -> Option<(String, &Value)> {
        let path = target.split('?').next().unwrap_or_default();
        let method = if method == "HEAD" { "get" } else { &method.to_lowercase() };
        let (pattern, item) = self.document["paths"].as_object()?.iter().find(|(pattern, _)| matches(pattern, path))?;
        let operation = item.get(method).or_else(|| item[ADDITIONAL].get(method.to_uppercase()))?;
        let id = operation["operationId"].as_str().unwrap_or(pattern);
        Some((id.to_owned(), operation))
    }

    /// The statuses that each operation lists by itself, not by reference to those that any call may get.
    pub(crate) fn own_statuses(&self) -> Vec<(String, String)> {
        let items = self.document["paths"].as_object().into_iter().flat_map(serde_json::Map::values);
        let operations = items.filter_map(Value::as_object).flatten().flat_map(|(name, operation)| match &**name {
            ADDITIONAL => operation.as_object().into_iter().flat_map(serde_json::Map::values).collect(),
            _ => vec![operation],
        });
        let mut all = Vec::new();
        for operation in operations {
            let id = operation["operationId"].as_str().expect("operations have ids");
            for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
                if answer.get("$ref").is_none() {
                    all.push((id.to_owned(), status.clone()));
                }
            }
        }
        all
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
            Some(pointer) => self.document.pointer(pointer).expect("references lead somewhere"),
            None => value,
        }
    }

    fn validator(&self, id: &str, status: &str, schema: &Value) -> std::sync::Arc<Validator> {
        let mut validators = self.validators.lock().expect("no check panics");
        let made = validators.entry((id.to_owned(), status.to_owned())).or_insert_with(|| {
            let whole = json!({"allOf": [schema], "components": self.document["components"]});
            let built = jsonschema::options().should_validate_formats(true).build(&whole);
            std::sync::Arc::new(built.expect("schemas of the document are sound"))
        });
        std::sync::Arc::clone(made)
    }
}

/// Returns whether a path fits a pattern. A slash at the end of the pattern may be missing from the path.
fn matches(pattern: &str, path: &str) -> bool {
    let path = if pattern.ends_with('/') && !path.ends_with('/') { format!("{path}/") } else { path.to_owned() };
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(&path).all(
            |(wanted, given)| {
                if wanted.starts_with('{') { !given.is_empty() } else { wanted == given }
            },
        )
}

/// The document leaves room for members to come. Every present member has to be in it.
fn allow_no_other_members(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let has_members = members.get("properties").and_then(Value::as_object).is_some_and(|it| !it.is_empty());
            // One that says itself that there are others, such as those of a caller, stays open.
            let is_open = members.get("additionalProperties") == Some(&true.into());
            if has_members && !is_open && members.get("type") == Some(&json!("object")) {
                members.insert("additionalProperties".to_owned(), false.into());
            }
            members.values_mut().for_each(allow_no_other_members);
        }
        Value::Array(items) => items.iter_mut().for_each(allow_no_other_members),
        _ => {}
    }
}
