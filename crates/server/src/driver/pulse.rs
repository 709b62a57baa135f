//! The pulse: runs the partition when time alone asks for it, and often enough while leases are live that all of that
//! time counts as served.

use std::time::Duration;

use super::Shared;
use crate::sync::thread;

pub(super) fn run(shared: &Shared) {
    let mut inner = shared.lock();
    while !inner.is_closing {
        inner.partition.tick(shared.clock.read());
        // Due now, and not at any moment before: whoever changes something while this thread looks must not wake it.
        inner.pulse_at_us = 0;
        let leaving = shared.after_change(&mut inner);
        if !leaving.told.is_empty() || !leaving.effects.is_empty() {
            drop(inner);
            shared.deliver(leaving);
            inner = shared.lock();
            continue;
        }
        let now_us = shared.clock.mono_us();
        match inner.partition.next_wake() {
            Some(wake_us) if wake_us <= now_us => {
                // More is due than one step does. Others get their turn in between.
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
