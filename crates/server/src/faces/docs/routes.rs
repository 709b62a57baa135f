//! The endpoints of the documentation.

use bytes::Bytes;
use http::Method;

use super::{FILES, PAGE};
use crate::faces::page::{File, PageFile};
use crate::faces::{Received, Rows};
use crate::http::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Page,
    Asset,
    Document,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![
        (Method::GET, "/openapi.json", Endpoint::Document),
        (Method::GET, "/docs", Endpoint::Page),
        (Method::GET, "/docs/", Endpoint::Page),
        (Method::GET, "/docs/{file}", Endpoint::Asset),
    ]
}

/// `document` is the one that `openapi` made for this listener.
pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>, document: &Bytes) -> Result<PageFile, Problem> {
    let headers = &received.parts.headers;
    let name = match endpoint {
        Endpoint::Document => return Ok(PageFile::bytes("application/json", document.clone(), headers)),
        Endpoint::Page => PAGE,
        Endpoint::Asset => received.params.raw("file"),
    };
    Ok(PageFile::file(File::find(FILES, name)?, headers))
}
