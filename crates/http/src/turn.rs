//! The time of a turn, in which hyper runs for one connection. A turn takes microseconds and the deadlines of
//! connections are seconds, so that one look at the clock will do for all that happens in it: a look takes 23 ns, and a
//! request had nine of them.

use std::cell::Cell;
use std::time::Instant;

thread_local! {
    static TIME: Cell<Time> = const { Cell::new(Time::Passes) };
}

#[derive(Clone, Copy, Debug)]
enum Time {
    /// No turn is under way on this thread.
    Passes,
    /// A turn is, and the clock was not read in it yet.
    Unread,
    Stands(Instant),
}

/// A turn on this thread, until it is dropped, also by a panic.
#[derive(Debug)]
#[must_use = "the turn ends when it is dropped"]
pub(super) struct Turn(());

impl Turn {
    pub(super) fn begin() -> Self {
        TIME.set(Time::Unread);
        Turn(())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TIME.set(Time::Passes);
    }
}

/// The time, which stands still in a turn.
pub fn now() -> Instant {
    match TIME.get() {
        Time::Passes => Instant::now(),
        Time::Unread => read(),
        Time::Stands(at) => at,
    }
}

/// The time as the clock has it, from which on the rest of the turn has it, too.
pub fn read() -> Instant {
    let now = Instant::now();
    if !matches!(TIME.get(), Time::Passes) {
        TIME.set(Time::Stands(now));
    }
    now
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pause() {
        std::thread::sleep(Duration::from_millis(2));
    }

    #[test]
    fn time_stands_still_in_a_turn_until_it_is_read_anew_and_nowhere_else() {
        let outside = now();
        pause();
        let turn = Turn::begin();
        let began = now();
        pause();
        assert_eq!(now(), began);
        let seen = read();
        assert!(seen > began && now() == seen, "the rest of the turn goes by what was read");
        drop(turn);
        let ended = now();
        pause();
        assert!(outside < began && seen <= ended && ended < now());
        let _turn = Turn::begin();
        assert!(now() > ended, "not the time of the turn before");
    }

    #[test]
    fn time_passes_again_after_a_turn_that_panicked_and_on_other_threads() {
        let panicked = std::panic::catch_unwind(|| {
            let _turn = Turn::begin();
            let _ = now();
            panic!("in a turn");
        });
        assert!(panicked.is_err());
        let before = now();
        pause();
        assert!(now() > before);
        let _turn = Turn::begin();
        let here = now();
        pause();
        let elsewhere = std::thread::spawn(now).join().unwrap();
        assert!(elsewhere > here && now() == here);
    }
}
