//! Opens the files that a crash left behind the way the service does, and compares them with what was acknowledged.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use leasehold_engine::Limits;
use leasehold_journal::store::{Opened, Recovered};
use leasehold_journal::{Opener, SqliteOpener, StoreError, recover};

use super::disk::Image;
use super::recording::{Content, Expected};
use crate::conformance::PARTITION;

/// The findings, in the terms of the expectation.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) content: Arc<Content>,
    /// Something that was under way was there.
    pub(super) is_ahead: bool,
    /// A torn tail was dropped.
    pub(super) is_torn: bool,
}

/// Recovers from an image, in a directory of the caller's.
pub(super) fn check(image: &Image, expected: &Expected, directory: &Path) -> Result<Verdict, String> {
    image.put(directory);
    let tap = Tap { opener: SqliteOpener::new(directory), chunks: RefCell::default(), batches: RefCell::default() };
    let recovery = recover(&tap, PARTITION, Limits::default()).map_err(|error| format!("refused: {error}"))?;
    let (chunks, batches) = (tap.chunks.into_inner(), tap.batches.into_inner());

    let is = |content: &Content| {
        recovery.epoch.0 == content.epoch + 1
            && recovery.head.0 == content.head()
            && chunks.iter().map(Vec::as_slice).eq(content.chunks.iter().map(|chunk| &**chunk))
            && batches.iter().map(Vec::as_slice).eq(content.batches.iter().map(|(_, record)| &**record))
    };
    let (content, is_ahead) = match expected {
        Expected { sure, .. } if is(sure) => (sure, false),
        Expected { maybe: Some(maybe), .. } if is(maybe) => (maybe, true),
        Expected { sure, maybe } => {
            let maybe = maybe.as_ref().map(|maybe| (maybe.epoch, maybe.upto, maybe.head()));
            return Err(format!(
                "found epoch {}, {} chunks, {} batches up to {}; acknowledged were epoch {}, {} chunks, {} batches up to \
                 {}; under way was {maybe:?}",
                recovery.epoch.0 - 1,
                chunks.len(),
                batches.len(),
                recovery.head,
                sure.epoch,
                sure.chunks.len(),
                sure.batches.len(),
                sure.head(),
            ));
        }
    };
    // The workload makes one resource a change.
    let resources = recovery.engine.totals().resources as u64;
    if resources != content.head() {
        return Err(format!("{resources} resources in the engine, after {} changes", content.head()));
    }
    Ok(Verdict { content: Arc::clone(content), is_ahead, is_torn: !recovery.notes.is_empty() })
}

/// Notes what passes through.
struct Tap {
    opener: SqliteOpener,
    chunks: RefCell<Vec<Vec<u8>>>,
    batches: RefCell<Vec<Vec<u8>>>,
}

impl Opener for Tap {
    fn open(
        &self,
        partition: u32,
        visit: &mut dyn FnMut(Recovered<'_>) -> Result<(), StoreError>,
    ) -> Result<Opened, StoreError> {
        self.opener.open(partition, &mut |recovered| {
            match recovered {
                Recovered::Chunk(record) => self.chunks.borrow_mut().push(record.to_vec()),
                Recovered::Batch(record) => self.batches.borrow_mut().push(record.to_vec()),
            }
            visit(recovered)
        })
    }
}
