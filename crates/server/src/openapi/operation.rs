//! One operation: a method at a path, its inputs and its answers. This file adds the answers that every operation may
//! get, so that each one's own file has only its own.

use std::collections::BTreeMap;

use http::{Method, StatusCode};
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::common;
use super::schema::Schema;
use crate::code::Code;
use crate::http::ErrorBody;

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

/// An answer of an operation.
#[derive(Debug)]
pub(crate) struct AnswerDoc {
    description: &'static str,
    content: Map<String, Value>,
    headers: Map<String, Value>,
    links: Map<String, Value>,
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

impl AnswerDoc {
    /// Without a body.
    pub(crate) fn empty(description: &'static str) -> Self {
        AnswerDoc { description, content: Map::new(), headers: Map::new(), links: Map::new() }
    }

    /// JSON that fits `schema`.
    pub(crate) fn json(description: &'static str, schema: Schema, example: &Value) -> Self {
        let content = json!({"schema": Value::from(schema), "example": example});
        AnswerDoc::empty(description).content("application/json", content)
    }

    /// JSON as this struct is written.
    pub(crate) fn shape<T: JsonSchema>(description: &'static str, example: &Value) -> Self {
        AnswerDoc::json(description, Schema::to::<T>(), example)
    }

    /// Text of another type.
    pub(crate) fn text(description: &'static str, content_type: &str) -> Self {
        AnswerDoc::empty(description).content(content_type, json!({"schema": {"type": "string"}}))
    }

    /// Server-sent events, each with the schema of its data. OpenAPI 3.1 has no place for those but an extension.
    pub(crate) fn events(description: &'static str, events: impl IntoIterator<Item = (&'static str, Schema)>) -> Self {
        let events: Map<String, Value> =
            events.into_iter().map(|(name, schema)| (name.to_owned(), schema.into())).collect();
        let content = json!({"schema": {"type": "string"}, "x-events": events});
        AnswerDoc::empty(description).content("text/event-stream", content)
    }

    /// The same in yet another type.
    #[must_use]
    pub(crate) fn or_text(self, content_type: &str) -> Self {
        self.content(content_type, json!({"schema": {"type": "string"}}))
    }

    /// The usual error. Its example has the usual code of its status.
    pub(crate) fn error(description: &'static str, example: &str) -> Self {
        AnswerDoc::json(description, Schema::to::<ErrorBody<'_, Code>>(), &json!({"error": example}))
    }

    /// Another code than the usual one of its status.
    #[must_use]
    pub(crate) fn coded(mut self, code: Code) -> Self {
        if let Some(example) = self.error_example() {
            example.insert("code".to_owned(), code.as_str().into());
        }
        self
    }

    pub(crate) fn code_example(&mut self, status: u16) {
        let status = StatusCode::from_u16(status).expect("statuses have three digits");
        if let Some(example) = self.error_example().filter(|example| !example.contains_key("code")) {
            example.insert("code".to_owned(), Code::of(status).as_str().into());
        }
    }

    fn error_example(&mut self) -> Option<&mut Map<String, Value>> {
        let example = self.content.get_mut("application/json")?.get_mut("example")?.as_object_mut()?;
        example.contains_key("error").then_some(example)
    }

    fn content(mut self, content_type: &str, content: Value) -> Self {
        self.content.insert(content_type.to_owned(), content);
        self
    }

    /// A header, by its name among those that are explained in one place.
    #[must_use]
    pub(crate) fn header(mut self, name: &str) -> Self {
        self.headers.insert(name.to_owned(), common::header(name));
        self
    }

    /// A link from the answer: another operation, and the values it takes from here.
    #[must_use]
    pub(crate) fn link(mut self, operation: &str, parameters: &Value, body: Option<Value>) -> Self {
        let mut link = json!({"operationId": operation, "parameters": parameters});
        if let Some(body) = body {
            link.as_object_mut().expect("an object was just made").insert("requestBody".to_owned(), body);
        }
        self.links.insert(operation.to_owned(), link);
        self
    }

    pub(crate) fn into_value(self) -> Value {
        let mut headers = self.headers;
        for name in ["X-Request-Id", "Leasehold-Position", "Leasehold-Service"] {
            headers.insert(name.to_owned(), common::header(name));
        }
        let mut value = json!({"description": self.description, "headers": headers});
        let members = value.as_object_mut().expect("an object was just made");
        if !self.content.is_empty() {
            members.insert("content".to_owned(), self.content.into());
        }
        if !self.links.is_empty() {
            members.insert("links".to_owned(), self.links.into());
        }
        value
    }
}

fn capitalised(method: &Method) -> String {
    let name = method.as_str();
    format!("{}{}", &name[..1], name[1..].to_ascii_lowercase())
}
