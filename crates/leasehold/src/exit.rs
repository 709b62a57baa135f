//! The end of the process: every exit code, in one place, so that scripts and service managers can tell them apart.

use std::process::ExitCode;

use leasehold_journal::StoreError;

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It succeeded.
    Done,
    /// Something failed while running; the log has the reason. Starting again may help.
    Failed,
    /// The command line, the environment or the configuration file is wrong. Starting again does not help.
    Usage,
    /// Another process uses the data directory.
    Locked,
    /// The journal is damaged, or its files were taken away while serving. Serving on would be a guess, and a start
    /// could begin with nothing; the message says where and what to do.
    Damaged,
    /// The store failed in a way that leaves unknown what is durable. Start again to recover from the journal.
    StoreFailed,
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Locked => 3,
            Exit::Damaged => 4,
            Exit::StoreFailed => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

impl From<&StoreError> for Exit {
    /// The exit code of an error before anything was served.
    fn from(error: &StoreError) -> Self {
        match error {
            StoreError::Locked { .. } => Exit::Locked,
            StoreError::Damaged { .. } | StoreError::Disturbed { .. } | StoreError::Unsupported { .. } => Exit::Damaged,
            StoreError::Missing { .. }
            | StoreError::Taken { .. }
            | StoreError::Exposed { .. }
            | StoreError::Moved { .. } => Exit::Usage,
            StoreError::Fenced(_)
            | StoreError::Full { .. }
            | StoreError::Failed { .. }
            | StoreError::Unknown(_)
            | StoreError::Poisoned { .. }
            | StoreError::NotYet { .. }
            | StoreError::Misused(_) => Exit::Failed,
        }
    }
}

/// Why a command failed: a sentence for people, and a code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Failure { exit: Exit::Usage, sentence: sentence.into() }
    }

    pub(crate) fn failed(sentence: impl Into<String>) -> Self {
        Failure { exit: Exit::Failed, sentence: sentence.into() }
    }

    /// Prints it, and returns the code to end with.
    pub(crate) fn told(&self) -> Exit {
        eprintln!("leasehold: {}", self.sentence);
        self.exit
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Failure { exit: Exit::from(&error), sentence: error.to_string() }
    }
}
