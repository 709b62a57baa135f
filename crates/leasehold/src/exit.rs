//! How the process ends: every exit code there is, in one place, so that scripts and service managers can tell them apart.

use std::process::ExitCode;

/// Why the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked to.
    Done,
    /// Something failed while running; the log says what. Starting again may help.
    Failed,
    /// The command line, the environment or the configuration file is wrong. Starting again does not help.
    Usage,
    /// Another process uses the data directory.
    Locked,
    /// The journal is damaged. Serving on would be a guess; the message says where and what to do.
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
