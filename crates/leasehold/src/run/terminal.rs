//! The terminal: which group has it, and its passing between front and the command.

use std::fs::File;
use std::os::fd::AsFd;

use rustix::process::{Pid, getpgrp, getsid};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetsid, tcsetattr, tcsetpgrp};

/// The controlling terminal, if there is one.
pub(super) struct Terminal {
    tty: File,
    /// Standard input, output and error are all of it.
    is_all: bool,
    /// The command's group has it.
    is_given: bool,
    /// As it was before the command changed it.
    own_modes: Option<Termios>,
    child_modes: Option<Termios>,
}

impl Terminal {
    pub(super) fn open() -> Option<Terminal> {
        let tty = File::options().read(true).write(true).open("/dev/tty").ok()?;
        let session = getsid(None).ok();
        let is_ours = |fd: std::os::fd::BorrowedFd<'_>| isatty(fd) && tcgetsid(fd).ok() == session;
        let (stdin, stdout, stderr) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
        let is_all = is_ours(stdin.as_fd()) && is_ours(stdout.as_fd()) && is_ours(stderr.as_fd());
        Some(Terminal { tty, is_all, is_given: false, own_modes: None, child_modes: None })
    }

    /// Returns whether this process' group may read from it.
    pub(super) fn is_foreground(&self) -> bool {
        tcgetpgrp(&self.tty).is_ok_and(|group| group == getpgrp())
    }

    /// At the start: if everything is the terminal, the command gets it.
    pub(super) fn give_at_start(&mut self, group: Pid) {
        if self.is_all && self.is_foreground() {
            self.give(group);
        }
    }

    /// After a stop, or because the command wants to read: if this group has it.
    pub(super) fn give_if_foreground(&mut self, group: Pid, is_wanted: bool) -> bool {
        let gives = (is_wanted || self.is_all) && self.is_foreground();
        if gives {
            self.give(group);
        }
        gives
    }

    fn give(&mut self, group: Pid) {
        self.own_modes = tcgetattr(&self.tty).ok();
        if let Some(modes) = self.child_modes.take() {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, &modes);
        }
        self.is_given = tcsetpgrp(&self.tty, group).is_ok();
    }

    pub(super) fn is_given(&self) -> bool {
        self.is_given
    }

    /// The command stopped: this group has it again, as it was.
    pub(super) fn take_back(&mut self) {
        if !self.is_given {
            return;
        }
        self.child_modes = tcgetattr(&self.tty).ok();
        let _ = tcsetpgrp(&self.tty, getpgrp());
        if let Some(modes) = &self.own_modes {
            let _ = tcsetattr(&self.tty, OptionalActions::Drain, modes);
        }
        self.is_given = false;
    }

    /// The command ended: this group has it again, in whatever modes the command left it.
    pub(super) fn take_back_for_good(&mut self) {
        if self.is_given {
            let _ = tcsetpgrp(&self.tty, getpgrp());
            self.is_given = false;
        }
    }
}
