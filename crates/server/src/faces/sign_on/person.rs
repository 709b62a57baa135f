//! The page for a person who is not let in: a browser asks for `text/html` and would otherwise show raw JSON. It says
//! why, takes an API token or leads to the provider, and tells a person who lacks a right their name, their groups and
//! what is missing (its script asks `/v1/whoami`). Programs get JSON as ever.

use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, LOCATION, VARY, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::faces::page::{self, File};
use crate::http::{Body, Problem, RequestId};

/// The files of the page, and those it shares with the dashboard. They reveal nothing about any caller, so they are
/// served to all.
macro_rules! files {
    ($($name:literal),+; $($shared:literal),+) => {
        &[
            $(File { name: $name, bytes: include_bytes!(concat!("assets/", $name)) }),+,
            $(File { name: $shared, bytes: include_bytes!(concat!("../dashboard/assets/", $shared)) }),+,
        ]
    };
}

pub(super) static FILES: &[File] =
    files!["sign-on.css", "sign-on.js"; "dom.js", "favicon.svg", "names.js", "theme.css", "theme.js"];

/// The page, around the two values that the server fills in.
const PAGE: &str = include_str!("assets/sign-on.html");
const STATUS: &str = "{status}";
const REASON: &str = "{reason}";

/// Returns whether a person with a browser asks, and not a program.
pub(crate) fn looks(parts: &Parts) -> bool {
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|value| value.contains("text/html"));
    parts.method == Method::GET && parts.headers.get_all(ACCEPT).iter().any(accepts)
}

/// A problem as a page, with its status and headers.
pub(crate) fn page(problem: &Problem, id: &RequestId) -> Response<Body> {
    let mut response = problem.to_response(id);
    // Sent elsewhere only by a click: there is more than one way to sign on.
    let status = if problem.status == StatusCode::SEE_OTHER { StatusCode::UNAUTHORIZED } else { problem.status };
    let text = PAGE.replacen(STATUS, status.as_str(), 1).replacen(REASON, &escaped(&problem.reason), 1);
    *response.status_mut() = status;
    *response.body_mut() = text.into_bytes().into();
    let headers = response.headers_mut();
    headers.remove(LOCATION);
    if status == StatusCode::UNAUTHORIZED && !headers.contains_key(WWW_AUTHENTICATE) {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer realm="leasehold""#));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    page::enclose(headers);
    response
}

/// Text within markup: a reason may quote a name that a caller chose.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn only_a_browser_that_navigates_gets_a_page() {
        let looks = |method: &str, accept: Option<&str>| {
            let mut request = Request::builder().method(method).uri("/");
            if let Some(accept) = accept {
                request = request.header(ACCEPT, accept);
            }
            looks(&request.body(()).unwrap().into_parts().0)
        };
        assert!(looks("GET", Some("text/html,application/xhtml+xml,*/*;q=0.8")));
        assert!(!looks("GET", Some("*/*")), "curl");
        assert!(!looks("GET", None));
        assert!(!looks("POST", Some("text/html")));
    }

    #[test]
    fn the_page_has_both_values_once_and_no_markup_of_callers() {
        assert_eq!((PAGE.matches(STATUS).count(), PAGE.matches(REASON).count()), (1, 1));
        assert_eq!(escaped("<b>\"&"), "&lt;b&gt;&quot;&amp;");
    }

    #[test]
    fn every_file_of_the_folder_is_served_but_for_the_page_itself() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/faces/sign_on/assets");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name != "sign-on.html" {
                let file = File::find(FILES, &name).unwrap_or_else(|_| panic!("no line for {name} in `FILES`"));
                assert_ne!(file.content_type(), "application/octet-stream", "{name} has no content type");
            }
        }
    }
}
