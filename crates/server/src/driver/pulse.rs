//! The pulse: runs the partition when a deadline comes, and often enough while leases are live that all of that time
//! counts as served.
//!
//! While there are appends, and until the store is closed, it also looks every few milliseconds whether one of them
//! takes long. The committer blocks the thread it runs on, and that may be the one that waited for sockets on behalf of
//! all: then none does, until another is called.

use std::time::Duration;

use super::Shared;
use crate::sync::thread;

/// How often to look. A turn of the committer that is still the same after that is a slow one.
pub(super) const LOOK_EVERY_US: u64 = 10_000;

pub(super) fn run(shared: &Shared) {
    let mut turns_seen = 0;
    let mut inner = shared.lock();
    while !inner.is_over {
        if !inner.is_closing {
            inner.partition.tick(shared.clock.read());
            // Due now, and not at any moment before: a caller that changes something while this thread looks must not
            // wake it.
            inner.pulse_at_us = 0;
            let leaving = shared.after_change(&mut inner);
            if !leaving.is_empty() {
                drop(inner);
                shared.deliver(leaving);
                inner = shared.lock();
                continue;
            }
        }
        let now_us = shared.clock.mono_us();
        let is_another = inner.turns != turns_seen;
        if inner.is_blocking && !is_another {
            shared.relief.call();
        }
        turns_seen = inner.turns;
        let look_us = (is_another || inner.is_blocking).then_some(now_us + LOOK_EVERY_US);
        let wake_us = if inner.is_closing { None } else { inner.partition.next_wake() };
        match earlier(wake_us, look_us) {
            Some(wake_us) if wake_us <= now_us => {
                // More deadlines are due than one step handles. Other threads get their turn in between.
                drop(inner);
                thread::yield_now();
                inner = shared.lock();
            }
            Some(wake_us) => {
                inner.pulse_at_us = wake_us;
                let rest = Duration::from_micros(wake_us - now_us);
                inner = match shared.pulse.wait_timeout(inner, rest) {
                    Ok((inner, _)) => inner,
                    Err(_) => return,
                };
            }
            None => {
                inner.pulse_at_us = u64::MAX;
                inner = match shared.pulse.wait(inner) {
                    Ok(inner) => inner,
                    Err(_) => return,
                };
            }
        }
    }
}

fn earlier(one_us: Option<u64>, other_us: Option<u64>) -> Option<u64> {
    [one_us, other_us].into_iter().flatten().min()
}
