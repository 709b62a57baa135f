//! Absolute URLs in answers: their beginning. Nothing else in the server makes one up.

use std::net::SocketAddr;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, Uri};

use crate::settings::Settings;

/// The URL that the caller used to reach the service, or the one that the operator set.
pub(crate) fn base_url(settings: &Settings, parts: &Parts) -> String {
    if let Some(public_url) = &settings.public_url {
        return public_url.trim_end_matches('/').to_owned();
    }
    let scheme = if settings.speaks_tls { "https" } else { "http" };
    format!("{scheme}://{}", host(&parts.uri, &parts.headers).unwrap_or("localhost"))
}

/// The URL for calls: this one, or that of the listener for callers, where this one is for operators.
pub(crate) fn api_url(settings: &Settings, parts: &Parts) -> String {
    let here = base_url(settings, parts);
    match settings.callers_addr.filter(|_| settings.public_url.is_none()) {
        None => here,
        Some(addr) => moved(&here, addr),
    }
}

/// The same URL with this address instead. An address that stands for all of a machine's is reached by the name of this
/// one.
fn moved(url: &str, addr: SocketAddr) -> String {
    let Ok(here) = url.parse::<Uri>() else { return format!("http://{addr}") };
    let scheme = here.scheme_str().unwrap_or("http");
    match here.host().filter(|_| addr.ip().is_unspecified()) {
        Some(host) => format!("{scheme}://{host}:{}", addr.port()),
        None => format!("{scheme}://{addr}"),
    }
}

fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    // HTTP/2 has it in the URI, HTTP/1.1 in the header.
    uri.authority().map(http::uri::Authority::as_str).or_else(|| headers.get(HOST)?.to_str().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_all_of_a_machines_is_reached_by_the_name_this_one_was() {
        for (here, addr, expected) in [
            ("http://127.0.0.1:9090", "127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://localhost:9090", "10.0.0.5:8080", "http://10.0.0.5:8080"),
            ("http://locks.example.org", "0.0.0.0:8080", "http://locks.example.org:8080"),
            ("https://locks.example.org:9090", "[::]:8080", "https://locks.example.org:8080"),
            ("http://[::1]:9090", "[::]:8080", "http://[::1]:8080"),
            ("http://localhost", "[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(moved(here, addr.parse().unwrap()), expected, "{here} {addr}");
        }
    }
}
