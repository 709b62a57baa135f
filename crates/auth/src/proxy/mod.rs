//! Identity headers of a trusted proxy: Shibboleth's `mod_shib` behind Apache, oauth2-proxy, Authelia, authentik, nginx
//! `auth_request`, Traefik. Any client can send a header, so they are believed only from the proxy's addresses and
//! together with a secret that the proxy adds, and every suspicious request is refused:
//!
//! * a header given twice, as the proxy may have checked the other one
//! * a name with `_` where ours has `-`: proxies that pass headers on as environment variables take them for the same
//! * one of our headers named in `Connection`: a proxy in between would take it out again
//! * an identity header from anywhere else, or without the secret

mod preset;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

pub use preset::Preset;

use crate::identity::{Principal, Source, check_name};
use crate::limits::GROUPS_MAX;
use crate::secret::Secret;

/// The meaning of the headers, and the addresses they are believed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxySettings {
    /// The addresses of the proxy.
    pub from: Vec<IpNet>,
    pub secret_header: HeaderName,
    pub secret: Secret,
    pub user_header: HeaderName,
    pub groups_header: Option<HeaderName>,
    /// Between two groups in one header.
    pub groups_separator: char,
    /// The prefix of names and groups from here, so that they cannot be taken for those of another source.
    pub name_prefix: String,
    pub group_prefix: String,
}

/// Why identity headers are not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("the header {0} is believed only from the proxy")]
    NotTheProxy(HeaderName),
    #[error("the proxy did not send its secret, or not the right one")]
    WrongSecret,
    #[error("the header {0} is there more than once")]
    Twice(HeaderName),
    #[error("the header {0:?} looks like one of the proxy's and is not")]
    LookAlike(String),
    #[error("the Connection header names {0}, which must not be taken out on the way")]
    HopByHop(HeaderName),
    #[error("the header {0} is not UTF-8")]
    NotText(HeaderName),
    #[error("the name in the header {0} {1}")]
    BadName(HeaderName, &'static str),
    #[error("the header {0} has a group that {1}")]
    BadGroup(HeaderName, &'static str),
    #[error("the header {0} has more than {GROUPS_MAX} groups")]
    TooManyGroups(HeaderName),
}

/// The meaning of the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The request is not from the proxy, and does not pretend to be.
    Nothing,
    /// The request is from the proxy, which names no caller.
    Nobody,
    Somebody(Principal),
}

impl ProxySettings {
    /// Believes the headers, or returns the reason not to.
    pub fn read(&self, headers: &HeaderMap, peer: IpAddr) -> Result<Said, ProxyError> {
        self.refuse_look_alikes(headers)?;
        self.refuse_hop_by_hop(headers)?;
        let ours = [Some(&self.user_header), self.groups_header.as_ref(), Some(&self.secret_header)];
        let mut sent = ours.into_iter().flatten().filter(|name| headers.contains_key(*name));
        let Some(first) = sent.next() else { return Ok(Said::Nothing) };
        if !self.is_from_proxy(peer) {
            return Err(ProxyError::NotTheProxy(first.clone()));
        }
        let secret = once(headers, &self.secret_header)?.ok_or(ProxyError::WrongSecret)?;
        if !self.secret.is(secret) {
            return Err(ProxyError::WrongSecret);
        }
        let groups = self.groups(headers)?;
        match text(headers, &self.user_header)? {
            // Apache sends `(null)` for a variable that is not set, others an empty header.
            None | Some("" | "(null)") => Ok(Said::Nobody),
            Some(user) => {
                let name = format!("{}{user}", self.name_prefix);
                check_name(&name).map_err(|problem| ProxyError::BadName(self.user_header.clone(), problem))?;
                Ok(Said::Somebody(Principal { name: name.into(), groups, source: Source::Proxy }))
            }
        }
    }

    fn is_from_proxy(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.from.iter().any(|network| network.contains(&peer))
    }

    fn groups(&self, headers: &HeaderMap) -> Result<Vec<Arc<str>>, ProxyError> {
        let Some(header) = &self.groups_header else { return Ok(Vec::new()) };
        let Some(text) = text(headers, header)?.filter(|&text| text != "(null)") else { return Ok(Vec::new()) };
        let mut groups = Vec::new();
        for group in text.split(self.groups_separator).map(str::trim_ascii).filter(|group| !group.is_empty()) {
            let group = format!("{}{group}", self.group_prefix);
            check_name(&group).map_err(|problem| ProxyError::BadGroup(header.clone(), problem))?;
            if groups.len() == GROUPS_MAX {
                return Err(ProxyError::TooManyGroups(header.clone()));
            }
            groups.push(group.into());
        }
        Ok(groups)
    }

    fn is_ours(&self, name: &str) -> bool {
        name == self.user_header || name == self.secret_header || self.groups_header.as_ref().is_some_and(|g| name == g)
    }

    fn refuse_look_alikes(&self, headers: &HeaderMap) -> Result<(), ProxyError> {
        let look_alike = headers.keys().find(|name| {
            // Names of headers are lower case here. One of ours may itself have a `_`.
            name.as_str().contains('_') && !self.is_ours(name.as_str()) && self.is_ours_but_for_dashes(name.as_str())
        });
        look_alike.map_or(Ok(()), |name| Err(ProxyError::LookAlike(name.as_str().to_owned())))
    }

    fn is_ours_but_for_dashes(&self, name: &str) -> bool {
        let ours = [Some(&self.user_header), self.groups_header.as_ref(), Some(&self.secret_header)];
        let plain = |name: &str| name.replace('_', "-");
        ours.into_iter().flatten().any(|known| plain(known.as_str()) == plain(name))
    }

    fn refuse_hop_by_hop(&self, headers: &HeaderMap) -> Result<(), ProxyError> {
        for value in headers.get_all(CONNECTION) {
            for option in value.as_bytes().split(|&byte| byte == b',') {
                // A text that is no header name cannot be one of ours.
                let Ok(name) = HeaderName::from_bytes(option.trim_ascii()) else { continue };
                if self.is_ours(name.as_str()) || self.is_ours_but_for_dashes(name.as_str()) {
                    return Err(ProxyError::HopByHop(name));
                }
            }
        }
        Ok(())
    }
}

fn once<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a [u8]>, ProxyError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value.map(http::HeaderValue::as_bytes)),
        (_, Some(_)) => Err(ProxyError::Twice(name.clone())),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, ProxyError> {
    let Some(bytes) = once(headers, name)? else { return Ok(None) };
    // ASCII alone: a no-break space at the end of a name makes it another name, which is refused.
    std::str::from_utf8(bytes.trim_ascii()).map(Some).map_err(|_| ProxyError::NotText(name.clone()))
}
