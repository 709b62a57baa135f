//! Proofs of holding: statements that a claim has its slot, signed, for a guard that cannot ask. The keys belong to the
//! data (`keys`). A proof says no more than the engine said when it was asked: it ends no later than the lease, and
//! after [`PROOF_MAX_US`] at the latest, as it cannot know of a release.

mod keys;

use serde::Serialize;

pub use keys::{KeyShelf, MemoryShelf, NoKeys, ProofKeys, ShelfAnswer};
pub(crate) use keys::{Keyring, NotRotated, ProofKeySet, PublicProofKey};

use crate::limits::PROOF_MAX_US;
use crate::planted::{Bug, is_armed};

/// The `typ` of a proof, so that no other token is taken for one.
const TYPE: &str = "lease+jwt";

/// The grant that a proof is about.
#[derive(Debug)]
pub(crate) struct Provable<'a> {
    /// The service.
    pub(crate) issuer: &'a str,
    /// The holder's name. Never the id of a pool's lease.
    pub(crate) subject: &'a str,
    /// The resource, as observers call it. Never the id of a pool.
    pub(crate) resource: &'a str,
    pub(crate) slot: u32,
    pub(crate) token: u64,
    /// The rest of its lease, as the engine told it.
    pub(crate) left_us: u64,
}

/// A proof, and how long it lasts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub(crate) text: String,
    pub(crate) expires_in_us: u64,
}

/// The claims of a proof, by the names that RFC 7519 gives them and ours.
#[derive(Debug, Serialize)]
struct Statement<'a> {
    iss: &'a str,
    sub: &'a str,
    aud: &'a str,
    res: &'a str,
    slot: u32,
    tok: u64,
    iat: u64,
    exp: u64,
}

impl Keyring {
    /// Signs a proof for this audience. `asked_at_us` is the wall clock before the engine was asked, so that the rest
    /// of the lease counted from there ends no later than the lease does.
    pub(crate) fn prove(&self, grant: &Provable<'_>, audience: &str, asked_at_us: u64) -> Proof {
        let &Provable { issuer, subject, resource, slot, token, left_us } = grant;
        let left_us = if is_armed(Bug::ProofOutlivesLease) { PROOF_MAX_US } else { left_us.min(PROOF_MAX_US) };
        // Fractions are cut off: it ends a little early, never late.
        let exp = (asked_at_us + left_us) / 1_000_000;
        let statement = Statement {
            iss: issuer,
            sub: subject,
            aud: audience,
            res: resource,
            slot,
            tok: token,
            iat: asked_at_us / 1_000_000,
            exp,
        };
        let text = self.sign(TYPE, &statement);
        Proof { text, expires_in_us: (exp * 1_000_000).saturating_sub(asked_at_us) }
    }
}

#[cfg(test)]
mod tests;
