//! Public names made under a key that only this service has. A pool's is a digest of its id, which is a credential and
//! cannot be got back from it; the service's own tells it from every other. The key belongs to the data, so both stay
//! the same across restarts.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::hmac;

/// Digests whose pool is remembered, so that it is found again without looking at all pools.
const REMEMBERED_MAX: usize = 16_384;

/// The name of a pool where its id must not appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolDigest(u128);

impl PoolDigest {
    const DIGITS: usize = 32;

    pub(crate) fn parse(text: &str) -> Option<PoolDigest> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_fit = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        is_fit.then(|| u128::from_str_radix(text, 16).ok().map(PoolDigest)).flatten()
    }
}

impl fmt::Display for PoolDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

pub(crate) struct Digester {
    key: hmac::Key,
    remembered: Mutex<HashMap<PoolDigest, u128>>,
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digester(…)")
    }
}

impl Digester {
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        Digester { key: hmac::Key::new(hmac::HMAC_SHA256, &secret), remembered: Mutex::default() }
    }

    /// The name of the service: of its data, wherever they are served and whichever copy of them.
    pub(crate) fn service(&self) -> String {
        format!("{:032x}", self.digest(b"service"))
    }

    pub(crate) fn of(&self, pool: u128) -> PoolDigest {
        let mut message = *b"pool----------------";
        message[4..].copy_from_slice(&pool.to_be_bytes());
        PoolDigest(self.digest(&message))
    }

    /// A name for the holder of a pool's lease that has no other: the lease's id is a credential.
    pub(crate) fn lease(&self, lease: u128) -> String {
        let mut message = *b"lease----------------";
        message[5..].copy_from_slice(&lease.to_be_bytes());
        format!("lease:{:032x}", self.digest(&message))
    }

    /// The purpose of the digest comes first in the message, so that the secret may serve several purposes.
    fn digest(&self, message: &[u8]) -> u128 {
        let digest = hmac::sign(&self.key, message);
        let (half, _) = digest.as_ref().split_first_chunk::<16>().expect("it has 32 bytes");
        u128::from_be_bytes(*half)
    }

    /// The same, and remembers the pool of the digest.
    pub(crate) fn remember(&self, pool: u128) -> PoolDigest {
        let digest = self.of(pool);
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(digest, pool);
        digest
    }

    /// The pool of this digest, if it was remembered.
    pub(crate) fn recall(&self, digest: PoolDigest) -> Option<u128> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(&digest).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_the_pool_and_on_the_key_and_nothing_else() {
        let (one, other) = (Digester::new([1; 32]), Digester::new([2; 32]));
        assert_eq!(one.of(7), Digester::new([1; 32]).of(7));
        assert_ne!(one.of(7), one.of(8));
        assert_ne!(one.of(7), other.of(7));
        // Stays the same as in earlier versions: digests are kept in bookmarks and logs.
        assert_eq!(one.of(7).to_string(), "6c371b0f4fd9cfd51bf3e38d384c14af");
    }

    #[test]
    fn the_name_of_the_service_depends_on_the_key_and_is_no_pools() {
        let one = Digester::new([1; 32]);
        assert_eq!(one.service(), Digester::new([1; 32]).service());
        assert_ne!(one.service(), Digester::new([2; 32]).service());
        // Stays the same as in earlier versions: clients compare it before and after an upgrade.
        assert_eq!(one.service(), "21c56a4fb45a88622ba992fa2a93257a");
    }

    #[test]
    fn digests_are_read_as_they_are_written() {
        let digester = Digester::new([3; 32]);
        let digest = digester.remember(9);
        assert_eq!(PoolDigest::parse(&digest.to_string()), Some(digest));
        assert_eq!(digester.recall(digest), Some(9));
        assert_eq!(digester.recall(digester.of(10)), None);
        for text in [
            "",
            "0",
            "00000000000000000000000000000007x",
            "A0000000000000000000000000000000",
            "+0000000000000000000000000000001",
        ] {
            assert_eq!(PoolDigest::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let digester = Digester::new([3; 32]);
        for pool in 0..2 * REMEMBERED_MAX as u128 + 10 {
            digester.remember(pool);
        }
        assert!(digester.remembered.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
