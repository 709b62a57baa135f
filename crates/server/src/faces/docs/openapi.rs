//! The documentation in the OpenAPI document.

use serde_json::json;

use super::routes::Endpoint;
use crate::faces::page;
use crate::openapi::{AnswerDoc, Operation, Schema, Tag};

pub(super) fn operation(endpoint: Endpoint) -> Operation {
    match endpoint {
        Endpoint::Document => Operation::new(Tag::SERVICE, "openapi", "This document")
            .says("The endpoints of this listener, under its settings.")
            .offhand()
            .answers(
                200,
                AnswerDoc::json("OpenAPI 3.1.", Schema::object(), &json!({"openapi": "3.1.0"})).header("ETag"),
            )
            .answers(304, page::kept()),
        Endpoint::Page => page::page("docs", "The page about the API"),
        Endpoint::Asset => page::file("docsFile", "A file of that page"),
    }
}
