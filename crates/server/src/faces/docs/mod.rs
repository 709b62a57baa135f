//! The API for developers: the OpenAPI document at `/openapi.json`, and a page at `/docs` that shows it and lets one
//! try it. `page` serves the files, `openapi` makes the document.

mod openapi;
mod routes;

use std::future::ready;

use http::Response;

use super::class::Class;
use super::face::{Face, Received, Rows, Service};
use super::page::{File, PageFile};
use crate::auth::{Admission, Need};
use crate::http::{Body, Problem, RequestId};
use crate::openapi::Operation;
use crate::settings::Settings;
use routes::Endpoint;

/// The page itself; `/docs` is its address.
const PAGE: &str = "index.html";

/// One line a file of `assets/`, and one for each that is the dashboard's.
macro_rules! files {
    ($($name:literal),+; $($shared:literal),+) => {
        &[
            $(File { name: $name, bytes: include_bytes!(concat!("assets/", $name)) }),+,
            $(File { name: $shared, bytes: include_bytes!(concat!("../dashboard/assets/", $shared)) }),+,
        ]
    };
}

static FILES: &[File] = files![
    "api.js", "docs.css", "docs.js", "index.html", "operation.js", "schema.js", "text.js", "try.js";
    "dom.js", "favicon.svg", "icons.js", "theme.css", "theme.js"
];

pub(crate) struct Docs;

impl Face for Docs {
    type Endpoint = Endpoint;
    type Call = PageFile;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(_endpoint: Endpoint) -> Class {
        Class::Docs
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Open
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, service: &Service) -> Result<PageFile, Problem> {
        routes::parse(endpoint, received, &service.document)
    }

    fn need(_call: &PageFile) -> Need<'_> {
        Need::Nothing
    }

    fn answer<'a>(
        _service: &'a Service,
        call: PageFile,
        id: &'a RequestId,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + Send + 'a {
        ready(Ok(call.answer(id)))
    }

    fn operation(endpoint: Endpoint, _settings: &Settings) -> Operation {
        openapi::operation(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_under_a_type_of_its_own() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/faces/docs/assets");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let file = File::find(FILES, &name).unwrap_or_else(|_| panic!("no line for {name} in `FILES`"));
            assert_ne!(file.content_type(), "application/octet-stream", "{name} has no content type");
        }
        assert!(File::find(FILES, PAGE).is_ok());
    }
}
