//! Files of pages for people, embedded in the binary and served as they are. No file of them comes from elsewhere and
//! none has a script or style within its markup, which the policy sent along enforces. Each page lists its files.

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Response, StatusCode};

use crate::http::{Body, Problem, RequestId};
use crate::openapi::{AnswerDoc, Operation, Schema, Tag};
use crate::response;

/// Everything from here, nothing inline, and no site may put the page into a frame.
const POLICY: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// A file as it was when the program was built.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) bytes: &'static [u8],
}

impl File {
    /// The file of this name, or 404.
    pub(crate) fn find(files: &'static [File], name: &str) -> Result<&'static File, Problem> {
        files.iter().find(|file| file.name == name).ok_or_else(Problem::no_such_path)
    }

    pub(crate) fn content_type(&self) -> &'static str {
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
}

/// The wanted file, and whether the caller has it already.
#[derive(Debug)]
pub(crate) struct PageFile {
    content_type: &'static str,
    bytes: Bytes,
    etag: String,
    is_known: bool,
}

impl PageFile {
    pub(crate) fn file(file: &'static File, headers: &HeaderMap) -> Self {
        PageFile::bytes(file.content_type(), Bytes::from_static(file.bytes), headers)
    }

    pub(crate) fn bytes(content_type: &'static str, bytes: Bytes, headers: &HeaderMap) -> Self {
        let etag = etag(&bytes);
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut known = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
        let is_known = known.any(|tag| tag == etag || tag == "*");
        PageFile { content_type, bytes, etag, is_known }
    }

    pub(crate) fn answer(self, id: &RequestId) -> Response<Body> {
        let PageFile { content_type, bytes, etag, is_known } = self;
        let mut response = if is_known {
            response::empty(StatusCode::NOT_MODIFIED, id)
        } else {
            response::text(StatusCode::OK, id, content_type, bytes)
        };
        let headers = response.headers_mut();
        // Kept, but asked for again each time: a new version of the service is a new page at once.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(ETAG, HeaderValue::try_from(etag).expect("hex digits in quotes"));
        enclose(headers);
        response
    }
}

/// Sets the headers that keep a page to itself.
pub(crate) fn enclose(headers: &mut HeaderMap) {
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
}

/// Changes with the content: FNV-1a over it. An attacker gains nothing by making two versions look the same.
fn etag(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("\"{hash:016x}\"")
}

/// A page in the OpenAPI document.
pub(crate) fn page(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::SERVICE, id, summary)
        .offhand()
        .answers(200, found("A page for people.", "text/html; charset=utf-8"))
        .answers(304, kept())
}

/// One of its files.
pub(crate) fn file(id: &'static str, summary: &'static str) -> Operation {
    Operation::new(Tag::SERVICE, id, summary)
        .offhand()
        .path("file", "Its name.", Schema::string().example("index.html"))
        .answers(200, found("The file.", "*/*"))
        .answers(304, kept())
        .answers(404, AnswerDoc::error("There is no such file.", "no such path"))
}

fn found(says: &'static str, content_type: &str) -> AnswerDoc {
    AnswerDoc::text(says, content_type).header("ETag").header("Cache-Control").header("Content-Security-Policy")
}

/// The answer to a caller that has the file already.
pub(crate) fn kept() -> AnswerDoc {
    AnswerDoc::empty("The caller has it already (`If-None-Match`).").header("ETag").header("Cache-Control")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_follows_the_content() {
        assert_ne!(etag(b"a"), etag(b"b"));
        assert_eq!(etag(b"a"), etag(b"a"));
    }

    #[test]
    fn a_caller_that_has_it_gets_no_body() {
        let known = |value: &str| {
            let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(value).unwrap())]);
            PageFile::bytes("text/plain", Bytes::from_static(b"a"), &headers).is_known
        };
        let tag = etag(b"a");
        assert!(known(&tag) && known(&format!("\"x\", W/{tag}")) && known("*"));
        assert!(!known("\"x\""));
    }
}
