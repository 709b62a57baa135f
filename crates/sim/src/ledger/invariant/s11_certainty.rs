//! S11: an owner answers only while its ownership is certain.

use super::{Check, ensure};

pub(crate) fn on_answer(epoch: u64, owner: u64) -> Check {
    ensure(epoch == owner, "S11", || format!("epoch {epoch} answered, the stream belongs to epoch {owner}"))
}
