//! Schemas put together in code: JSON Schema as OpenAPI 3.1 has it, member by member. Where the code has a limit by
//! name, the schema is given that name, so that the two cannot differ. The schema of an answer comes from the struct
//! that is also its bytes.

use std::borrow::Cow;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use serde_json::{Map, Value, json};

use super::duration;

/// A schema and its name in the document.
pub(crate) type NamedSchema = (Cow<'static, str>, Schema);

/// The schema of a value.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Map<String, Value>);

impl Schema {
    fn of(kind: &str) -> Self {
        let mut members = Map::new();
        members.insert("type".to_owned(), kind.into());
        Schema(members)
    }

    /// Anything at all.
    pub(crate) fn any() -> Self {
        Schema(Map::new())
    }

    pub(crate) fn string() -> Self {
        Schema::of("string")
    }

    pub(crate) fn number() -> Self {
        Schema::of("number")
    }

    /// A whole number from 0.
    pub(crate) fn count() -> Self {
        Schema::of("integer").minimum(0)
    }

    /// A fencing token.
    pub(crate) fn token() -> Self {
        let token = Schema::of("integer").minimum(1);
        token.says("The fencing token: strictly increasing for one resource, kept by renewals, below 2^53.")
    }

    pub(crate) fn uuid() -> Self {
        Schema::string().with("format", "uuid")
    }

    /// A point in time, RFC 3339 in UTC.
    pub(crate) fn time() -> Self {
        Schema::string().with("format", "date-time")
    }

    /// A duration in seconds.
    pub(crate) fn seconds() -> Self {
        Schema::number().minimum(0)
    }

    /// A text with units that lasts so long, in microseconds.
    pub(crate) fn duration(least_us: u64, most_us: Option<u64>) -> Self {
        Schema::string().pattern(&duration::pattern(least_us, most_us))
    }

    /// The same as a text with units, too, within the bounds of the number: `30s`, `1m30s`.
    #[must_use]
    pub(crate) fn or_duration(mut self) -> Self {
        let mut either = Schema::any();
        for keyword in ["description", "default"] {
            if let Some(value) = self.0.remove(keyword) {
                either = either.with(keyword, value);
            }
        }
        let bound = |keyword: &str| self.0.get(keyword).and_then(Value::as_u64);
        let is_above_zero = bound("exclusiveMinimum") == Some(0);
        let least_us = bound("minimum").unwrap_or(0) * 1_000_000 + u64::from(is_above_zero);
        let duration = Schema::duration(least_us, bound("maximum").map(|most_s| most_s * 1_000_000));
        either.with("anyOf", json!([Value::from(self), Value::from(duration)]))
    }

    /// One of these strings.
    pub(crate) fn one_of(values: &[&str]) -> Self {
        Schema::string().with("enum", values)
    }

    pub(crate) fn array(items: Schema) -> Self {
        Schema::of("array").with("items", items)
    }

    /// A schema by its name in the document.
    pub(crate) fn named(name: &str) -> Self {
        Schema::any().with("$ref", format!("#/components/schemas/{name}"))
    }

    /// The name of a struct, for a schema that refers to it.
    pub(crate) fn to<T: JsonSchema>() -> Self {
        Schema::named(&T::schema_name())
    }

    /// The schema of an answer, from its struct: the fields are the members, their comments the descriptions.
    pub(crate) fn shape<T: JsonSchema>() -> NamedSchema {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        let mut schema = T::json_schema(&mut settings.into_generator());
        RecursiveTransform(plainly).transform(&mut schema);
        (T::schema_name(), Schema(schema.ensure_object().clone()))
    }

    /// A value that fits one of these.
    pub(crate) fn either(schemas: impl IntoIterator<Item = Schema>) -> Self {
        let schemas: Vec<Value> = schemas.into_iter().map(Value::from).collect();
        Schema::any().with("anyOf", schemas)
    }

    /// An object with the members of each of these. One that comes from a struct says that it allows others, with
    /// `#[schemars(extend("additionalProperties" = true))]`.
    pub(crate) fn all_of(schemas: impl IntoIterator<Item = Schema>) -> Self {
        let schemas: Vec<Value> = schemas.into_iter().map(Value::from).collect();
        Schema::any().with("allOf", schemas)
    }

    pub(crate) fn object() -> Self {
        Schema::of("object").with("properties", Map::new())
    }

    /// An object of any members, with strings of these names among them.
    pub(crate) fn of_any_members(names: &[&str]) -> Self {
        Schema::of("object").with("required", names.to_vec())
    }

    /// A member that is always there.
    #[must_use]
    pub(crate) fn member(mut self, name: &str, schema: Schema) -> Self {
        let required = self.0.entry("required").or_insert_with(|| json!([]));
        required.as_array_mut().expect("a list of names").push(name.into());
        self.maybe(name, schema)
    }

    /// A member that may be missing.
    #[must_use]
    pub(crate) fn maybe(mut self, name: &str, schema: Schema) -> Self {
        let properties = self.0.get_mut("properties").and_then(Value::as_object_mut);
        properties.expect("only objects have members").insert(name.to_owned(), schema.into());
        self
    }

    /// No members but those that are named.
    #[must_use]
    pub(crate) fn and_no_other(self) -> Self {
        self.with("additionalProperties", false)
    }

    #[must_use]
    pub(crate) fn minimum(self, least: u64) -> Self {
        self.with("minimum", least)
    }

    #[must_use]
    pub(crate) fn maximum(self, most: u64) -> Self {
        self.with("maximum", most)
    }

    #[must_use]
    pub(crate) fn above_zero(mut self) -> Self {
        self.0.remove("minimum");
        self.with("exclusiveMinimum", 0)
    }

    /// Lengths are in bytes here and in characters in JSON Schema; a description has to say so.
    #[must_use]
    pub(crate) fn length(self, least: usize, most: usize) -> Self {
        self.with("minLength", least).with("maxLength", most)
    }

    #[must_use]
    pub(crate) fn pattern(self, pattern: &str) -> Self {
        self.with("pattern", pattern)
    }

    #[must_use]
    pub(crate) fn default(self, value: impl Into<Value>) -> Self {
        self.with("default", value)
    }

    #[must_use]
    pub(crate) fn says(self, description: impl Into<String>) -> Self {
        self.with("description", description.into())
    }

    #[must_use]
    pub(crate) fn example(self, value: impl Into<Value>) -> Self {
        self.with("examples", json!([value.into()]))
    }

    #[must_use]
    pub(crate) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }
}

/// Comments are one line in the document, and how wide a number is in Rust is no matter of callers.
fn plainly(schema: &mut schemars::Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        schema.remove("format");
    }
}

impl From<Schema> for Value {
    fn from(schema: Schema) -> Self {
        Value::Object(schema.0)
    }
}
