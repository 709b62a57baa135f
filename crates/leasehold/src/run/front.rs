//! The front: the process that the user started. It owns the command, passes signals and the terminal on, ends the
//! command when the lease can no longer be kept, and gives the lease back.

use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use leasehold_client::terms::Terms;
use leasehold_client::{Cause, LeaseClock};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::args::OnLoss;
use super::group::{self, Group};
use super::link::{self, ToFront, ToKeeper};
use super::say::Voice;
use super::terminal::Terminal;
use super::{Event, PATIENCE, signals};

/// How long the keeper has to say that the lease was renewed after all, when front was stopped and does not know.
const ANSWER: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(250);
/// While a group ends.
const SHORT_TICK: Duration = Duration::from_millis(10);

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildEnd {
    Exited(i32),
    Signaled(i32),
}

pub(super) struct Front<'a> {
    pub(super) events: &'a Receiver<Event>,
    pub(super) voice: &'a mut Voice,
    pub(super) clock: LeaseClock,
    pub(super) keeper: UnixStream,
    pub(super) keeper_pid: Pid,
    pub(super) terms: Terms,
    pub(super) on_loss: OnLoss,
    pub(super) child: Pid,
    pub(super) terminal: Option<Terminal>,
    pub(super) is_keeper_gone: bool,
}

/// The end of a run.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: ChildEnd,
    /// It was ended because the lease was lost, or nearly.
    pub(super) is_lost: bool,
    /// The command's group had the terminal when it ended.
    pub(super) had_terminal: bool,
}

/// A question whether the keeper knows of a renewal that front has not heard of.
struct Question {
    asked_at: Instant,
    /// It knows of none.
    is_answered: bool,
}

/// The end of the command because of the lease.
struct Ending {
    kill_at: Instant,
    is_killed: bool,
}

