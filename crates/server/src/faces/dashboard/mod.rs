//! The dashboard: a page and its files. `observe` and `events` have the data of the page; `page` serves its files.

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

/// The page itself; `/` is its address.
const PAGE: &str = "index.html";

/// One line a file of `assets/`.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(File { name: $name, bytes: include_bytes!(concat!("assets/", $name)) }),+]
    };
}

static FILES: &[File] = files![
    "actions.js",
    "api.js",
    "app.js",
    "charts.js",
    "cluster.css",
    "cluster.js",
    "detail.css",
    "detail.js",
    "dom.js",
    "empty.js",
    "favicon.svg",
    "format.js",
    "history.js",
    "icons.js",
    "index.html",
    "layout.css",
    "log.js",
    "names.js",
    "overview.css",
    "overview.js",
    "people.js",
    "rows.js",
    "store.js",
    "stream.js",
    "theme.css",
    "theme.js",
    "ticker.js",
    "timeline.js",
    "timescale.js",
    "who.js",
];

pub(crate) struct Dashboard;

impl Face for Dashboard {
    type Endpoint = Endpoint;
    type Call = PageFile;

    fn endpoints() -> Rows<Endpoint> {
        routes::endpoints()
    }

    fn class(_endpoint: Endpoint) -> Class {
        Class::Observe
    }

    fn admission(_endpoint: Endpoint) -> Admission {
        Admission::Named
    }

    fn parse(endpoint: Endpoint, received: &Received<'_>, _service: &Service) -> Result<PageFile, Problem> {
        routes::parse(endpoint, received)
    }

    fn need(_call: &PageFile) -> Need<'_> {
        Need::Page
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
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/faces/dashboard/assets");
        let mut there: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mut served: Vec<_> = FILES.iter().map(|file| file.name.to_owned()).collect();
        there.sort_unstable();
        served.sort_unstable();
        assert_eq!(served, there, "one line a file in `FILES`");
        for file in FILES {
            assert_ne!(file.content_type(), "application/octet-stream", "{} has no content type", file.name);
        }
        assert!(File::find(FILES, PAGE).is_ok());
    }
}
