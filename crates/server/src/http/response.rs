//! Answers: the body type hyper is given, and a builder that puts the same headers on every one of them.
//! Errors are put into words by [`Problem`](super::Problem) and the dialects.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::request::RequestId;

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The usual three, and room for a position, a `Location`, a `Retry-After`, and hyper's own two.
const HEADERS_USUAL: usize = 8;

/// What an answer carries: bytes that are there from the start. (Event streams will be a second kind.)
#[derive(Debug, Default)]
pub struct Body {
    /// Empty once taken.
    bytes: Bytes,
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body { bytes }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body { bytes: bytes.into() }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Body { bytes: text.into() }
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Body { bytes: Bytes::from_static(text.as_bytes()) }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// An answer with a JSON body.
pub fn json(status: StatusCode, id: &RequestId, body: impl Into<Body>) -> Response<Body> {
    let mut response = bare(status, id, body.into());
    response.headers_mut().insert(CONTENT_TYPE, JSON);
    response
}

/// An answer without a body, such as 204.
pub fn empty(status: StatusCode, id: &RequestId) -> Response<Body> {
    bare(status, id, Body::default())
}

/// An answer in another format than JSON, such as metrics.
pub fn text(status: StatusCode, id: &RequestId, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = bare(status, id, body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn bare(status: StatusCode, id: &RequestId, body: Body) -> Response<Body> {
    let mut headers = HeaderMap::with_capacity(HEADERS_USUAL);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(X_REQUEST_ID, id.to_header());
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_answer_has_the_usual_headers() {
        let id = RequestId::of(&HeaderMap::new());
        for (response, content_type) in [
            (json(StatusCode::OK, &id, "{}"), Some("application/json")),
            (text(StatusCode::OK, &id, "text/plain", "x"), Some("text/plain")),
            (empty(StatusCode::NO_CONTENT, &id), None),
        ] {
            let headers = response.headers();
            assert_eq!(headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap()), content_type);
            assert_eq!(headers[CACHE_CONTROL], "no-store");
            assert_eq!(headers[X_REQUEST_ID], id.to_header());
        }
    }

    #[test]
    fn a_body_knows_its_length_and_ends() {
        let mut body = Body::from("{}");
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(2), false));
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) else { panic!("bytes are there") };
        assert_eq!(frame.into_data().unwrap(), "{}");
        assert!(body.is_end_stream());
        assert!(matches!(Pin::new(&mut body).poll_frame(&mut cx), Poll::Ready(None)));
    }
}
