//! One operation: a method at a path, its inputs and its answers. This file adds the answers that every operation may
//! get, so that each one's own file has only its own.

use std::collections::BTreeMap;

use http::Method;
use serde_json::{Map, Value, json};

use super::answer::AnswerDoc;
use super::common;
use super::schema::Schema;

/// How operations are grouped: those of a face have one tag, and claims one more for resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
}

impl Tag {
    /// Shared by all faces that are about the service itself. It comes last in the document.
    pub(crate) const SERVICE: Tag = Tag { name: "Service", description: "About the service itself." };
}

#[derive(Debug)]
pub(crate) struct Operation {
    id: &'static str,
    tag: Tag,
    summary: &'static str,
    description: String,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, AnswerDoc>,
    /// `true` if it goes through the engine, and so depends on the store and on limits.
    is_durable: bool,
}

impl Operation {
    /// `id` is its name in generated clients.
    pub(crate) fn new(tag: Tag, id: &'static str, summary: &'static str) -> Self {
        Operation {
            id,
            tag,
            summary,
            description: String::new(),
            parameters: Vec::new(),
            body: None,
            answers: BTreeMap::new(),
            is_durable: true,
        }
    }

    /// More than the summary: a sentence or a few.
    #[must_use]
    pub(crate) fn says(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// It does not involve the engine.
    #[must_use]
    pub(crate) fn offhand(mut self) -> Self {
        self.is_durable = false;
        self
    }

    /// A segment of the path.
    #[must_use]
    pub(crate) fn path(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter("path", name, description, true, schema)
    }

    #[must_use]
    pub(crate) fn query(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter("query", name, description, false, schema)
    }

    #[must_use]
    pub(crate) fn required_query(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter("query", name, description, true, schema)
    }

    #[must_use]
    pub(crate) fn header(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter("header", name, description, false, schema)
    }

    #[must_use]
    pub(crate) fn required_header(self, name: &str, description: &str, schema: Schema) -> Self {
        self.parameter("header", name, description, true, schema)
    }

    fn parameter(mut self, place: &str, name: &str, description: &str, required: bool, schema: Schema) -> Self {
        self.parameters.push(json!({
            "name": name, "in": place, "required": required, "description": description, "schema": Value::from(schema),
        }));
        self
    }

    /// The body, by the name of its schema.
    #[must_use]
    pub(crate) fn body(mut self, schema: &str, example: &Value) -> Self {
        self.body = Some(json!({
            "required": true,
            "content": {"application/json": {"schema": Value::from(Schema::named(schema)), "example": example}},
        }));
        self
    }

    #[must_use]
    pub(crate) fn answers(mut self, status: u16, mut answer: AnswerDoc) -> Self {
        answer.code_example(status);
        let earlier = self.answers.insert(status, answer);
        assert!(earlier.is_none(), "{} answers {status} twice", self.id);
        self
    }

    pub(crate) fn tag(&self) -> Tag {
        self.tag
    }

    /// As the document has it. An endpoint with two methods for the same is told apart by the method.
    pub(crate) fn into_value(mut self, method: &Method, is_alone: bool) -> Value {
        let id = if is_alone { self.id.to_owned() } else { format!("{}By{}", self.id, capitalised(method)) };
        self.parameters.push(json!({"$ref": "#/components/parameters/RequestId"}));
        let mut responses = Map::new();
        let own = self.answers.into_iter().map(|(status, answer)| (status, answer.into_value()));
        let mut all: BTreeMap<u16, Value> = common::answers(self.is_durable).collect();
        all.extend(own);
        for (status, answer) in all {
            responses.insert(status.to_string(), answer);
        }
        let mut value = json!({"tags": [self.tag.name], "operationId": id, "summary": self.summary});
        let members = value.as_object_mut().expect("an object was just made");
        if !self.description.is_empty() {
            members.insert("description".to_owned(), self.description.into());
        }
        members.insert("parameters".to_owned(), self.parameters.into());
        if let Some(body) = self.body {
            members.insert("requestBody".to_owned(), body);
        }
        members.insert("responses".to_owned(), responses.into());
        value
    }
}

fn capitalised(method: &Method) -> String {
    let name = method.as_str();
    format!("{}{}", &name[..1], name[1..].to_ascii_lowercase())
}
