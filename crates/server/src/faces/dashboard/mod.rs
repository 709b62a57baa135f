//! The dashboard: a page and its files. `observe` and `events` have the data of the page; `page` serves its files.

use http::Method;

use crate::faces::Call;
use crate::faces::page::{File, Wanted};
use crate::http::Problem;
use crate::http::router::Endpoint;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Page,
    Asset,
}

pub(crate) fn endpoints<T>(wrap: impl Fn(Action) -> T) -> Vec<Endpoint<T>> {
    vec![
        Endpoint::new(Method::GET, "/", wrap(Action::Page)),
        Endpoint::new(Method::GET, "/assets/{file}", wrap(Action::Asset)),
    ]
}

pub(crate) fn parse(action: Action, call: &Call<'_>) -> Result<Wanted, Problem> {
    let name = match action {
        Action::Page => PAGE,
        Action::Asset => call.params.raw("file"),
    };
    Ok(Wanted::file(File::find(FILES, name)?, &call.parts.headers))
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
