//! L6: the service answers again after every fault without help. Once faults stop, every caller gets an answer.

use super::{Check, ensure};

pub(crate) fn at_rest(unanswered: usize, is_serving: bool) -> Check {
    ensure(is_serving, "L6", || "no node serves though all faults are over".to_owned())?;
    ensure(unanswered == 0, "L6", || format!("{unanswered} calls are without an answer though all faults are over"))
}
