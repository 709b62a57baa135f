//! The size of the state, in bytes. The account is a function of the state alone: it is equal after a replay and after
//! a checkpoint and its tail, on every machine. So it is not the figure of an allocator but an estimate that is never
//! much too low: texts at their own length plus the overhead of a heap, and a fixed amount for each entity, which is
//! the sum of its entries in the worst case (`docs/operations.md` has the measurements).
//!
//! ```text
//! claim     = CLAIM + EXTRA unless it is a plain lease
//!           + OWNER + 2 × text(client) + OWNER + 2 × text(principal)
//!           + RARE if it has a principal or particulars + text(holder)
//!           + NAME + text(idempotency key) + text(metadata)
//! resource  = RESOURCE + text(name) + LABEL + text(label) + SLOT × the highest slot in use
//!           + FITTINGS if it has any + text(reason) + OUT + text(reason) and NAMED + text(name) + text(data) for each
//! ```
//!
//! A claim that ended leaves a hole: its entry in the table and its place in the index of ids are used again, not given
//! back. Holes count as used too (`SPARE_CLAIM`, `SPARE_RESOURCE`), but they are not part of the account, as a restart
//! has none.

use super::{Claim, Rare, Resource, ResourceExtra};
use crate::fittings::Fittings;
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
/// The allocation of the parts that few claims have.
pub const RARE: u64 = 80;
/// The allocation of the parts that few resources have.
pub const LABEL: u64 = 48;
/// The allocation of the fittings and of the parts that few resources have, and the entry of a pause that ends (48).
pub const FITTINGS: u64 = 208;
/// A slot that is out of service, in a tree whose nodes are at least 5/11 full.
pub const OUT: u64 = 96;
/// A slot with a name, in a list.
pub const NAMED: u64 = 32;
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
const _: () = assert!(size_of::<Rare>() as u64 + 16 <= RARE, "the rare parts of a claim are accounted in full");
const _: () = assert!(size_of::<ResourceExtra>() as u64 + 16 <= LABEL, "the rare parts of a resource, too");
const _: () = assert!(size_of::<Fittings>() as u64 + 16 + LABEL + 48 <= FITTINGS, "and its fittings");

/// A text on the heap: its counters, its bytes, and the rounding of the allocator.
pub fn text(len: usize) -> u64 {
    let len = len as u64;
    32 + len + len / 8
}

/// The texts of a claim, which its size depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texts<'a> {
    /// The lock's client, or the owner of a claim.
    pub client: Option<&'a str>,
    /// For a lock, the name that its caller signed on with.
    pub principal: Option<&'a str>,
    /// The name that a pool's borrower gave itself.
    pub holder: Option<&'a str>,
    /// The name of its idempotency key.
    pub key: Option<&'a str>,
    /// The caller's JSON.
    pub metadata: Option<&'a str>,
    /// It has a principal or particulars.
    pub is_rare: bool,
}

/// A claim in any status.
pub fn of_claim(kind: Kind, texts: &Texts<'_>) -> u64 {
    let Texts { client, principal, holder, key, metadata, is_rare } = *texts;
    let is_plain = kind == Kind::Pool && *texts == Texts::default();
    let extra = if is_plain { 0 } else { EXTRA };
    // An owner's name is stored once more in the count of its claims: the client, and for a lock the principal. A
    // lock's client is reckoned like an owner all the same. While the client waits for a lock, a lookup finds it by its
    // name, too.
    let found_by_client = if kind == Kind::Lock { NAME } else { 0 };
    let client = client.map_or(0, |client| OWNER + found_by_client + 2 * text(client.len()));
    let principal = principal.map_or(0, |principal| OWNER + 2 * text(principal.len()));
    let rare = if is_rare { RARE + holder.map_or(0, |holder| text(holder.len())) } else { 0 };
    let key = key.map_or(0, |key| NAME + text(key.len()));
    CLAIM + extra + client + principal + rare + key + metadata.map_or(0, |metadata| text(metadata.len()))
}

/// A resource without its slots.
pub fn of_resource(key: &ResourceKey, label: Option<&str>) -> u64 {
    RESOURCE + key.name().map_or(0, |name| text(name.len())) + of_label(label)
}

/// The fittings of a resource.
pub fn of_fittings(fittings: Option<&Fittings>) -> u64 {
    let Some(Fittings { pause, out_of_service, slots }) = fittings.filter(|fittings| !fittings.is_empty()) else {
        return 0;
    };
    let pause = pause.as_ref().map_or(0, |pause| text(pause.reason.len()));
    let out: u64 = out_of_service.values().map(|out| OUT + text(out.reason.len())).sum();
    let named = |list: &[crate::fittings::NamedSlot]| -> u64 {
        list.iter()
            .map(|slot| NAMED + text(slot.name.len()) + slot.data.as_ref().map_or(0, |data| text(data.len())))
            .sum()
    };
    FITTINGS + pause + out + slots.as_deref().map_or(0, |slots| text(0) + named(slots))
}

/// The label of a resource.
pub fn of_label(label: Option<&str>) -> u64 {
    label.map_or(0, |label| LABEL + text(label.len()))
}
