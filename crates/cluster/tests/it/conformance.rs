//! The store in memory, against the suite for every shared store.

use leasehold_cluster::{MemoryStore, conformance};

#[test]
fn the_store_in_memory_keeps_the_contract() {
    for (name, test) in conformance::TESTS {
        println!("{name}");
        let first = MemoryStore::new();
        conformance::block_on(test(Box::new(move || Box::new(first.connect()))));
    }
}
