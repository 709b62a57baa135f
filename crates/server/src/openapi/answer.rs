//! One answer of an operation: its body, its headers and where it leads.

use http::StatusCode;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::header::header;
use super::schema::Schema;
use crate::code::Code;
use crate::http::ErrorBody;

/// An answer of an operation.
#[derive(Debug)]
pub(crate) struct AnswerDoc {
    description: &'static str,
    content: Map<String, Value>,
    headers: Map<String, Value>,
    links: Map<String, Value>,
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
        self.headers.insert(name.to_owned(), header(name));
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
            headers.insert(name.to_owned(), header(name));
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
