//! The identity of a caller: a name, groups, and how we know. Names and groups come from outside, so they are checked
//! here once.

use std::sync::Arc;

use crate::limits::PRINCIPAL_NAME_MAX;

/// A caller: a principal, or an anonymous caller. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity(Option<Arc<Principal>>);

/// A caller that signed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    pub name: Arc<str>,
    pub groups: Vec<Arc<str>>,
    pub source: Source,
}

/// How we know the principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// An API token of the configuration.
    Token,
    /// A JWT of the OpenID provider.
    Oidc,
    /// A token that the provider was asked about.
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

/// Checks that this can be the name of a principal or a group: 1 to 256 bytes without control characters, without
/// characters that cannot be seen or turn the direction of text, and no space at either end. Two names that look the
/// same in a log or on a dashboard must be the same. The error follows the name of the field in a sentence.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if !(1..=PRINCIPAL_NAME_MAX).contains(&name.len()) {
        Err("must have 1 to 256 bytes")
    } else if name.chars().any(char::is_control) {
        Err("must not have control characters")
    } else if name.chars().any(is_unseen) {
        Err("must not have characters that are invisible, that turn the direction of text, or that stand for a space")
    } else if name.trim() != name {
        Err("must not begin or end with a space")
    } else {
        Ok(())
    }
}

/// Characters that people do not see: zero-width and bidirectional marks, no-break and other spaces, fillers.
fn is_unseen(c: char) -> bool {
    use unicode_general_category::GeneralCategory::{Format, LineSeparator, ParagraphSeparator, SpaceSeparator};
    if c.is_ascii() {
        return false;
    }
    matches!(
        unicode_general_category::get_general_category(c),
        Format | LineSeparator | ParagraphSeparator | SpaceSeparator
    ) || matches!(
        c,
        // The no-break hyphen, the combining grapheme joiner, fillers and variation selectors have categories of their
        // own.
        '\u{2011}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}' | '\u{e0100}'..='\u{e01ef}'
    )
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

    #[test]
    fn names_have_nothing_that_cannot_be_seen() {
        for unseen in [
            '\u{a0}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{1680}',
            '\u{180e}',
            '\u{2007}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2011}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{202f}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{3000}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{e0001}',
            '\u{e0041}',
        ] {
            for name in [format!("al{unseen}ice"), format!("{unseen}alice"), format!("alice{unseen}")] {
                assert!(check_name(&name).is_err(), "{name:?}");
            }
        }
        for seen in ["al ice", "al-ice", "al\u{2010}ice", "مريم", "אליס", "Zoe\u{308}"] {
            assert_eq!(check_name(seen), Ok(()), "{seen:?}");
        }
    }
}
