//! Tokens that were checked a moment ago, by digest: a caller sends the same one with every request, and checking a
//! signature costs more than everything else about a request together.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::identity::Principal;
use crate::secret::Digest;
use crate::{Now, bearer::Verified};

/// A revoked key or a session ended at the provider is noticed after this long.
pub(crate) const FRESH_US: u64 = 60_000_000;

const ENTRIES_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Cache(RwLock<HashMap<Digest, Entry>>);

#[derive(Debug)]
struct Entry {
    principal: Arc<Principal>,
    expires_at_s: u64,
    fresh_until_us: u64,
}

impl Cache {
    pub(crate) fn get(&self, token: &Digest, now: Now) -> Option<Arc<Principal>> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.get(token)?;
        (now.unix_s < entry.expires_at_s && now.mono_us < entry.fresh_until_us).then(|| Arc::clone(&entry.principal))
    }

    pub(crate) fn put(&self, token: Digest, verified: Verified, now: Now) -> Arc<Principal> {
        let principal = Arc::new(verified.principal);
        let entry = Entry {
            principal: Arc::clone(&principal),
            expires_at_s: verified.expires_at_s,
            fresh_until_us: now.mono_us + FRESH_US,
        };
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, entry| now.unix_s < entry.expires_at_s && now.mono_us < entry.fresh_until_us);
            if entries.len() >= ENTRIES_MAX {
                // All of them are in use: a token that comes again is checked again.
                entries.clear();
            }
        }
        entries.insert(token, entry);
        principal
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Source;

    fn verified(expires_at_s: u64) -> Verified {
        Verified { principal: Principal { name: "a".into(), groups: Vec::new(), source: Source::Oidc }, expires_at_s }
    }

    #[test]
    fn an_entry_lives_until_the_token_expires_and_no_longer_than_a_minute() {
        let cache = Cache::default();
        let token = Digest::of(b"x");
        let now = Now { unix_s: 100, mono_us: 0 };
        cache.put(token, verified(130), now);
        assert!(cache.get(&token, Now { unix_s: 129, ..now }).is_some());
        assert!(cache.get(&token, Now { unix_s: 130, ..now }).is_none());
        assert!(cache.get(&token, Now { mono_us: FRESH_US, ..now }).is_none());
        assert!(cache.get(&Digest::of(b"y"), now).is_none());
    }

    #[test]
    fn it_stays_bounded() {
        let cache = Cache::default();
        let now = Now { unix_s: 100, mono_us: 0 };
        for number in 0..25_000_u32 {
            cache.put(Digest::of(&number.to_le_bytes()), verified(1_000), now);
        }
        assert!(cache.0.read().unwrap().len() <= ENTRIES_MAX);
    }
}
