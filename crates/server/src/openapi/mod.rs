//! The vocabulary of an OpenAPI 3.1 document: operations, answers and schemas. Each face describes its own endpoints
//! with it (`faces/*/openapi.rs`), and `document` puts them together.

pub(crate) mod common;
mod duration;
mod operation;
mod schema;

pub(crate) use operation::{AnswerDoc, Operation, Tag};
pub(crate) use schema::{NamedSchema, Schema};
