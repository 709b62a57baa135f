//! Bugs on purpose that no simulation can show, as they are about what callers hear: the test of the binary that guards
//! against each of them must find it (`scripts/planted.sh`). Without the feature `planted` none can be armed.

/// A bug that the variable `PLANTED_BUG` arms by its name. (Tests take variables of ours out of the environment of the
/// binary.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The second page of a sorted list is cut from the order of that moment, not from that of the first page.
    OrderMoves,
    /// A lock whose time is over rings for no caller that looks out.
    GraceUnheard,
    /// A proof lasts for five minutes, whatever is left of its lease.
    ProofOutlivesLease,
    /// A claim that has ended is proved as if it were active.
    ProofOfEnded,
}

/// Returns whether this process is to have this bug.
#[cfg(feature = "planted")]
pub(crate) fn is_armed(bug: Bug) -> bool {
    leasehold_journal::armed::is_armed(bug)
}

/// Returns whether this process is to have this bug: it is not.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is_armed(_: Bug) -> bool {
    false
}
