//! The names of resources for observers: `claim:NAME`, `lock:JOB`, `pool:DIGEST`.

use std::sync::Arc;

use leasehold_engine::{Kind, ResourceKey};
use schemars::JsonSchema;
use serde::Serialize;

use super::digest::{Digester, PoolDigest};
use crate::http::json::value::May;
use crate::limits::{KEY_MAX, NAME_MAX};

/// A resource that was named. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PublicKey {
    /// A claimed resource or a lock; a pool once its id is known.
    Named(ResourceKey),
    Pool(PoolDigest),
}

impl PublicKey {
    pub(crate) fn parse(text: &str) -> Option<PublicKey> {
        let (kind, name) = text.split_once(':')?;
        let named = |key: fn(Arc<str>) -> ResourceKey| {
            (1..=NAME_MAX).contains(&name.len()).then(|| PublicKey::Named(key(Arc::from(name))))
        };
        match kind {
            "claim" => named(ResourceKey::Claim),
            "lock" => named(ResourceKey::Lock),
            "pool" => PoolDigest::parse(name).map(PublicKey::Pool),
            _ => None,
        }
    }

    pub(crate) fn is_of(&self, resource: &ResourceKey, digester: &Digester) -> bool {
        match (self, resource) {
            (PublicKey::Pool(digest), ResourceKey::Pool(id)) => digester.of(*id) == *digest,
            (PublicKey::Named(key), resource) => key == resource,
            (PublicKey::Pool(_), ResourceKey::Claim(_) | ResourceKey::Lock(_)) => false,
        }
    }
}

/// The kind of that name.
pub(crate) fn parse_kind(text: &str) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind.as_str() == text)
}

/// The name of a resource, or its substitute.
pub(crate) fn public_name(resource: &ResourceKey, digester: &Digester) -> Arc<str> {
    match resource {
        ResourceKey::Pool(id) => Arc::from(digester.of(*id).to_string()),
        ResourceKey::Claim(name) | ResourceKey::Lock(name) => Arc::clone(name),
    }
}

/// The pattern of a key.
pub(crate) const KEY_PATTERN: &str = "^(claim:.|lock:.|pool:[0-9a-f]{32}$)";

/// A resource's names, which begin every object that is about one.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Keyed<'a> {
    #[schemars(extend("pattern" = KEY_PATTERN, "minLength" = 1, "maxLength" = KEY_MAX, "examples" = ["lock:deploy"]))]
    key: String,
    #[schemars(extend("enum" = Kind::ALL.map(Kind::as_str)))]
    kind: &'static str,
    #[serde(skip_serializing_if = "May::is_missing")]
    name: May<&'a str>,
    /// Of a pool: what stands for its id, which is a secret.
    #[serde(skip_serializing_if = "May::is_missing")]
    digest: May<&'a str>,
}

impl<'a> Keyed<'a> {
    /// The name is that of `public_name`.
    pub(crate) fn of(kind: Kind, name: &'a str) -> Self {
        let is_pool = kind == Kind::Pool;
        Keyed {
            key: format!("{}:{name}", kind.as_str()),
            kind: kind.as_str(),
            name: May(Some(name).filter(|_| !is_pool)),
            digest: May(Some(name).filter(|_| is_pool)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_a_kind_and_a_name() {
        let digest = "0123456789abcdef0123456789abcdef";
        for (text, expected) in [
            ("lock:deploy", Some(PublicKey::Named(ResourceKey::Lock(Arc::from("deploy"))))),
            ("claim:a:b/c ", Some(PublicKey::Named(ResourceKey::Claim(Arc::from("a:b/c "))))),
            (&format!("pool:{digest}"), PoolDigest::parse(digest).map(PublicKey::Pool)),
            ("pool:9f1c2e7a-5b3d-4c8e-a1f0-6d2b9c4e7a01", None),
            ("lock:", None),
            ("lock", None),
            ("Lock:deploy", None),
            ("", None),
            (&format!("claim:{}", "x".repeat(NAME_MAX + 1)), None),
        ] {
            assert_eq!(PublicKey::parse(text), expected, "{text}");
        }
    }

    #[test]
    fn a_pool_is_recognised_by_its_digest_alone() {
        let digester = Digester::new([1; 32]);
        let key = PublicKey::Pool(digester.of(7));
        assert!(key.is_of(&ResourceKey::Pool(7), &digester));
        assert!(!key.is_of(&ResourceKey::Pool(8), &digester));
        assert!(!key.is_of(&ResourceKey::Lock(Arc::from("7")), &digester));
    }
}
