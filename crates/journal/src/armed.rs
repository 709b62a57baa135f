//! Bugs on purpose that no simulation can show, as they are about files: the test of the binary that guards against
//! each of them must find it (`scripts/planted.sh`). Without the feature `planted-in-binary` none can be armed.

/// A bug that the variable `PLANTED_BUG` arms by its name. (Tests take variables of ours out of the environment of the
/// binary.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A file that another one replaced while it was in use is not missed.
    ReplacedNotMissed,
    /// A file that was cut while it was in use is not missed.
    CutNotMissed,
    /// An empty database beside a full log counts as new.
    EmptyTakenForNew,
}

/// Returns whether this process is to have the bug of this name.
#[cfg(feature = "planted-in-binary")]
pub fn is_armed(bug: impl std::fmt::Debug) -> bool {
    static ARMED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    *ARMED.get_or_init(|| std::env::var("PLANTED_BUG").unwrap_or_default()) == format!("{bug:?}")
}

/// Returns whether this process is to have this bug: it is not.
#[cfg(not(feature = "planted-in-binary"))]
pub(crate) const fn is_armed(_: Bug) -> bool {
    false
}
