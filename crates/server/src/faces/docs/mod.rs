//! The API for developers: the OpenAPI document at `/openapi.json`, and a page at `/docs` that shows it and lets one
//! try it. `page` serves the files, `openapi` makes the document.

use bytes::Bytes;
use http::Method;

use crate::faces::Call;
use crate::faces::page::{File, Wanted};
use crate::http::Problem;
use crate::http::router::Endpoint;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Page,
    Asset,
    Document,
}

pub(crate) fn endpoints<T>(wrap: impl Fn(Action) -> T) -> Vec<Endpoint<T>> {
    vec![
        Endpoint::new(Method::GET, "/openapi.json", wrap(Action::Document)),
        Endpoint::new(Method::GET, "/docs", wrap(Action::Page)),
        Endpoint::new(Method::GET, "/docs/", wrap(Action::Page)),
        Endpoint::new(Method::GET, "/docs/{file}", wrap(Action::Asset)),
    ]
}

/// `document` is the one that `openapi` made for this listener.
pub(crate) fn parse(action: Action, call: &Call<'_>, document: &Bytes) -> Result<Wanted, Problem> {
    let headers = &call.parts.headers;
    let name = match action {
        Action::Document => return Ok(Wanted::bytes("application/json", document.clone(), headers)),
        Action::Page => PAGE,
        Action::Asset => call.params.raw("file"),
    };
    Ok(Wanted::file(File::find(FILES, name)?, headers))
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
