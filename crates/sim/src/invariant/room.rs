//! Disk full: grants are refused first, so that releases and expiries still fit.

use super::{Check, ensure};

pub(crate) fn on_claimed(was_low: bool) -> Check {
    ensure(!was_low, "room", || "a claim was taken on while the disk is nearly full".to_owned())
}
