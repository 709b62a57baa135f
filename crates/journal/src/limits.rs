//! The bounds of a partition that callers meet, beside those of its engine.

/// Bounds of a partition that are not the engine's.
#[derive(Clone, Debug)]
pub struct PartitionLimits {
    /// Answers held or parked; past this number callers are turned away.
    pub callers_max: usize,
    /// How long an answer waits for the store.
    pub store_timeout_us: u64,
    /// The bytes that may wait in the batch being filled while an append hangs. Past this the partition takes nothing
    /// new on; past twice as much it takes no command at all.
    pub backlog_bytes_max: usize,
}

impl PartitionLimits {
    /// A hundred thousand small changes: more than callers that wait for their answers make, as each waits for one.
    /// Until it is written, a batch takes about five times its bytes, in the batch's buffer, its record and the store's
    /// copies.
    pub const BACKLOG_BYTES_MAX: usize = 32 << 20;
}
