//! The faults of a world, and how often each happened.

use std::fmt;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name),+ }

        impl Fault {
            pub const ALL: &'static [Fault] = &[$(Fault::$name),+];

            pub fn name(self) -> &'static str {
                match self { $(Fault::$name => $text),+ }
            }
        }
    };
}

faults! {
    /// A request takes long to arrive.
    RequestLate = "request-late",
    RequestLost = "request-lost",
    /// The answer left and never arrives.
    ReplyLost = "reply-lost",
    ReplyLate = "reply-late",
    /// A request arrives twice, on two connections: the client repeats it at once under the same key.
    RequestTwice = "request-twice",
    /// A client hangs up while it is parked or its answer is held.
    HangUp = "hang-up",
    /// A client hangs up in the instant its answer is sent.
    HangUpAtAnswer = "hang-up-at-answer",
    /// A client hangs up in the instant in which something is due, before the pulse has come round to it.
    HangUpAtDeadline = "hang-up-at-deadline",
    /// A request arrives in that instant: one that deletes, or any other.
    RequestAtDeadline = "request-at-deadline",
    /// A client does nothing for a while: its leases run out.
    ClientPause = "client-pause",
    /// The process is stopped and goes on later (SIGSTOP, a sleeping laptop).
    Stop = "stop",
    /// The process dies; what it wrote is in the page cache (SIGKILL).
    Kill = "kill",
    /// The machine dies: writes that were not synced are lost, torn or reordered.
    PowerCut = "power-cut",
    /// One fsync fails.
    SyncFails = "sync-fails",
    /// The disk is nearly full.
    DiskLow = "disk-low",
    /// The disk is full.
    DiskFull = "disk-full",
    /// A bit of the journal flips while no process reads it.
    BitRot = "bit-rot",
    /// One append takes long.
    StoreLate = "store-late",
    /// The store takes long over anything but an append: a part of a checkpoint, its own housekeeping.
    UpkeepHangs = "upkeep-hangs",
    /// One append takes longer than any caller waits.
    StoreHangs = "store-hangs",
    /// A message to the store is lost.
    StoreRequestLost = "store-request-lost",
    /// The store's answer is lost.
    StoreReplyLost = "store-reply-lost",
    /// A message to the store arrives twice, the second time late.
    StoreTwice = "store-twice",
    /// The owner cannot reach the store for a while.
    Partitioned = "partitioned",
    /// The wall clock steps.
    WallStep = "wall-step",
    /// The driver gets no processor for a while.
    PulseLate = "pulse-late",
    /// The pulse alone gets none, while requests are served.
    PulseOversleeps = "pulse-oversleeps",
    /// Told to end: parked callers are answered, the rest is flushed.
    ShutDown = "shut-down",
    /// The same in the instant in which something is due, before the pulse has come round to it.
    ShutDownAtDeadline = "shut-down-at-deadline",
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each fault happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts(Vec<u64>);

impl FaultCounts {
    pub fn add(&mut self, fault: Fault) {
        self.0.resize(Fault::ALL.len(), 0);
        self.0[fault as usize] += 1;
    }

    pub fn merge(&mut self, other: &FaultCounts) {
        self.0.resize(Fault::ALL.len(), 0);
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    pub fn of(&self, fault: Fault) -> u64 {
        self.0.get(fault as usize).copied().unwrap_or(0)
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
