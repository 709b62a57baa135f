//! Made-up records with a checksum that fits: reading one gives either an error with a place in it, or changes and
//! facts that can be written again and read the same.

mod checks;

use std::collections::BTreeSet;

use leasehold_journal::record::decode_batch;

use crate::samples::{VARIANTS, variant};

#[test]
fn batches() {
    leasehold_fuzz::run("batch", &["LHB\n", "LHC\n"], checks::batch);
}

#[test]
fn chunks() {
    leasehold_fuzz::run("chunk", &["LHB\n", "LHC\n"], checks::chunk);
}

/// Mutations reach what is near: a kind of change that no kept input has is hardly ever tried.
#[test]
fn the_corpus_has_every_kind_of_change() {
    let batches =
        leasehold_fuzz::corpus("batch").into_iter().filter_map(|kept| decode_batch(&checks::sealed(&kept)).ok());
    let kinds: BTreeSet<usize> = batches.flat_map(|batch| batch.changes).map(|(_, change)| variant(&change)).collect();
    assert_eq!(kinds.len(), VARIANTS);
}
