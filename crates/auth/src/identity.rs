//! Who somebody is: a name, groups, and how we know. Names and groups come from outside, so they are checked here once.

use std::sync::Arc;

/// Longest name of a principal or group, in bytes. Owners are stored with their claims.
pub const NAME_MAX: usize = 256;

/// Most groups a principal may have. Directories hand out hundreds; more than this is somebody's mistake.
pub const GROUPS_MAX: usize = 1_000;

/// A caller: somebody who signed on, or nobody in particular. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity(Option<Arc<Principal>>);

/// Somebody who signed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: Arc<str>,
    pub groups: Vec<Arc<str>>,
    pub source: Source,
}

/// How we know who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An API token of the configuration.
    Token,
    /// A JWT of the OpenID provider.
    Oidc,
    /// A token that was asked about.
    Introspection,
    /// The headers of a trusted proxy.
    Proxy,
    /// A client certificate.
    Certificate,
    /// The cookie of a login to the dashboard.
    Session,
}

impl Source {
    pub const ALL: [Source; 6] =
        [Source::Token, Source::Oidc, Source::Introspection, Source::Proxy, Source::Certificate, Source::Session];

    pub fn as_str(self) -> &'static str {
        match self {
            Source::Token => "token",
            Source::Oidc => "oidc",
            Source::Introspection => "introspection",
            Source::Proxy => "proxy",
            Source::Certificate => "certificate",
            Source::Session => "session",
        }
    }
}

impl Identity {
    /// A caller that did not sign on.
    pub const ANONYMOUS: Identity = Identity(None);

    pub fn principal(&self) -> Option<&Arc<Principal>> {
        self.0.as_ref()
    }

    pub fn is_anonymous(&self) -> bool {
        self.0.is_none()
    }

    /// The name, for a log line or an owner.
    pub fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref().map(|principal| &principal.name)
    }
}

impl From<Principal> for Identity {
    fn from(principal: Principal) -> Self {
        Identity(Some(Arc::new(principal)))
    }
}

impl From<Arc<Principal>> for Identity {
    fn from(principal: Arc<Principal>) -> Self {
        Identity(Some(principal))
    }
}

/// Whether this can be the name of a principal or a group: 1 to 256 bytes without control characters, and no space at
/// either end. The error follows the name of the field in a sentence.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if !(1..=NAME_MAX).contains(&name.len()) {
        Err("must have 1 to 256 bytes")
    } else if name.chars().any(char::is_control) {
        Err("must not have control characters")
    } else if name.trim() != name {
        Err("must not begin or end with a space")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_printable() {
        for good in ["a", "alice@example.org", "CN=Zoë, O=Example", "多", &"x".repeat(256)] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["", " a", "a ", "a\nb", "a\0", &"x".repeat(257)] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
    }
}
