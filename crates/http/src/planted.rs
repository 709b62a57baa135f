//! Bugs on purpose that no simulation can show, as they are about sockets: the test of the binary that guards against
//! each of them must find it (`scripts/planted.sh`). Without the feature `planted` none can be armed.

/// A bug that the variable `PLANTED_BUG` arms by its name. (Tests take variables of ours out of the environment of the
/// binary.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A caller that waits behind unread bytes is not missed when its connection ends.
    LeaverBehindBytes,
    /// An answer counts as sent once HTTP/2 has it, though its window holds it back.
    SettledWhenTaken,
}

/// Returns whether this process is to have this bug.
#[cfg(feature = "planted")]
pub(crate) fn is_armed(bug: Bug) -> bool {
    static ARMED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    *ARMED.get_or_init(|| std::env::var("PLANTED_BUG").unwrap_or_default()) == format!("{bug:?}")
}

/// Returns whether this process is to have this bug: it is not.
#[cfg(not(feature = "planted"))]
pub(crate) const fn is_armed(_: Bug) -> bool {
    false
}
