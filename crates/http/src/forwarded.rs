//! The client of a request that a proxy passes on. `X-Forwarded-For` and `Forwarded` (RFC 7239) are words of the peer,
//! so they are believed only from addresses that the operator trusts, and only as far back as the addresses they name
//! are trusted, too: the last one that is not is the client. Where the two headers disagree, a caller wrote one of
//! them, and neither counts.

use std::net::{IpAddr, SocketAddr};

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName, HeaderValue};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address that limits, logs and the audit log go by.
pub fn client_of(peer: IpAddr, headers: &HeaderMap, trusted: &[IpNet]) -> IpAddr {
    let peer = peer.to_canonical();
    let is_trusted = |address: &IpAddr| trusted.iter().any(|network| network.contains(address));
    if !is_trusted(&peer) {
        return peer;
    }
    let named = |name: &HeaderName, read: fn(&str) -> Option<IpAddr>| {
        let mut hops = headers.get_all(name).iter().flat_map(elements).peekable();
        hops.peek()?;
        // From the nearest hop to the farthest. An address that cannot be read ends the chain.
        let hops: Vec<&str> = hops.collect();
        let known = hops.into_iter().rev().map_while(read);
        let mut client = peer;
        for address in known {
            client = address;
            if !is_trusted(&address) {
                break;
            }
        }
        Some(client)
    };
    match (named(&X_FORWARDED_FOR, address), named(&FORWARDED, forwarded_for)) {
        (Some(one), Some(other)) if one == other => one,
        (Some(_), Some(_)) | (None, None) => peer,
        (Some(one), None) | (None, Some(one)) => one,
    }
}

/// The parts of a list. Quoted strings of `Forwarded` hold addresses, which have no comma.
fn elements(value: &HeaderValue) -> impl Iterator<Item = &str> {
    value.to_str().unwrap_or("?").split(',').map(str::trim_ascii)
}

/// An address, with or without a port: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]:80`.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse::<IpAddr>().or_else(|_| text.parse::<SocketAddr>().map(|addr| addr.ip()));
    address.ok().map(|address| address.to_canonical())
}

/// `for=192.0.2.1;proto=https`, `For="[2001:db8::1]:80"`
fn forwarded_for(element: &str) -> Option<IpAddr> {
    element
        .split(';')
        .find_map(|pair| {
            let (name, value) = pair.trim_ascii().split_once('=')?;
            name.eq_ignore_ascii_case("for").then_some(value)
        })
        .and_then(|value| address(value.trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &str)]) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        client_of(peer.parse().unwrap(), &map, &trusted).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed_and_only_as_far_as_they_go() {
        const XFF: &str = "x-forwarded-for";
        for (peer, headers, expected) in [
            ("192.0.2.9", &[][..], "192.0.2.9"),
            ("192.0.2.9", &[(XFF, "198.51.100.1")], "192.0.2.9"),
            ("::ffff:10.0.0.1", &[(XFF, "198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            // Addresses before the first one that is not trusted were written by that one.
            ("10.0.0.1", &[(XFF, "203.0.113.5, 198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", &[(XFF, "203.0.113.5,198.51.100.1 , 10.0.0.7")], "198.51.100.1"),
            ("10.0.0.1", &[(XFF, "203.0.113.5"), (XFF, "198.51.100.1:4711")], "198.51.100.1"),
            ("10.0.0.1", &[(XFF, "10.0.0.3, 10.0.0.2")], "10.0.0.3"),
            // An address that cannot be read ends the chain.
            ("10.0.0.1", &[(XFF, "198.51.100.1, unknown")], "10.0.0.1"),
            ("10.0.0.1", &[(XFF, "198.51.100.1, unknown, 10.0.0.2")], "10.0.0.2"),
            ("10.0.0.1", &[(XFF, "")], "10.0.0.1"),
            ("10.0.0.1", &[(XFF, ",")], "10.0.0.1"),
            ("::1", &[(XFF, "[2001:db8::7]:443")], "2001:db8::7"),
            ("::1", &[("forwarded", "for=203.0.113.5, For=\"[2001:db8::7]:80\";proto=https")], "2001:db8::7"),
            ("::1", &[("forwarded", "proto=https;for=198.51.100.1;by=10.0.0.1")], "198.51.100.1"),
            ("::1", &[("forwarded", "for=_hidden")], "::1"),
            // Both: only if they agree.
            ("10.0.0.1", &[(XFF, "198.51.100.1"), ("forwarded", "for=198.51.100.1")], "198.51.100.1"),
            ("10.0.0.1", &[(XFF, "198.51.100.1"), ("forwarded", "for=203.0.113.5")], "10.0.0.1"),
        ] {
            assert_eq!(client(peer, headers), expected, "{peer} {headers:?}");
        }
    }
}
