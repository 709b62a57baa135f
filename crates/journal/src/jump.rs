//! Counters that jump when a store lost its last changes: a backup was restored, or a store went back to an earlier
//! state. In what was lost, tokens may have been minted and owners may have come and gone. So both counters jump ahead
//! of every value that can have been used: a token must not be given out twice, and a former holder that a token fenced
//! off stays fenced off.
//!
//! The length of the jump comes from the clock. No server grants a slot every microsecond for long, or starts every
//! millisecond. So the microseconds since 1970 are above every token that was minted, also when one backup is restored
//! twice; that holds until the year 2255. The clock may be wrong, so a jump has a minimum as well.

use leasehold_engine::{Token, Wall};

use crate::Epoch;

/// The least by which the token counter jumps: 127 days of 100 000 grants a second.
pub const TOKENS_SKIPPED: u64 = 1 << 40;
/// The least by which the epoch jumps: a start every second for twelve days.
pub const EPOCHS_SKIPPED: u64 = 1 << 20;

/// Tokens that were given out after `last`, and are not known any more, are at most this one.
pub fn last_token_lost(last: Token, wall: Wall) -> Token {
    Token(last.0.saturating_add(TOKENS_SKIPPED).max(wall.0))
}

/// Epochs that began after `last`, and are not known any more, are before this one.
pub fn first_epoch_after(last: Epoch, wall: Wall) -> Epoch {
    Epoch(last.0.saturating_add(EPOCHS_SKIPPED).max(wall.0 / 1000))
}
