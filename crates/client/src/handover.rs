//! A lease on its way from one process of a machine to another, as `leasehold run` does it: the process that has it
//! renews it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::dialect::{Id, Kind, NamedSlot};
use crate::terms::Terms;

/// Everything that a process on this machine needs to hold a lease. It is a credential: serialise it to trusted places
/// only; its `Debug` shows no id.
#[derive(Clone, Serialize, Deserialize)]
pub struct Handover {
    pub(crate) id: Id,
    pub(crate) token: u64,
    pub(crate) slot: Option<u32>,
    #[serde(default)]
    pub(crate) named: Option<NamedSlot>,
    pub(crate) terms: Terms,
    pub(crate) ttl: Duration,
}

impl Handover {
    /// When the lease was last renewed, and for how long, on the lease clock of this machine.
    pub fn terms(&self) -> Terms {
        self.terms
    }

    /// The fencing token.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// The slot, where there are some.
    pub fn slot(&self) -> Option<u32> {
        self.slot
    }

    /// The name and the data of the slot, where slots have names.
    pub fn named_slot(&self) -> Option<&NamedSlot> {
        self.named.as_ref()
    }

    /// The kind of the lease.
    pub fn kind(&self) -> Kind {
        self.id.kind()
    }

    /// The id of the lease or claim, or a lock's client: a credential.
    pub fn lease_id(&self) -> &str {
        match &self.id {
            Id::Lock { client, .. } => client,
            Id::Claim { id, .. } => id,
            Id::Pool { lease, .. } => lease,
        }
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handover({}, token {})", self.id, self.token)
    }
}
