//! Which names the service answers to, and which web pages may call it. A browser sends the calls of any page with its
//! user's access: a loopback address, a network, a client certificate. So a call that a browser marks as coming from
//! another site is refused if it could change anything, and a name that was made to point here reads nothing.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderName, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};

use super::json::shown;
use super::problem::Problem;
use super::request::Said;
use super::request_id::RequestId;
use super::response::{self, Body};

/// Headers of ours that scripts of an allowed origin may see, beside those that any script may.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "Leasehold-Position, Leasehold-Partition, Leasehold-Positions, Leasehold-Service, Retry-After, Location, Link, ETag, X-Request-Id, WWW-Authenticate",
);
const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
/// Headers that scripts of an allowed origin may send, beside those that any script may.
const SENT: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, Idempotency-Key, Prefer, Last-Event-ID, X-Request-Id, traceparent, tracestate",
);
/// How long a browser may remember that, in seconds.
const REMEMBERED_S: HeaderValue = HeaderValue::from_static("600");

/// Pages on the internet ask for more than permission to call an address in the user's own network.
const REQUEST_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOW_PRIVATE_NETWORK: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The addresses of the service, as its callers know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Site {
    names: Names,
    /// Names that are ours beside the addresses, in lower case and without a port.
    hosts: Vec<String>,
    /// Origins that are ours or allowed, as browsers write them.
    origins: Vec<String>,
    /// Those of them that are other sites, and so need CORS.
    foreign: Vec<HeaderValue>,
}

/// An origin that may call, by its number: a copy would have room in every parked caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign(usize);

/// How much is known about our names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Names {
    /// Nothing: any name may lead here.
    #[default]
    Any,
    /// All of it, and any address may be one of ours.
    Listed,
    /// Only this machine reaches us, and so by its own addresses.
    Loopback,
}

impl Site {
    /// `is_loopback`: nothing but this machine reaches the listener. An origin is `scheme://host[:port]`.
    pub fn new(
        is_loopback: bool,
        public_url: Option<&str>,
        allowed_hosts: &[String],
        allowed_origins: &[String],
    ) -> Site {
        let names = match (is_loopback, allowed_hosts.is_empty()) {
            (true, _) => Names::Loopback,
            (false, false) => Names::Listed,
            (false, true) => Names::Any,
        };
        let own = public_url.and_then(|url| {
            let (scheme, rest) = url.split_once("://")?;
            Some((scheme, rest.split('/').next().unwrap_or(rest)))
        });
        let listed = allowed_hosts.iter().map(|host| host.to_ascii_lowercase());
        Site {
            names,
            hosts: listed.chain(own.map(|(_, authority)| host_of(authority).to_ascii_lowercase())).collect(),
            origins: allowed_origins
                .iter()
                .cloned()
                .chain(own.map(|(scheme, authority)| format!("{scheme}://{}", authority.to_ascii_lowercase())))
                .collect(),
            foreign: allowed_origins
                .iter()
                .map(|origin| HeaderValue::from_str(origin).expect("a checked origin is visible ASCII"))
                .collect(),
        }
    }

    /// 421 for a name that is none of ours, 403 for a change that another site's page asks for.
    pub fn check(&self, method: &Method, uri: &Uri, said: &Said<'_>) -> Result<(), Problem> {
        // Both where both are sent: which of them was meant is for us to say.
        let authority = uri.authority().map(http::uri::Authority::as_str);
        self.check_name(authority.map(str::as_bytes))?;
        self.check_name(said.host.map(HeaderValue::as_bytes))?;
        let is_safe = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        if is_safe || (said.origin.is_none() && said.fetch_site.is_none()) {
            return Ok(());
        }
        let host = said.host.and_then(|host| host.to_str().ok());
        let is_allowed = said.origin.is_some_and(|origin| self.foreign.contains(origin));
        let is_near = said.fetch_site.is_none_or(|site| matches!(site.as_bytes(), b"same-origin" | b"none"));
        let is_ours = said.origin.is_none_or(|origin| self.is_ours(origin, authority.or(host)));
        if is_allowed || (is_near && is_ours && !said.origin_again) { Ok(()) } else { Err(from_elsewhere(said.origin)) }
    }

