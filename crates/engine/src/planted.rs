//! Bugs on purpose. The simulation arms one at a time and must find it; without the feature `planted` this file is not
//! compiled, and every `planted!(…)` in the code is the constant `false`.

#![expect(missing_docs, reason = "the name of a bug says what it breaks")]

use std::cell::Cell;

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug { $($(#[$doc])* $name),+ }

        impl Bug {
            pub const ALL: &'static [Bug] = &[$(Bug::$name),+];
        }
    };
}

bugs! {
    // The engine decides.
    TokenFromRow,
    ExpiryWithoutRecheck,
    LostWakeUpOnHandBack,
    LostWakeUpOnExpiry,
    LostWakeUpOnRaise,
    LastInFirstOut,
    CapacityNotHeeded,
    GraceOffByOne,
    GraceForStrangers,
    ReleaseByStranger,
    HandBackOfWhatIsKnown,
    KeySpentByHandBack,
    KeyFingerprintIgnored,
    RenewalOfTheEnded,
    FullDiskIgnored,
    FullDiskRefusesRenewals,
    FullDiskRefusesRepeats,
    DeadlineKeptWhenShortened,
    WaiterNeverGivesUp,
    StandingWithdrawnAtRestart,
    RenewalOfAnyToken,
    QuestionNotHeeded,
    EveryQuestionWritten,
    ParkedNotHeeded,
    ConfirmIgnored,
    ConfirmationNotHeeded,
    UnattendedGrantConfirmed,
    GrantedWhilePaused,
    OutOfServiceGranted,
    LostWakeUpOnResume,
    PauseOutlivesItsEnd,
    RenamedWhileHeld,
    // The engine remembers.
    JoinedNotSeen,
    TtlResetOnRestart,
    TokenNotInCheckpoint,
    CheckpointOfTheFuture,
    WaitNotInCheckpoint,
    AccountDrifts,
    HoldsNotInCheckpoint,
    PauseNotInCheckpoint,
    PayloadKept,
    // The partition answers.
    AckBeforeSync,
    ReadBeforeDurable,
    RefusalBeforeDurable,
    WokenBeforeDurable,
    GateOffByOne,
    NoHandBackWhenLate,
    SharedNotHandedBack,
    SharedMiscounted,
    ShutdownSaidEarly,
    LeaverStaysInLine,
    LeaverTakesOthersAlong,
    GrantedIsNotWithdrawn,
    DueInTheStepOfTheCommand,
    OwnersClaimMistaken,
    WaitOfTheLongest,
    DurableForgotten,
    CompanyOutlivesClaim,
    RestOverstated,
    WaitersSurviveRestart,
    KeptForgottenAtRestart,
    // Service time.
    DeadlineFromTheWall,
    StandstillCharged,
    AppendCharged,
    NoMarks,
    PulseSpins,
    UpkeepCharged,
    TimeFromCheckpoint,
    // The journal.
    KeyNotInBatch,
    ChecksumNotCompared,
    ResendWithoutPosition,
    FencedOwnerWrites,
    EpochNotRaised,
    // The cluster: found in its own world.
    AnswerWithoutProof,
    ProofBegunBefore,
    OrphansDroppedAtOnce,
    OrphansKeptForEver,
    ReaskRefusedFull,
    JumpForgotten,
    FloorForgotten,
    WentBackUnnoticed,
    BeatWithoutClockStop,
    FollowerSkipsGap,
    RelayForgetsHandBack,
    RelayDrawsNewId,
    RelayRepeatsReturn,
    ServedBeforeTail,
    TailReadBeforeTaking,
    AskOfAnotherEpoch,
    GiverServesOn,
    GiverResumes,
    GivenWithoutDrain,
    NewestSwept,
    WrittenHandedBack,
    BuriedStaysOut,
    BuriedServesOn,
    SuspectedInOutage,
    OutageCharged,
    IdToWrongPartition,
    BeatOfTheBuried,
    AskPassedOn,
    TimeOfGivingLost,
    ConfirmBySerializableRead,
    MarkOfAnotherEpoch,
    TimeOfTakeLost,
    JoinRevives,
    BuriedWithoutCompare,
    EpochKeptOnTake,
    TakenWithoutBurial,
    AlreadyThereByPosition,
    AppendIgnoresOwner,
    CheckpointByFenced,
    SweptPastCheckpoint,
}

impl Bug {
    /// Returns whether it is a bug of the cluster, which shows only where there are several nodes.
    pub fn is_of_cluster(self) -> bool {
        self >= Bug::AnswerWithoutProof
    }
}

thread_local! {
    static ARMED: Cell<Option<Bug>> = const { Cell::new(None) };
}

/// Arms this bug, and no other, on this thread from now on.
pub fn arm(bug: Option<Bug>) {
    ARMED.set(bug);
}

pub fn is_armed(bug: Bug) -> bool {
    ARMED.get() == Some(bug)
}
