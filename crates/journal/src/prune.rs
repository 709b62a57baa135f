//! Removes claims and resources that an operator picks from a data directory that no server uses: the way out when the
//! data grew so large that a server no longer starts. It needs memory for the part that stays, but not for the metadata
//! of the part that goes.
//!
//! ```text
//! 1. read it all without any metadata, let the operator's filter pick                  (changes nothing)
//! 2. open it, without the metadata of what was picked; append what removes them; write a fresh checkpoint
//! ```
//! A removal is an ordinary change: the next in line gets the slot that becomes free, and tokens only rise. After a
//! crash between the appends and the end of the checkpoint, some of the picked claims are removed and some are not;
//! that state is sound.

use std::collections::HashSet;
use std::path::Path;

use leasehold_engine::{ClaimFact, ClaimId, Command, Engine, Fact, Limits, Moment, Outbox, ResourceFact, ResourceKey};
use leasehold_engine::{Time, Wall};

use crate::recovery::{Examined, Lean, Recovery, examine_lean, recover_lean};
use crate::restore::write_checkpoint;
use crate::store::{SqliteOpener, SqliteReader, Store, StoreError};
use crate::{BatchWriter, Position};

/// A batch is appended when it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Facts walked at a time.
const SLICE_FACTS: usize = 4096;

/// A claim or a resource that may be removed.
#[derive(Clone, Copy, Debug)]
pub enum Candidate<'a> {
    /// The metadata itself is left out; only its length is known.
    Claim {
        /// The claim, without its metadata.
        fact: &'a ClaimFact,
        /// The length of its metadata.
        metadata_bytes: usize,
    },
    /// Registered, and no claim refers to it.
    Unused(&'a ResourceFact),
}

/// The claims and resources that were picked, and the state of the data at that time.
#[derive(Debug)]
pub struct Picked {
    /// The data as it was examined.
    pub examined: Examined,
    /// The claims to remove.
    pub claims: Vec<ClaimId>,
    /// The registrations to remove.
    pub resources: Vec<ResourceKey>,
    /// The bytes of the whole state in memory, and the part of it that is metadata of claims.
    pub state_bytes: u64,
}

/// The numbers of removed claims and resources.
#[derive(Clone, Copy, Debug)]
pub struct Pruned {
    /// Claims that were removed.
    pub claims: usize,
    /// Registrations that were removed.
    pub resources: usize,
    /// The account of bytes before the removal.
    pub state_bytes_before: u64,
    /// The account of bytes after it.
    pub state_bytes_after: u64,
}