impl Front<'_> {
    /// Until the command and its group are gone.
    pub(super) fn hold(mut self) -> Ended {
        let group = Group(self.child);
        let mut ending: Option<Ending> = None;
        let mut asked: Option<Question> = None;
        let mut is_warned = false;
        let status = loop {
            let tick = if ending.is_some() { SHORT_TICK } else { TICK };
            match self.events.recv_timeout(self.nap(tick, ending.is_some())) {
                Ok(Event::Signal(signal)) => {
                    if let Some(status) = self.handle_signal(signal, group) {
                        break status;
                    }
                }
                Ok(Event::Keeper(Some(message))) => match message {
                    ToFront::Terms(terms) => {
                        self.terms = terms;
                        if self.clock.now() < terms.at_risk() {
                            if is_warned && self.on_loss == OnLoss::Warn {
                                self.voice.say("held", "the lease is held again");
                            }
                            is_warned = false;
                            asked = None;
                        }
                    }
                    ToFront::Answer(terms) => {
                        self.terms = terms;
                        match &mut asked {
                            Some(question) if self.clock.now() >= terms.at_risk() => question.is_answered = true,
                            _ => asked = None,
                        }
                    }
                    ToFront::AtRisk { cause } if !is_warned => {
                        is_warned = true;
                        self.warn(cause.as_deref());
                    }
                    ToFront::Lost { cause, message } => {
                        self.voice.say("lost", &message);
                        is_warned = true;
                        if self.on_loss == OnLoss::Kill && ending.is_none() && cause != Cause::Released {
                            ending = Some(self.begin_end(group));
                        }
                    }
                    ToFront::AtRisk { .. } | ToFront::Ready | ToFront::Stopped => {}
                },
                Ok(Event::Keeper(None)) => {
                    if !self.is_keeper_gone {
                        self.is_keeper_gone = true;
                        self.voice
                            .say("at_risk", "the process that renews the lease is gone; the lease ends with its ttl");
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    // No signal is relied on alone.
                    if let Some(status) = self.look_at_child(group) {
                        break status;
                    }
                }
                Ok(Event::Acquired(_) | Event::Progress(_)) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(tick),
            }
            if self.on_loss == OnLoss::Kill {
                self.enforce(group, &mut ending, &mut asked, &mut is_warned);
            }
        };
        // The keeper counts too, and may have been first.
        let was_ended = matches!(status, ChildEnd::Signaled(15 | 9)) && self.clock.now() >= self.terms.at_risk();
        let is_lost = ending.is_some() || (self.on_loss == OnLoss::Kill && was_ended);
        let had_terminal = self.terminal.as_ref().is_some_and(Terminal::is_given);
        if let Some(terminal) = &mut self.terminal {
            terminal.take_back_for_good();
        }
        self.end_rest(group, is_lost);
        self.reap(group);
        Ended { status, is_lost, had_terminal }
    }

    fn nap(&self, tick: Duration, is_ending: bool) -> Duration {
        let now = self.clock.now();
        let next = if is_ending { self.terms.kill() } else { self.terms.at_risk() };
        // A timer only wakes; the lease clock alone says that it is time.
        if next > now {
            next.since(now).min(tick).max(Duration::from_millis(1))
        } else {
            tick.min(Duration::from_millis(20))
        }
    }

    fn warn(&mut self, cause: Option<&str>) {
        let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
        self.voice.say("at_risk", &format!("the lease is at risk, it could not be renewed{cause}"));
    }

    /// By front's own clock, whatever the keeper does.
    fn enforce(
        &mut self,
        group: Group,
        ending: &mut Option<Ending>,
        asked: &mut Option<Question>,
        is_warned: &mut bool,
    ) {
        let now = self.clock.now();
        match ending {
            None if now >= self.terms.at_risk() => {
                // Front may have been stopped, and news may be on their way: front asks the keeper first.
                let is_certain = match asked {
                    None => {
                        *asked = Some(Question { asked_at: Instant::now(), is_answered: false });
                        link::send(&self.keeper, &ToKeeper::Tell).is_err()
                    }
                    Some(question) => question.is_answered || question.asked_at.elapsed() >= ANSWER,
                };
                // The keeper's own terms say the same, or it does not answer.
                if is_certain || self.is_keeper_gone {
                    if !*is_warned {
                        *is_warned = true;
                        self.warn(None);
                    }
                    *ending = Some(self.begin_end(group));
                }
            }
            Some(ending) if !ending.is_killed && (now >= self.terms.kill() || Instant::now() >= ending.kill_at) => {
                ending.is_killed = true;
                group.signal(Signal::SIGKILL);
                group::kill_children_except(&[self.child, self.keeper_pid]);
            }
            _ => {}
        }
    }

    fn begin_end(&mut self, group: Group) -> Ending {
        self.voice.say("lost", "the lease can no longer be kept; the command is ended");
        let _ = link::send(&self.keeper, &ToKeeper::Ending);
        group.signal(Signal::SIGTERM);
        // One that is stopped cannot end.
        group.signal(Signal::SIGCONT);
        // All the time that is left is for an orderly end; if the lease has ended already, a little.
        let left = self.terms.kill().since(self.clock.now());
        Ending { kill_at: Instant::now() + left.min(self.terms.length).min(PATIENCE * 2), is_killed: false }
    }

    /// The command's exit status, if it ended.
    fn handle_signal(&mut self, signal: Signal, group: Group) -> Option<ChildEnd> {
        match signal {
            Signal::SIGCHLD => return self.look_at_child(group),
            Signal::SIGCONT => {
                if let Some(terminal) = &mut self.terminal
                    && let Some(leader) = rustix::process::Pid::from_raw(group.0.as_raw())
                {
                    terminal.give_if_foreground(leader, false);
                }
                group.signal(Signal::SIGCONT);
            }
            other => group.signal(other),
        }
        None
    }

    fn look_at_child(&mut self, group: Group) -> Option<ChildEnd> {
        let pid = rustix::process::Pid::from_raw(self.child.as_raw())?;
        loop {
            group::reap_adopted_except(&[self.child, self.keeper_pid]);
            let all = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
            // Not waited for yet when it ended, so that its number stays its own until its group is gone.
            let seen = waitid(WaitId::Pid(pid), all | WaitIdOptions::NOWAIT).ok().flatten()?;
            if let Some(code) = seen.exit_status() {
                return Some(ChildEnd::Exited(code));
            }
            if let Some(signal) = seen.terminating_signal() {
                return Some(ChildEnd::Signaled(signal));
            }
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG);
            let signal = seen.stopping_signal().and_then(|signal| Signal::try_from(signal).ok());
            self.handle_stop(group, pid, signal.unwrap_or(Signal::SIGSTOP));
        }
    }

    /// The command has stopped: so does this process, unless the command only wants the terminal.
    fn handle_stop(&mut self, group: Group, leader: rustix::process::Pid, signal: Signal) {
        let Some(terminal) = &mut self.terminal else { return };
        let wants_terminal = matches!(signal, Signal::SIGTTIN | Signal::SIGTTOU) && !terminal.is_given();
        if wants_terminal && terminal.give_if_foreground(leader, true) {
            group.signal(Signal::SIGCONT);
            return;
        }
        terminal.take_back();
        self.voice.say("stopped", "stopped; the lease is still held");
        signals::suffer(signal, true);
        // Continued, a SIGCONT is on its way to us. A group that no process can continue is not stopped at all.
        let deadline = Instant::now() + Duration::from_millis(100);
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.events.recv_timeout(left) {
                Ok(Event::Signal(Signal::SIGCONT)) | Err(_) => break,
                Ok(Event::Signal(Signal::SIGCHLD) | Event::Acquired(_) | Event::Progress(_)) => {}
                Ok(Event::Signal(other)) => group.signal(other),
                Ok(Event::Keeper(Some(ToFront::Terms(terms) | ToFront::Answer(terms)))) => self.terms = terms,
                Ok(Event::Keeper(None)) => self.is_keeper_gone = true,
                Ok(Event::Keeper(Some(_))) => {}
            }
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.give_if_foreground(leader, false);
        }
        group.signal(Signal::SIGCONT);
    }

    /// The command has ended; its remaining processes must end, too.
    fn end_rest(&mut self, group: Group, is_lost: bool) {
        // Front adopts every process that the command leaves behind: with no other child, there is none.
        if !group::has_children_except(&[self.child, self.keeper_pid]) || !group.is_alive() {
            return;
        }
        self.voice.say("ending", "the command has ended and left processes behind in its group; they are ended");
        group.signal(Signal::SIGTERM);
        group.signal(Signal::SIGCONT);
        let begun = Instant::now();
        let mut is_said = false;
        while group.is_alive() {
            group::reap_adopted_except(&[self.child, self.keeper_pid]);
            while let Ok(event) = self.events.try_recv() {
                if let Event::Keeper(Some(ToFront::Terms(terms))) = event {
                    self.terms = terms;
                }
            }
            let is_late = self.on_loss == OnLoss::Kill && self.clock.now() >= self.terms.kill();
            if is_late || begun.elapsed() >= PATIENCE {
                group.signal(Signal::SIGKILL);
                if is_lost {
                    group::kill_children_except(&[self.child, self.keeper_pid]);
                }
            }
            if begun.elapsed() >= 2 * PATIENCE && !is_said {
                is_said = true;
                self.voice.say("ending", "a process of the command does not end; nothing is released until it does");
            }
            std::thread::sleep(SHORT_TICK);
        }
    }

    /// The number of the command is given back last.
    fn reap(&self, group: Group) {
        if let Some(pid) = rustix::process::Pid::from_raw(group.0.as_raw()) {
            let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        group::reap_adopted_except(&[self.keeper_pid]);
    }
}
