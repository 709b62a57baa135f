//! Every bound of the engine, by name. The settings come from the operator; the constants are part of the design.

/// Tokens stay below 2^53 so that every JSON reader can hold them. Reaching it takes 2 800 years at 100 000 a second.
pub const TOKEN_MAX: u64 = (1 << 53) - 1;

/// The longest duration that a caller may name, about 31 years. It keeps every sum of times far from overflow.
pub const DURATION_MAX_US: u64 = 1_000_000_000 * 1_000_000;

/// The most slots of one resource that may be out of service one by one. A grant looks at all of them.
pub const OUT_OF_SERVICE_MAX: usize = 1_000;

/// How much of a queue a view of a resource shows.
pub const QUEUE_SHOWN: usize = 1_000;

/// How many holders a view of a resource shows.
pub const HOLDERS_SHOWN: usize = 1_000;

/// How many holders a waiting claim shows. Lists have a thousand claims, so this number bounds their size.
pub const HOLDERS_SHOWN_TO_WAITERS: usize = 16;

/// Holders of one resource that a survey looks at and an inspection shows. Pools are that large only where an operator
/// allowed it.
pub const SURVEYED_HOLDERS_MAX: usize = 1_000;

/// Waiters of one resource that a search looks at.
pub const SURVEYED_WAITERS_MAX: usize = 1_000;

/// How much of a queue an inspection shows.
pub const INSPECTED_QUEUE_MAX: usize = 100;

/// The bounds that an operator may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long after a lock expired only its last holder may come back.
    pub grace_us: u64,
    /// How long an ended claim can still be read, and an idempotency key is remembered after its lease ended.
    pub retain_us: u64,
    /// At most this many ended claims (and lapsed locks) are kept; those without a key go first, then the oldest.
    pub retained_max: usize,
    /// Bytes that the state may use, as `bytes` accounts them. A claim or resource that would exceed this is refused.
    pub state_bytes_max: u64,
    /// Live claims in all, waiting or active.
    pub claims_max: usize,
    /// Waiting claims in all.
    pub waiting_max: usize,
    /// Resources that were given a capacity, or that some claim refers to.
    pub resources_max: usize,
    /// Deadlines handled in one step. A hundred thousand leases on one deadline are worked off in steps of this size,
    /// with other commands in between. No operator sets it; small test worlds do, to have more deadlines due than one
    /// step handles.
    pub due_per_step: usize,
}

/// The defaults of the settings that the engine keeps, and bounds that no operator sets.
impl Default for Limits {
    fn default() -> Self {
        Limits {
            grace_us: 5_000_000,
            retain_us: 24 * 3600 * 1_000_000,
            retained_max: 100_000,
            state_bytes_max: u64::MAX,
            claims_max: 5_000_000,
            waiting_max: 100_000,
            resources_max: 5_000_000,
            due_per_step: 256,
        }
    }
}

impl Limits {
    /// The share of one of several partitions in the limits of a service. Names are spread by a hash, so counts get
    /// four times an even share; bytes get an even one, as together they must not exceed the memory.
    #[must_use]
    pub fn share(self, partitions: u32) -> Limits {
        let even = |limit: usize| limit.div_ceil(partitions as usize);
        let ample = |limit: usize| even(limit).saturating_mul(4).min(limit);
        Limits {
            retained_max: even(self.retained_max),
            state_bytes_max: if self.state_bytes_max == u64::MAX {
                u64::MAX
            } else {
                self.state_bytes_max / u64::from(partitions)
            },
            claims_max: ample(self.claims_max),
            waiting_max: ample(self.waiting_max),
            resources_max: ample(self.resources_max),
            ..self
        }
    }

    /// The part of the state's bytes that ended claims and lapsed locks may use; the oldest go first. They also make
    /// room for new claims, so this only keeps memory and restarts small where there is more room than work.
    pub fn retained_bytes_max(&self) -> u64 {
        self.state_bytes_max / 4
    }
}
