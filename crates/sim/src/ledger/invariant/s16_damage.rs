//! S16: a torn tail is dropped, damage in the middle refuses to start.

use super::{Check, ensure};

pub(crate) fn on_open(is_damaged: bool, opened: bool, why: &str) -> Check {
    ensure(!(is_damaged && opened), "S16", || "a damaged journal was opened".to_owned())?;
    ensure(is_damaged || opened, "S16", || format!("a sound journal was refused: {why}"))
}
