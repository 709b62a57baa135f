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
//! What must hold (`invariant`, a file each) is checked against the *ledger*: what the durable bytes say, replayed by a
//! model that shares no code with the engine, and against what clients were told. The engine's opinion is not asked.
//!
//! `leasehold-history` checks what clients of the pools heard, and nothing but that; `scope` walks every interleaving of
//! a small world.

pub mod callers;
pub mod disk;
pub mod fault;
mod invariant;
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

pub use invariant::Violation;
pub use leasehold_history as history;
pub use world::{Outcome, World};
