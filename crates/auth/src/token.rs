//! API tokens: `lh_` and 256 random bits. The configuration has their digests, so a reader of it gets no token.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::identity::{Principal, Source};
use crate::secret::{Digest, Secret};

/// The beginning of every API token, so that scanners for leaked secrets find them and no JWT is mistaken for one.
pub const PREFIX: &str = "lh_";

/// One token of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSettings {
    pub name: Arc<str>,
    pub digest: Digest,
    pub groups: Vec<Arc<str>>,
    /// From this second since 1970 on it is refused.
    pub expires_at_s: Option<u64>,
}

/// Makes a token. It is shown once and kept nowhere; the digest goes into the configuration.
pub fn make() -> (Secret, Digest) {
    let mut bytes = [0; 32];
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system has randomness");
    let mut token = PREFIX.to_owned();
    for byte in bytes {
        let _ = write!(token, "{byte:02x}");
    }
    let digest = Digest::of(token.as_bytes());
    (Secret::new(token), digest)
}

/// All tokens, by digest.
#[derive(Debug, Default)]
pub(crate) struct Tokens(HashMap<Digest, Known>);

#[derive(Debug)]
struct Known {
    principal: Arc<Principal>,
    expires_at_s: Option<u64>,
}

/// The result of looking a token up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Principal(Arc<Principal>),
    Expired,
    Unknown,
}

impl Tokens {
    pub(crate) fn new(settings: &[TokenSettings]) -> Self {
        let known = |token: &TokenSettings| Known {
            principal: Arc::new(Principal {
                name: Arc::clone(&token.name),
                groups: token.groups.clone(),
                source: Source::Token,
            }),
            expires_at_s: token.expires_at_s,
        };
        Tokens(settings.iter().map(|token| (token.digest, known(token))).collect())
    }

    /// Looked up by digest: the time this takes depends on the digest of the token sent, which tells nothing about the
    /// known digests. The comparison that decides takes constant time all the same.
    pub(crate) fn find(&self, token: &[u8], now_s: u64) -> Found {
        self.find_digest(&Digest::of(token), now_s)
    }

    /// The same for a digest that a sealed cookie has.
    pub(crate) fn find_digest(&self, digest: &Digest, now_s: u64) -> Found {
        match self.0.get_key_value(digest) {
            Some((known, found)) if verify_slices_are_equal(known.bytes(), digest.bytes()).is_ok() => {
                if found.expires_at_s.is_some_and(|expires_at_s| expires_at_s <= now_s) {
                    Found::Expired
                } else {
                    Found::Principal(Arc::clone(&found.principal))
                }
            }
            _ => Found::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_by_its_digest_until_it_expires() {
        let (secret, digest) = make();
        let settings = TokenSettings { name: "ci".into(), digest, groups: vec!["x".into()], expires_at_s: Some(100) };
        let tokens = Tokens::new(&[settings]);
        let token = secret.expose().as_bytes();
        assert!(matches!(tokens.find(token, 99), Found::Principal(found) if &*found.name == "ci"));
        assert_eq!(tokens.find(token, 100), Found::Expired);
        assert_eq!(tokens.find(&token[1..], 99), Found::Unknown);
        assert_eq!(tokens.find(digest.to_string().as_bytes(), 99), Found::Unknown, "the digest is no token");
    }

    #[test]
    fn tokens_are_long_and_differ() {
        let (a, b) = (make().0, make().0);
        assert_ne!(a, b);
        assert_eq!(a.expose().len(), PREFIX.len() + 64);
    }
}
