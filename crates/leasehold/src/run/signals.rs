//! Signals without handlers: those that matter are blocked in every thread, and one thread waits for them. The process
//! keeps the default dispositions, so that it can stop and die of a signal like any other.

use std::sync::mpsc::Sender;

use nix::sys::signal::{SigSet, Signal};

use super::Event;

/// Passed on to the command's group.
pub(super) const PASSED_ON: [Signal; 9] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
];

/// End the wait for a lease.
pub(super) const CANCEL: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Blocks the awaited signals; before there is any other thread.
pub(super) fn block() -> SigSet {
    let ignored = ignored();
    let mut awaited = SigSet::empty();
    for signal in PASSED_ON {
        // One that is ignored (nohup) stays so, here and in the command. Blocked, it would be seen all the same.
        if !ignored.contains(&signal) {
            awaited.add(signal);
        }
    }
    awaited.add(Signal::SIGCONT);
    awaited.add(Signal::SIGCHLD);
    let mut blocked = awaited;
    // So that the terminal can be given and taken from the background. A child starts with an empty mask.
    blocked.add(Signal::SIGTTOU);
    blocked.add(Signal::SIGTTIN);
    let _ = blocked.thread_block();
    awaited
}

/// Blocks every signal that must not end or stop the keeper.
pub(super) fn block_for_keeper() {
    let mut blocked = SigSet::empty();
    for signal in CANCEL {
        blocked.add(signal);
    }
    for signal in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU, Signal::SIGPIPE] {
        blocked.add(signal);
    }
    let _ = blocked.thread_block();
}

/// Tells of each signal, from a thread of its own.
pub(super) fn listen(awaited: SigSet, events: Sender<Event>) -> std::io::Result<()> {
    let listen = move || {
        loop {
            match awaited.wait() {
                Ok(signal) if events.send(Event::Signal(signal)).is_err() => return,
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(listen).map(|_| ())
}

/// Lets a signal do to this process what it does by default: once this returns, it did not end it.
pub(super) fn suffer(signal: Signal, also_own_group: bool) {
    let mut set = SigSet::empty();
    set.add(signal);
    let _ = set.thread_unblock();
    if also_own_group {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(0), signal);
    } else {
        let _ = nix::sys::signal::raise(signal);
    }
    let _ = set.thread_block();
}

/// The signals that were ignored when the process began.
#[cfg(target_os = "linux")]
fn ignored() -> Vec<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    PASSED_ON.into_iter().filter(|signal| mask & (1 << (*signal as i32 - 1)) != 0).collect()
}

/// There is no way to ask without `unsafe`.
#[cfg(not(target_os = "linux"))]
fn ignored() -> Vec<Signal> {
    Vec::new()
}
