//! Shares of the machine: tests that measure time do not meet those that keep it busy.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// So many tests may keep the machine busy at once. Most of their time they wait: for leases to end, for nodes to
/// notice each other's death.
const PARTS: usize = 3;

static FREE: Mutex<usize> = Mutex::new(PARTS);
static GIVEN_BACK: Condvar = Condvar::new();

/// Some parts of the machine, until this is dropped.
#[must_use]
pub(crate) struct Taken(usize);

/// For tests that measure time.
pub(crate) fn machine_to_itself() -> Taken {
    take(PARTS)
}

/// For tests that keep the machine busy.
pub(crate) fn part_of_the_machine() -> Taken {
    take(1)
}

fn take(parts: usize) -> Taken {
    let enough = GIVEN_BACK.wait_while(free(), |free| *free < parts);
    *enough.unwrap_or_else(PoisonError::into_inner) -= parts;
    Taken(parts)
}

/// A test that failed meanwhile says nothing about the next one.
fn free() -> MutexGuard<'static, usize> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Taken {
    fn drop(&mut self) {
        *free() += self.0;
        GIVEN_BACK.notify_all();
    }
}
