//! Where the service is: one or more addresses of one service, in the order in which they are tried.

use std::fmt;

use http::Uri;

use crate::error::Error;

/// One address of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) is_tls: bool,
    /// As a resolver wants it, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// As the `Host` header has it.
    pub(crate) authority: String,
    /// The beginning of every path; empty, or without a slash at its end.
    pub(crate) prefix: String,
}

impl Address {
    /// From `http://host:port` or `https://…`.
    pub(crate) fn parse(text: &str) -> Result<Address, Error> {
        let wrong =
            |why: &str| Error::Setting(format!("{why}; an address is written as http://host:port or https://host"));
        let uri: Uri = text.parse().map_err(|error| wrong(&format!("{text:?} is no address: {error}")))?;
        let is_tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong(&format!("{text:?} begins with neither http:// nor https://"))),
        };
        let authority = uri.authority().ok_or_else(|| wrong(&format!("{text:?} names no host")))?;
        if authority.as_str().contains('@') {
            // Not repeated, as it may be a password.
            return Err(wrong("the address has a user in it, which is not sent anywhere"));
        }
        if uri.query().is_some() {
            return Err(wrong(&format!("{text:?} has a query")));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Address { is_tls, host, port, authority: authority.to_string(), prefix })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { is_tls, authority, prefix, .. } = self;
        write!(f, "{}://{authority}{prefix}", if *is_tls { "https" } else { "http" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, host, port, shown) in [
            ("http://localhost:8080", "localhost", 8080, "http://localhost:8080"),
            ("http://localhost", "localhost", 80, "http://localhost"),
            ("https://locks.example.org/", "locks.example.org", 443, "https://locks.example.org"),
            ("https://example.org/locks/", "example.org", 443, "https://example.org/locks"),
            ("http://[::1]:9", "::1", 9, "http://[::1]:9"),
        ] {
            let address = Address::parse(text).unwrap();
            assert_eq!((&*address.host, address.port, &*address.to_string()), (host, port, shown));
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        for text in ["", "localhost:8080", "ftp://x", "http://", "http://a?b=c", "/path"] {
            let error = Address::parse(text).unwrap_err().to_string();
            assert!(error.contains("http://host:port"), "{text}: {error}");
        }
        let error = Address::parse("http://ann:secret@host").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
