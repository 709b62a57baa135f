//! Logouts by name and time: the sessions of a name that began before its logout are over, in every browser that has
//! one and in the hands of every client that copied one. A session is forgotten here once it would have ended by
//! itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Names remembered at once.
const NAMES_MAX: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Ended(Mutex<LoggedOut>);

#[derive(Debug, Default)]
struct LoggedOut {
    /// When each name logged out last, on the monotonic clock.
    at_us: HashMap<String, u64>,
    /// Sessions of any name that began at this time or before it are over.
    floor_us: u64,
}

impl Ended {
    pub(super) fn end(&self, name: &str, now_us: u64, session_us: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.at_us.len() >= NAMES_MAX {
            state.at_us.retain(|_, at_us| now_us < at_us.saturating_add(session_us));
            if state.at_us.len() >= NAMES_MAX {
                // Having to log in again is better than a session that does not end.
                state.at_us.clear();
                state.floor_us = now_us;
            }
        }
        state.at_us.insert(name.to_owned(), now_us);
    }

    pub(super) fn has(&self, name: &str, began_us: u64) -> bool {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended_us = state.at_us.get(name).copied();
        ended_us.max((state.floor_us > 0).then_some(state.floor_us)).is_some_and(|ended_us| began_us <= ended_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_began_before_are_over_and_later_ones_are_not() {
        let ended = Ended::default();
        assert!(!ended.has("alice", 0));
        ended.end("alice", 100, 1_000);
        for (began_us, expected) in [(0, true), (99, true), (100, true), (101, false)] {
            assert_eq!(ended.has("alice", began_us), expected, "{began_us}");
            assert!(!ended.has("bob", began_us));
        }
    }

    #[test]
    fn it_stays_bounded_and_never_forgets_a_logout() {
        let ended = Ended::default();
        for number in 0..=NAMES_MAX as u64 {
            ended.end(&number.to_string(), 1_000 + number, u64::MAX);
            assert!(ended.0.lock().unwrap().at_us.len() <= NAMES_MAX);
        }
        assert!((0..=NAMES_MAX as u64).all(|number| ended.has(&number.to_string(), 1_000 + number)));
        assert!(!ended.has("0", 1_001 + NAMES_MAX as u64));
    }
}