/// Reads everything and shows each claim and each unused resource to `wants`, which also gets the service time of the
/// data. Changes nothing.
pub fn pick(reader: &SqliteReader, mut wants: impl FnMut(Candidate<'_>, Time) -> bool) -> Result<Picked, StoreError> {
    let lean = Lean::Everything { lengths: std::collections::HashMap::new() };
    let (mut examined, lean) = examine_lean(reader, Limits::default(), lean)?;
    let Lean::Everything { lengths } = lean else { unreachable!("it stays what it was") };
    let (mut claims, mut resources) = (Vec::new(), Vec::new());
    let used = used_resources(&mut examined.engine);
    let mut left_out = 0;
    let at = examined.at;
    walk(&mut examined.engine, |fact| match fact {
        Fact::Counters(_) => {}
        Fact::Claim(fact) => {
            let length = lengths.get(&fact.claim).copied();
            left_out += length.map_or(0, leasehold_engine::bytes::text);
            let candidate = Candidate::Claim { fact, metadata_bytes: length.unwrap_or(0) };
            if wants(candidate, at) {
                claims.push(fact.claim);
            }
        }
        Fact::Resource(fact) => {
            if fact.configured && !used.contains(&fact.resource) && wants(Candidate::Unused(fact), at) {
                resources.push(fact.resource.clone());
            }
        }
    });
    let state_bytes = examined.engine.totals().state_bytes + left_out;
    Ok(Picked { examined, claims, resources, state_bytes })
}

/// Removes the picked claims and resources. The directory must not have changed since, and no server may use it.
pub fn prune(directory: &Path, partition: u32, picked: Picked, wall: Wall) -> Result<Pruned, StoreError> {
    let Picked { examined, claims, resources, state_bytes } = picked;
    let head = examined.head;
    drop(examined);
    let opener = SqliteOpener::new(directory);
    let lean = Lean::Of(claims.iter().copied().collect::<HashSet<_>>());
    let recovery = recover_lean(&opener, partition, Limits::default(), 0, lean)?;
    if recovery.head != head {
        let why = format!("it was at position {head} and is at {} now", recovery.head);
        return Err(StoreError::failed(format!("removing from {}", directory.display()), why));
    }
    let Recovery { mut engine, mut store, epoch, at, .. } = recovery;
    let now = Moment { at, wall };
    let mut writer = Writer { batch: BatchWriter::new(partition, epoch, head.next()), head };
    let mut out = Outbox::default();
    // Callers that waited with their connection are gone, so nothing may be granted to them.
    for claim in engine.waiting_with_connection() {
        engine.prune_claim(now, claim, &mut out);
        writer.write(now, &mut out, store.as_mut())?;
    }
    let mut pruned =
        Pruned { claims: 0, resources: 0, state_bytes_before: state_bytes, state_bytes_after: state_bytes };
    for claim in claims {
        pruned.claims += usize::from(engine.prune_claim(now, claim, &mut out));
        writer.write(now, &mut out, store.as_mut())?;
    }
    for resource in &resources {
        pruned.resources += usize::from(engine.prune_resource(now, resource, &mut out));
        writer.write(now, &mut out, store.as_mut())?;
    }
    // Claims that limits and time would remove go at the next start, as always.
    drop(engine.handle(now, Command::Mark, &mut out));
    writer.write(now, &mut out, store.as_mut())?;
    let head = writer.finish(store.as_mut())?;
    pruned.state_bytes_after = engine.totals().state_bytes;
    let last_token = engine.last_token();
    write_checkpoint(engine, store.as_mut(), partition, head, now, last_token)?;
    // Freeing room on the disk is a purpose of this, too.
    while store.maintain()? {}
    Ok(pruned)
}

/// Changes on their way to the store, a batch at a time.
struct Writer {
    batch: BatchWriter,
    head: Position,
}

impl Writer {
    fn write(&mut self, now: Moment, out: &mut Outbox, store: &mut dyn Store) -> Result<(), StoreError> {
        for change in &out.changes {
            self.batch.push(now, change);
        }
        out.clear();
        if self.batch.bytes() >= BATCH_BYTES { self.append(store) } else { Ok(()) }
    }

    fn append(&mut self, store: &mut dyn Store) -> Result<(), StoreError> {
        let batch = self.batch.seal();
        store.append(&batch)?;
        self.head = batch.last;
        Ok(())
    }

    fn finish(mut self, store: &mut dyn Store) -> Result<Position, StoreError> {
        if !self.batch.is_empty() {
            self.append(store)?;
        }
        Ok(self.head)
    }
}

fn used_resources(engine: &mut Engine) -> HashSet<ResourceKey> {
    let mut used = HashSet::new();
    walk(engine, |fact| {
        if let Fact::Claim(fact) = fact {
            used.insert(fact.resource.clone());
        }
    });
    used
}

/// Walks every fact, a slice at a time: together they would take as much memory as the state does.
fn walk(engine: &mut Engine, mut act: impl FnMut(&Fact)) {
    engine.begin_snapshot();
    let (mut facts, mut is_more) = (Vec::new(), true);
    while is_more {
        is_more = engine.step_snapshot(SLICE_FACTS, &mut facts);
        facts.drain(..).for_each(|fact| act(&fact));
    }
}
