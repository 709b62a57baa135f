//! Rare events, by name. A run that never saw one of them has not tested its purpose, so it fails.

macro_rules! rare {
    ($($name:ident),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Rare { $($name),+ }

        impl Rare {
            pub const ALL: &'static [Rare] = &[$(Rare::$name),+];
        }
    };
}

rare! {
    // Clients.
    RetryJoinedItsClaim,
    RetryAfterCrashJoined,
    KeySpentSeen,
    KeyReusedRefused,
    LateReleaseRefused,
    LateRenewalRefused,
    LateAnswerOfExpiredLease,
    RenewedAfterStop,
    ViewedOwnLease,
    // Waiting.
    WaiterGrantedByRelease,
    WaiterGrantedByExpiry,
    WaiterGrantedByRaise,
    WaiterGrantedByHandBack,
    WaiterGrantedAfterGrace,
    WaiterGrantedByUnconfigure,
    WaiterTimedOut,
    WaiterDeletedWithPool,
    WaiterLeftFromTheMiddle,
    WaiterLeftAlreadyGranted,
    TwoCallersOnOneClaim,
    StandingClaimSurvivedRestart,
    ConnectedWaiterWithdrawnAtRestart,
    ActivationAwaited,
    PlaceKept,
    KeptPlaceGranted,
    KeptPlaceRejoined,
    // Locks.
    LockRenewedInGrace,
    LockRenewedAfterGrace,
    LockSuperseded,
    LockRefusedInGrace,
    UnlockByStrangerRefused,
    RenewalOfOldTokenRefused,
    // Resources.
    CapacityLoweredBelowHolders,
    PoolDeletedWhileHeld,
    PoolRecreated,
    LimitOfClaimsReached,
    LimitOfWaitersReached,
    LimitOfBytesReached,
    RetainedOverflow,
    ClaimForgotten,
    // Answers.
    AnsweredStoreLate,
    ParkedAnsweredStoreLate,
    HandedBackAfterStoreLate,
    HandedBackUndelivered,
    HandBackSkippedAsSeen,
    SharedHandedBack,
    AnsweredStoreFull,
    AnsweredShuttingDown,
    AnsweredOverloaded,
    AnsweredStoreBehind,
    ReadHeldAtGate,
    RefusalHeldAtGate,
    // The journal.
    BatchOfManyChanges,
    AppendSurvivedCrashUnacknowledged,
    AppendLostInCrash,
    TailTorn,
    SectorsReordered,
    SyncFailedAndRecovered,
    DiskFullAndRecovered,
    DamageRefused,
    CheckpointWritten,
    CheckpointOfManyChunks,
    CheckpointCutByCrash,
    RecoveredFromCheckpoint,
    RecoveredFromCheckpointAndTail,
    ChangedDuringCheckpoint,
    // The store far away.
    ResentAndAlreadyThere,
    ResentAndApplied,
    StrayDuplicateFenced,
    AppendLandedAfterCrash,
    OwnerFencedByAppend,
    OwnerSteppedDownByClock,
    TakenOver,
    TakenOverFromTheLiving,
    // Time.
    StoppedLongerThanTtl,
    AppendLongerThanStretch,
    LeaseOutlivedOutages,
    ServiceTimeWentBack,
    TimeMarkWritten,
    WallSteppedBack,
    AnsweredAfterItsLease,
    UpkeepLongerThanStretch,
    MoreDueThanOneStep,
    LeftWhenDue,
    ShutDownWhenDue,
    RenewedWhileDiskLow,
    JoinedWhileDiskLow,
    SharedByOwner,
    // Attention.
    ClaimAskedAbout,
    ClaimNotAskedAbout,
    GrantSeenByItsCaller,
    GrantConfirmed,
    GrantNotConfirmed,
    // Fittings.
    ResourcePaused,
    PausedWhileAwaited,
    WaiterGrantedByResume,
    PauseEndedByTime,
    HeldSlotOutOfService,
    SlotBackInService,
    SlotsNamed,
    SlotsNamedWhileHeld,
}

/// How often each event happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RareCounts(Vec<u64>);

impl RareCounts {
    pub fn hit(&mut self, rare: Rare) {
        self.0.resize(Rare::ALL.len(), 0);
        self.0[rare as usize] += 1;
    }

    pub fn hit_if(&mut self, happened: bool, rare: Rare) {
        if happened {
            self.hit(rare);
        }
    }

    pub fn merge(&mut self, other: &RareCounts) {
        self.0.resize(Rare::ALL.len(), 0);
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    pub fn of(&self, rare: Rare) -> u64 {
        self.0.get(rare as usize).copied().unwrap_or(0)
    }

    /// Those that never happened.
    pub fn missed(&self) -> Vec<Rare> {
        Rare::ALL.iter().copied().filter(|&rare| self.of(rare) == 0).collect()
    }
}
