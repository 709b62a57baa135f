//! Leasehold in a world of our own: the real engine, record format, gate, partition and recovery, in one thread, among
//! clients, nodes, disks, a store and clocks that fail in every way we could think of. A seed decides everything.
//!
//! ```text
//!  clients ──requests──▶ node: Partition ──batches──▶ disk (its own) or store (far away, fencing by epoch)
//!     ▲                        │                                   │
//!     └──answers, positions────┘                                   ▼
//!         │                                       ledger: the durable bytes, read back change by change
//!         └───────────────────▶ invariants ◀──────────────────────┘
//! ```
//!
//! The invariants (`ledger/invariant`, a file each) are checked against the *ledger*, which is the durable bytes
//! replayed by a model that shares no code with the engine, and against the answers that clients got. The checks never
//! rely on the engine's own view.
//!
//! `leasehold-history` checks the answers to clients of the pools, and nothing else; `scope` walks every interleaving
//! of a small world.

pub mod callers;
pub mod cluster;
pub mod disk;
pub mod fault;
mod ledger;
pub mod plan;
#[cfg(feature = "planted")]
pub mod planted;
pub mod rng;
pub mod run;
pub mod scope;
pub mod sometimes;
mod story;
mod world;

pub use leasehold_history as history;
pub use ledger::invariant::Violation;
pub use world::{RunReport, World};
