//! Answers of the service: those of `http`, with room for the headers that are Leasehold's own.

use std::sync::LazyLock;

use http::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode};
pub(crate) use leasehold_http::response::{joined, set_retry_after};
use leasehold_http::response::{usual, with_headers};

use crate::http::{Body, RequestId};

/// Where in the order of things an answer belongs.
pub(crate) const POSITION: HeaderName = HeaderName::from_static("leasehold-position");
pub(crate) const PARTITION: HeaderName = HeaderName::from_static("leasehold-partition");
pub(crate) const POSITIONS: HeaderName = HeaderName::from_static("leasehold-positions");
/// Which service an answer is from.
const SERVICE: HeaderName = HeaderName::from_static("leasehold-service");

/// The headers whose values differ from answer to answer. They follow the id of the request in this order, and are open
/// until they are filled in. A clone of headers that are ready and values put into their places take a third of the
/// instructions that seven insertions take. An error that `http` words has no such places, and they are inserted.
static FILLED_IN: [HeaderName; 2] = [POSITION, SERVICE];

/// The headers of an answer without a body, and of one with a JSON body.
static USUAL: LazyLock<HeaderMap> = LazyLock::new(|| usual(&FILLED_IN, false));
static USUAL_JSON: LazyLock<HeaderMap> = LazyLock::new(|| usual(&FILLED_IN, true));

/// An answer with a JSON body. Its text ends in a newline here, so that a prompt begins on a line of its own.
pub(crate) fn json(status: StatusCode, id: &RequestId, text: impl Into<Vec<u8>>) -> Response<Body> {
    let mut bytes = text.into();
    bytes.push(b'\n');
    json_whole(status, id, bytes)
}

/// An answer with a JSON body whose bytes are complete, the newline at their end as well.
pub(crate) fn json_whole(status: StatusCode, id: &RequestId, body: impl Into<Body>) -> Response<Body> {
    with_headers(&USUAL_JSON, status, id, body.into())
}

/// An answer without a body, such as 204.
pub(crate) fn empty(status: StatusCode, id: &RequestId) -> Response<Body> {
    with_headers(&USUAL, status, id, Body::default())
}

/// An answer in another format than JSON, such as metrics.
pub(crate) fn text(
    status: StatusCode,
    id: &RequestId,
    content_type: &'static str,
    body: impl Into<Body>,
) -> Response<Body> {
    let mut response = with_headers(&USUAL, status, id, body.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Sets the place of an answer in the order of things.
pub(crate) fn set_position(headers: &mut HeaderMap, position: HeaderValue) {
    match headers.iter_mut().nth(1) {
        Some((name, value)) if *name == POSITION => *value = position,
        _ => _ = headers.insert(POSITION, position),
    }
}

/// Fills in the name of the service, and the position if it is open and there is one. Nothing is open afterwards.
pub(crate) fn complete(headers: &mut HeaderMap, position: impl FnOnce() -> Option<HeaderValue>, service: HeaderValue) {
    let mut filled_in = headers.iter_mut().skip(1);
    if let (Some((second, place)), Some((third, named))) = (filled_in.next(), filled_in.next())
        && *second == POSITION
        && *third == SERVICE
    {
        *named = service;
        if !place.is_empty() {
            return;
        }
        match position() {
            Some(position) => *place = position,
            None => _ = headers.remove(POSITION),
        }
        return;
    }
    if headers.get(POSITION).is_none_or(HeaderValue::is_empty) {
        headers.remove(POSITION);
        headers.extend(position().map(|position| (POSITION, position)));
    }
    headers.insert(SERVICE, service);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_open_until_it_is_filled_in() {
        let (id, value) = (RequestId::of(&HeaderMap::new()), HeaderValue::from_static);
        let usual = || json(StatusCode::OK, &id, "{}").into_parts().0.headers;
        let said = |headers: &HeaderMap| {
            [POSITION, SERVICE].map(|name| {
                let all: Vec<_> =
                    headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect();
                all.join(" and ")
            })
        };
        let first: Vec<_> = usual().keys().skip(1).take(FILLED_IN.len()).cloned().collect();
        assert_eq!(first, FILLED_IN, "where they are looked for");
        // As usual, with and without a position of its own; in another order; and without any of them.
        let mut others = usual();
        others.remove("x-request-id");
        for (mut headers, positioned, len) in [
            (usual(), true, 7),
            (usual(), false, 7),
            (others.clone(), true, 6),
            (others, false, 6),
            (HeaderMap::new(), true, 2),
            (HeaderMap::new(), false, 2),
        ] {
            if positioned {
                set_position(&mut headers, value("1.2"));
            }
            complete(&mut headers, || Some(value("1.3")), value("s"));
            let position = if positioned { "1.2" } else { "1.3" };
            assert_eq!((said(&headers), headers.len()), ([position, "s"].map(String::from), len));
        }
    }
}
