//! The vocabulary of an OpenAPI 3.1 document: operations, answers and schemas. Each face describes its own endpoints
//! with it (`faces/*/openapi.rs`), and `document` puts them together.

mod answer;
pub(crate) mod common;
mod duration;
pub(crate) mod header;
mod operation;
mod schema;

pub(crate) use answer::AnswerDoc;
pub(crate) use operation::{Operation, Tag};
pub(crate) use schema::{NamedSchema, Schema};