    /// Which of the other sites that may call a request comes from, if it comes from one.
    pub fn foreign_origin(&self, headers: &HeaderMap) -> Option<Foreign> {
        if self.foreign.is_empty() {
            return None;
        }
        let origin = headers.get(ORIGIN)?;
        self.foreign.iter().position(|allowed| allowed == origin).map(Foreign)
    }

    /// Returns whether a browser asks if a page of an allowed origin may make a call.
    pub fn is_preflight(&self, method: &Method, headers: &HeaderMap) -> bool {
        *method == Method::OPTIONS
            && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
            && self.foreign_origin(headers).is_some()
    }

    /// Marks what an allowed origin may know of this answer; `asking` is from `foreign_origin`.
    pub fn mark(&self, response: &mut Response<Body>, asking: Option<Foreign>) {
        if self.foreign.is_empty() {
            return;
        }
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("Origin"));
        if let Some(Foreign(nth)) = asking {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.foreign[nth].clone());
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
    }

    /// 421 unless this is a name of ours. The usual one is known without a look at the others.
    fn check_name(&self, name: Option<&[u8]>) -> Result<(), Problem> {
        let Some(name) = name else { return Ok(()) };
        if self.names == Names::Any || matches!(without_port(name), b"localhost" | b"127.0.0.1") {
            return Ok(());
        }
        // `check_host` leaves no other bytes than those of names.
        let name = std::str::from_utf8(name).unwrap_or("?");
        if self.has(host_of(name)) { Ok(()) } else { Err(wrong_host(name)) }
    }

    fn has(&self, host: &str) -> bool {
        let is_own_address = || match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(ip) => self.names == Names::Listed || ip.to_canonical().is_loopback(),
            Err(_) => false,
        };
        // A browser always names a host.
        host.is_empty()
            || host.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
            || is_own_address()
    }

    /// Returns whether a page of this origin came from the host that the request goes to.
    fn is_ours(&self, origin: &HeaderValue, authority: Option<&str>) -> bool {
        let Ok(origin) = origin.to_str() else { return false };
        let Some((scheme, at)) = origin.split_once("://") else { return false };
        let port = match scheme {
            "http" => ":80",
            "https" => ":443",
            _ => return false,
        };
        let usual = |authority: &str| authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
        authority.is_some_and(|authority| usual(authority) == usual(at))
            || self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin))
    }
}

/// The answer to a browser before a page of an allowed origin calls.
pub fn preflight(id: &RequestId, is_private_network: bool) -> Response<Body> {
    let mut response = response::empty(StatusCode::NO_CONTENT, id);
    let answer = response.headers_mut();
    answer.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    answer.insert(ACCESS_CONTROL_ALLOW_HEADERS, SENT);
    answer.insert(ACCESS_CONTROL_MAX_AGE, REMEMBERED_S);
    if is_private_network {
        answer.insert(ALLOW_PRIVATE_NETWORK, HeaderValue::from_static("true"));
    }
    response
}

pub fn asks_for_private_network(headers: &HeaderMap) -> bool {
    headers.contains_key(REQUEST_PRIVATE_NETWORK)
}

/// `host:port` without its port.
fn host_of(authority: &str) -> &str {
    &authority[..without_port(authority.as_bytes()).len()]
}

fn without_port(authority: &[u8]) -> &[u8] {
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    match &authority[..authority.len() - digits] {
        [host @ .., b':'] if !host.is_empty() => host,
        _ => authority,
    }
}

fn wrong_host(name: &str) -> Problem {
    let reason = format!("host {} is no name of this service, allowed_hosts says which are", shown(name));
    Problem::new(StatusCode::MISDIRECTED_REQUEST, reason)
}

