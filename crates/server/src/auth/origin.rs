//! Checks that a request with a login's cookie comes from a page of ours.

use http::StatusCode;
use http::header::{HeaderMap, ORIGIN};

use crate::http::Problem;

/// Returns whether a request comes from a page of ours. Browsers say so; a cookie alone is sent along by any page's
/// request.
pub(crate) fn is_same_origin(headers: &HeaderMap, base_url: &str) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site == "same-origin";
    }
    headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes() == origin_of(base_url).as_bytes())
}

/// A URL without its path.
fn origin_of(url: &str) -> &str {
    let host_at = url.find("://").map_or(0, |at| at + 3);
    let path_at = url[host_at..].find('/').map_or(url.len(), |at| host_at + at);
    &url[..path_at]
}

pub(crate) fn cross_site() -> Problem {
    let reason = "a request that changes something and comes with a login's cookie must come from the dashboard itself";
    Problem::new(StatusCode::FORBIDDEN, reason)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn browsers_say_where_a_request_comes_from() {
        for (headers, expected) in [
            (&[][..], false),
            (&[("sec-fetch-site", "same-origin")], true),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("sec-fetch-site", "cross-site"), ("origin", "http://here:80")], false),
            (&[("sec-fetch-site", "none")], false),
            (&[("origin", "http://here:80")], true),
            (&[("origin", "http://evil.example")], false),
            (&[("origin", "null")], false),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, HeaderValue::from_static(value));
            }
            assert_eq!(is_same_origin(&map, "http://here:80"), expected, "{headers:?}");
            assert_eq!(is_same_origin(&map, "http://here:80/base"), expected, "{headers:?}");
        }
    }
}
