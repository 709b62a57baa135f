//! The endpoints of the dashboard.

use http::Method;

use super::{FILES, PAGE};
use crate::faces::page::{File, PageFile};
use crate::faces::{Received, Rows};
use crate::http::Problem;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Page,
    Asset,
}

pub(super) fn endpoints() -> Rows<Endpoint> {
    vec![(Method::GET, "/", Endpoint::Page), (Method::GET, "/assets/{file}", Endpoint::Asset)]
}

pub(super) fn parse(endpoint: Endpoint, received: &Received<'_>) -> Result<PageFile, Problem> {
    let name = match endpoint {
        Endpoint::Page => PAGE,
        Endpoint::Asset => received.params.raw("file"),
    };
    Ok(PageFile::file(File::find(FILES, name)?, &received.parts.headers))
}