fn from_elsewhere(origin: Option<&HeaderValue>) -> Problem {
    let origin = origin.and_then(|origin| origin.to_str().ok());
    let of = origin.map_or(String::new(), |origin| format!(" ({})", shown(origin)));
    let reason = format!("a web page of another site{of} may change nothing here, allow_origin says which may");
    Problem::new(StatusCode::FORBIDDEN, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(site: &Site, method: &str, uri: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = http::Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let said = super::super::request::check_head(&parts).unwrap();
        site.check(&parts.method, &parts.uri, &said).map_or_else(|problem| problem.status.as_u16(), |()| 200)
    }

    #[test]
    fn on_loopback_only_our_own_names_are_served() {
        let hosts = ["locks.test".to_owned()];
        let site = Site::new(true, Some("https://Locks.example.org:8443/x"), &hosts, &[]);
        for (host, expected) in [
            ("localhost", 200),
            ("LOCALHOST:8080", 200),
            ("127.0.0.1:8080", 200),
            ("127.200.3.4", 200),
            ("[::1]:8080", 200),
            ("[::ffff:127.0.0.1]", 200),
            ("locks.example.org", 200),
            ("locks.example.org:1", 200),
            ("LOCKS.test:9", 200),
            ("", 200),
            ("evil.example", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("128.0.0.1", 421),
            ("126.255.255.255", 421),
            ("0.0.0.0", 421),
            ("[::2]", 421),
            ("10.0.0.1:8080", 421),
            ("127.1", 421),
        ] {
            assert_eq!(status(&site, "GET", "/", &[("host", host)]), expected, "{host}");
        }
        // Either may be the one that a proxy in front goes by.
        assert_eq!(status(&site, "GET", "http://evil.example/", &[("host", "localhost")]), 421);
        assert_eq!(status(&site, "GET", "http://localhost/", &[("host", "evil.example")]), 421);
    }

    #[test]
    fn elsewhere_names_are_checked_once_they_are_listed() {
        let any = Site::new(false, Some("https://locks.example.org"), &[], &[]);
        assert_eq!(status(&any, "GET", "/", &[("host", "whatever.example")]), 200);
        let listed = Site::new(false, None, &["locks.example.org".to_owned()], &[]);
        for (host, expected) in
            [("locks.example.org:8080", 200), ("10.0.0.1", 200), ("localhost", 200), ("evil.example", 421)]
        {
            assert_eq!(status(&listed, "GET", "/", &[("host", host)]), expected, "{host}");
        }
    }

    #[test]
    fn a_page_of_another_site_changes_nothing() {
        let site = Site::new(true, Some("https://locks.example.org"), &[], &["https://app.example".to_owned()]);
        let host = ("host", "localhost:8080");
        for (headers, expected) in [
            (vec![], 200),
            (vec![("sec-fetch-site", "same-origin")], 200),
            (vec![("sec-fetch-site", "none")], 200),
            (vec![("sec-fetch-site", "same-site")], 403),
            (vec![("sec-fetch-site", "cross-site")], 403),
            (vec![("sec-fetch-site", "")], 403),
            (vec![("origin", "http://localhost:8080")], 200),
            (vec![("origin", "https://locks.example.org")], 200),
            (vec![("origin", "http://localhost:8081")], 403),
            (vec![("origin", "http://localhost")], 403),
            (vec![("origin", "null")], 403),
            (vec![("origin", "http://evil.example")], 403),
            (vec![("origin", "ftp://localhost:8080")], 403),
            (vec![("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")], 403),
            (vec![("origin", "http://localhost:8080"), ("sec-fetch-site", "cross-site")], 403),
            (vec![("origin", "http://localhost:8080"), ("origin", "http://evil.example")], 403),
            (vec![("origin", "https://app.example"), ("sec-fetch-site", "cross-site")], 200),
            (vec![("origin", "https://app.example.evil"), ("sec-fetch-site", "cross-site")], 403),
        ] {
            for method in ["POST", "PUT", "PATCH", "DELETE"] {
                let headers: Vec<_> = headers.iter().copied().chain([host]).collect();
                assert_eq!(status(&site, method, "/lock", &headers), expected, "{method} {headers:?}");
            }
            let headers: Vec<_> = headers.iter().copied().chain([host]).collect();
            assert_eq!(status(&site, "GET", "/lock", &headers), 200, "reading is for CORS to forbid");
        }
        let https = Site::new(false, None, &[], &[]);
        for (host, expected) in [("a.example", 200), ("a.example:443", 200), ("A.example", 200), ("a.example:80", 403)]
        {
            let headers = [("origin", "https://a.example"), ("host", host)];
            assert_eq!(status(&https, "POST", "/lock", &headers), expected, "{host}");
        }
    }
}
