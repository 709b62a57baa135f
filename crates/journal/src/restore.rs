//! Makes a backup the data of a server again. After the backup was made, tokens may have been minted and owners may
//! have come and gone of which it knows nothing, so both counters jump (`jump.rs`). Everything else is as it was:
//! leases have the time left that they had, as after a long stop.

use std::path::Path;

use leasehold_engine::limits::TOKEN_MAX;
use leasehold_engine::{Counters, Engine, Fact, Limits, Moment, Token, Wall};

use crate::jump::{TOKENS_SKIPPED, first_epoch_after, last_token_lost};
use crate::recovery::{Examined, Recovery, examine, recover};
use crate::store::sqlite::Staging;
use crate::store::{SqliteOpener, SqliteReader, Store, StoreError};
use crate::{ChunkWriter, Epoch, Position};

/// Facts walked at a time.
const SLICE_FACTS: usize = 4096;

/// The result of a restore.
#[derive(Debug)]
pub struct Restored {
    /// The restored data, as it was examined.
    pub examined: Examined,
    /// The epoch it was raised to. The next start raises it once more.
    pub epoch: Epoch,
    /// Every token from now on is higher.
    pub last_token: Token,
    /// `true` if there was data before, which is in the directory `aside` now.
    pub replaced: bool,
}

/// Makes the backup in the file `from` the data in `directory`. Data that is there already is moved to a directory
/// inside of it that is named `aside`; without that name, existing data is an error.
pub fn restore(
    from: &Path,
    directory: &Path,
    partition: u32,
    aside: Option<&str>,
    wall: Wall,
) -> Result<Restored, StoreError> {
    // A restore forgets and refuses nothing, so the operator's limits do not matter.
    let limits = Limits::default();
    let examined = examine(&SqliteReader::of_file(from, partition)?, limits.clone())?;
    let last_token = raised_token(from, examined.engine.last_token(), wall)?;
    let epoch = first_epoch_after(examined.epoch, wall);

    let staging = Staging::begin(directory)?;
    let replaced = staging.is_taken();
    let aside = match aside {
        None if replaced => {
            return Err(StoreError::Taken { directory: directory.to_owned() });
        }
        aside => aside.unwrap_or_default(),
    };
    staging.copy_in(from)?;
    let opener = SqliteOpener::new(staging.data()).with_epoch_at_least(epoch);
    let recovery = recover(&opener, partition, limits.clone())?;
    assert_eq!(recovery.head, examined.head, "a copy has what the file has");
    let Recovery { engine, mut store, head, at, .. } = recovery;
    write_checkpoint(engine, store.as_mut(), partition, head, Moment { at, wall }, last_token)?;
    drop(store);

    let again = examine(&SqliteReader::of_directory(&staging.data(), partition)?, limits)?;
    assert_eq!((again.epoch, again.engine.last_token()), (epoch, last_token), "the raised counters are on the disk");
    staging.put_in_place(aside)?;
    Ok(Restored { examined, epoch, last_token, replaced })
}

/// The token that the counter of a restored backup goes on from, if there are tokens above it. `from` is the backup,
/// for messages.
pub fn raised_token(from: &Path, last: Token, wall: Wall) -> Result<Token, StoreError> {
    let raised = last_token_lost(last, wall).0;
    if raised > TOKEN_MAX - TOKENS_SKIPPED {
        return Err(StoreError::Unsupported {
            place: from.display().to_string(),
            what: format!(
                "its tokens would have to go on from {raised}, and there are none above {TOKEN_MAX}; is the clock of this \
                 machine right?"
            ),
        });
    }
    Ok(Token(raised))
}

/// Writes the whole state anew, as of `head`, with this token counter.
pub(crate) fn write_checkpoint(
    mut engine: Engine,
    store: &mut dyn Store,
    partition: u32,
    head: Position,
    now: Moment,
    last_token: Token,
) -> Result<(), StoreError> {
    let mut writer = ChunkWriter::new(partition, head, now);
    store.begin_checkpoint(head)?;
    engine.begin_snapshot();
    let (mut facts, mut is_more) = (Vec::new(), true);
    while is_more {
        is_more = engine.step_snapshot(SLICE_FACTS, &mut facts);
        for fact in facts.drain(..) {
            writer.push(&match fact {
                Fact::Counters(counters) => Fact::Counters(Counters { last_token, ..counters }),
                Fact::Resource(_) | Fact::Claim(_) => fact,
            });
            if writer.is_full() {
                store.put_chunk(&writer.seal())?;
            }
        }
    }
    if !writer.is_empty() {
        store.put_chunk(&writer.seal())?;
    }
    store.finish_checkpoint()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EPOCHS_SKIPPED;

    /// 2026-07-01.
    const NOW: Wall = Wall(1_782_864_000_000_000);

    #[test]
    fn counters_jump_by_a_least_distance_and_to_where_the_clock_says() {
        let from = Path::new("backup");
        let raised = |last, wall| raised_token(from, Token(last), wall).unwrap().0;
        assert_eq!(raised(7, Wall(0)), 7 + TOKENS_SKIPPED, "a clock that stands at 1970 does no harm");
        assert_eq!(raised(7, NOW), NOW.0);
        assert!(raised(7, Wall(NOW.0 + 1)) > raised(7, NOW), "twice the same backup");
        assert_eq!(raised(1 << 52, NOW), (1 << 52) + TOKENS_SKIPPED);
        assert_eq!(first_epoch_after(Epoch(3), Wall(0)), Epoch(3 + EPOCHS_SKIPPED));
        assert_eq!(first_epoch_after(Epoch(3), NOW), Epoch(NOW.0 / 1000));
    }

    #[test]
    fn tokens_that_no_json_reader_could_hold_are_refused() {
        let from = Path::new("backup");
        for (last, wall) in [(TOKEN_MAX - TOKENS_SKIPPED, NOW), (0, Wall(u64::MAX)), (u64::MAX, NOW)] {
            let refused = raised_token(from, Token(last), wall).unwrap_err().to_string();
            assert!(refused.contains("is the clock of this machine right?"), "{refused}");
        }
        assert!(raised_token(from, Token(TOKEN_MAX - 2 * TOKENS_SKIPPED), NOW).is_ok());
    }
}
