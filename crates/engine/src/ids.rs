//! Names of things: kinds, resource keys, claim ids, tokens. Newtypes only; the entities they name live in `state`.

use std::fmt;
use std::sync::Arc;

/// The face of a resource: which dialect made it, and so which rules of expiry apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    /// A pool of numbered slots under a secret UUID.
    Pool,
    /// A named resource that claims queue for.
    Claim,
    /// A sticky lock with a grace period.
    Lock,
}

impl Kind {
    /// All kinds, in the order of arrays by kind.
    pub const ALL: [Kind; 3] = [Kind::Pool, Kind::Claim, Kind::Lock];

    /// The word for metrics and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Pool => "pool",
            Kind::Claim => "claim",
            Kind::Lock => "lock",
        }
    }
}

/// The full name of a resource. Kinds are separate name spaces: a lock `x` and a claimed resource `x` never meet.
///
/// A pool's UUID is a credential, so `Debug` hides it; `Display` is not implemented on purpose.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ResourceKey {
    /// A pool by its secret UUID.
    Pool(u128),
    /// A claimed resource by its name.
    Claim(Arc<str>),
    /// A lock by its job.
    Lock(Arc<str>),
}

impl ResourceKey {
    /// The kind of the resource.
    pub fn kind(&self) -> Kind {
        match self {
            ResourceKey::Pool(_) => Kind::Pool,
            ResourceKey::Claim(_) => Kind::Claim,
            ResourceKey::Lock(_) => Kind::Lock,
        }
    }

    /// The name, for kinds whose names are public. A pool has none: its id is a secret.
    pub fn name(&self) -> Option<&Arc<str>> {
        match self {
            ResourceKey::Pool(_) => None,
            ResourceKey::Claim(name) | ResourceKey::Lock(name) => Some(name),
        }
    }
}

impl fmt::Debug for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResourceKey::Pool(_) => f.write_str("Pool(…)"),
            ResourceKey::Claim(name) => write!(f, "Claim({name:?})"),
            ResourceKey::Lock(name) => write!(f, "Lock({name:?})"),
        }
    }
}

/// A claim's id: 128 bits that came in, random, with the command that made the claim. For a pool it is the lease's
/// UUID and a secret, hence the shortened `Debug`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClaimId(pub u128);

impl fmt::Debug for ClaimId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimId(…{:04x})", self.0 & 0xffff)
    }
}

/// The fencing token of a grant. One counter serves all resources of a partition and outlives them, so tokens of one
/// resource strictly increase also across delete and re-create.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Token(pub u64);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
