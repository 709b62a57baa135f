//! The size of the state, in bytes. The account is a function of the state alone: it is equal after a replay and after
//! a checkpoint and its tail, on every machine. So it is not the figure of an allocator but an estimate that is never
//! much too low: texts at their own length plus the overhead of a heap, and a fixed amount for each entity, which is
//! the sum of its entries in the worst case (`docs/operations.md` has the measurements).
//!
//! ```text
//! claim     = CLAIM + EXTRA unless it is a plain lease
//!           + OWNER + 2 × text(client) + OWNER + POINTER + 2 × text(principal)
//!           + NAME + text(idempotency key) + text(metadata)
//! resource  = RESOURCE + text(name) + SLOT × the highest slot in use
//! ```
//!
//! A claim that ended leaves a hole: its entry in the table and its place in the index of ids are used again, not given
//! back. Holes count as used too (`SPARE_CLAIM`, `SPARE_RESOURCE`), but they are not part of the account, as a restart
//! has none.

use super::{Claim, Resource};
use crate::change::IdempotencyKey;
use crate::ids::{Kind, ResourceKey};

/// A claim: its entry in the table (128), in the index of ids (hash tables are between 7/16 and 7/8 full: 80), and in
/// the order of deadlines or of retention (nodes are at least 5/11 full: 64), and its hole (8).
pub const CLAIM: u64 = 280;
/// The parts that only some claims have, and their place in the order of creation.
pub const EXTRA: u64 = 160;
/// The entry by which a repeated request finds its claim.
pub const NAME: u64 = 80;
/// The entry that counts the claims of an owner.
pub const OWNER: u64 = 80;
/// The allocation that points to the name of a lock's principal.
pub const POINTER: u64 = 32;
/// A resource: its entry in the table (128) and in the order of keys (88), and its hole (8).
pub const RESOURCE: u64 = 224;
/// A place in a list of slots, which may be half empty.
pub const SLOT: u64 = 8;

/// The bytes that a hole in the table of claims keeps.
pub const SPARE_CLAIM: u64 = CLAIM_ENTRY + 80;
/// The bytes that a hole in the table of resources keeps.
pub const SPARE_RESOURCE: u64 = RESOURCE_ENTRY;

const CLAIM_ENTRY: u64 = 128;
const RESOURCE_ENTRY: u64 = 128;

const _: () = assert!(size_of::<Option<Claim>>() as u64 <= CLAIM_ENTRY, "a claim's entry is accounted in full");
const _: () =
    assert!(size_of::<Option<Resource>>() as u64 <= RESOURCE_ENTRY, "a resource's entry is accounted in full");

/// A text on the heap: its counters, its bytes, and the rounding of the allocator.
pub fn text(len: usize) -> u64 {
    let len = len as u64;
    32 + len + len / 8
}

/// A claim in any status.
pub fn of_claim(
    kind: Kind,
    client: Option<&str>,
    principal: Option<&str>,
    key: Option<&IdempotencyKey>,
    metadata: Option<&str>,
) -> u64 {
    let is_plain = kind == Kind::Pool && [client, principal, metadata] == [None; 3] && key.is_none();
    let extra = if is_plain { 0 } else { EXTRA };
    // An owner's name is stored once more in the count of its claims: the client, and for a lock the principal. A
    // lock's client is reckoned like an owner all the same. While the client waits for a lock, a lookup finds it by its
    // name, too.
    let found_by_client = if kind == Kind::Lock { NAME } else { 0 };
    let client = client.map_or(0, |client| OWNER + found_by_client + 2 * text(client.len()));
    let principal = principal.map_or(0, |principal| OWNER + POINTER + 2 * text(principal.len()));
    let key = key.map_or(0, |key| NAME + text(key.name.len()));
    CLAIM + extra + client + principal + key + metadata.map_or(0, |metadata| text(metadata.len()))
}

/// A resource without its slots.
pub fn of_resource(key: &ResourceKey) -> u64 {
    RESOURCE + key.name().map_or(0, |name| text(name.len()))
}
