//! The dashboard: a page and its files, embedded in the binary and served as they are. No file of it comes from
//! elsewhere and none has a script or style within its markup, which the policy sent along enforces. What the page shows
//! it reads from `observe` and `events`.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Response, StatusCode};

use crate::dialect::Call;
use crate::http::router::Endpoint;
use crate::http::{Body, Problem, RequestId, response};

/// The page itself; `/` is its address.
const PAGE: &str = "index.html";

/// Everything from here, nothing inline, and nobody puts the page into a frame.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// One line a file of `assets/`.
macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$(File { name: $name, bytes: include_bytes!(concat!("assets/", $name)) }),+]
    };
}

static FILES: &[File] = files!["index.html"];

/// A file as it was when the program was built.
#[derive(Debug)]
struct File {
    name: &'static str,
    bytes: &'static [u8],
}

impl File {
    fn find(name: &str) -> Option<&'static File> {
        FILES.iter().find(|file| file.name == name)
    }

    fn content_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("json") => "application/json",
            Some("svg") => "image/svg+xml",
            Some("png") => "image/png",
            _ => "application/octet-stream",
        }
    }

    /// Changes with the content: FNV-1a over it. Nobody gains by making two versions look the same.
    fn etag(&self) -> String {
        let hash = self.bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        format!("\"{hash:016x}\"")
    }
}

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

/// A file that exists, and whether the caller has it already.
#[derive(Debug)]
pub(crate) struct Asked {
    file: &'static File,
    is_known: bool,
}

pub(crate) fn parse(action: Action, call: &Call<'_>) -> Result<Asked, Problem> {
    let name = match action {
        Action::Page => PAGE,
        Action::Asset => call.params.raw("file"),
    };
    let file = File::find(name).ok_or_else(Problem::no_such_path)?;
    let known = call.parts.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    let etag = file.etag();
    Ok(Asked { file, is_known: known.any(|tag| tag == etag || tag == "*") })
}

pub(crate) fn answer(asked: &Asked, id: &RequestId) -> Response<Body> {
    let Asked { file, is_known } = asked;
    let mut response = if *is_known {
        response::empty(StatusCode::NOT_MODIFIED, id)
    } else {
        response::text(StatusCode::OK, id, file.content_type(), Bytes::from_static(file.bytes))
    };
    let headers = response.headers_mut();
    // Kept, but asked for again each time: a new version of the service is a new page at once.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(ETAG, HeaderValue::try_from(file.etag()).expect("hex digits in quotes"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_under_a_type_of_its_own() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dashboard/assets");
        let mut there: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let mut served: Vec<_> = FILES.iter().map(|file| file.name.to_owned()).collect();
        there.sort_unstable();
        served.sort_unstable();
        assert_eq!(served, there, "one line a file in `FILES`");
        for file in FILES {
            assert_ne!(file.content_type(), "application/octet-stream", "{} has no content type", file.name);
        }
        assert!(File::find(PAGE).is_some());
    }

    #[test]
    fn the_tag_follows_the_content() {
        let [a, b] = [b"a".as_slice(), b"b"].map(|bytes| File { name: "x.js", bytes }.etag());
        assert_ne!(a, b);
        assert_eq!(File { name: "y.css", bytes: b"a" }.etag(), a);
    }
}
