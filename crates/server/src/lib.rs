//! Leasehold over HTTP: the partition's driver, the faces, and the plumbing under them. The modules are in layers, each
//! names only those below it (`tests/layers.rs`); ARCHITECTURE.md draws them.
//!
//! ```text
//! bytes ─ http ─ face ─ Command ─▶ driver (engine, journal, gate) ─▶ Reply ─ face ─ http ─ bytes
//! ```

mod access;
mod app;
mod audit_log;
mod auth;
mod code;
pub mod document;
mod driver;
mod faces;
#[cfg(test)]
mod fuzz;
pub mod limits;
mod links;
mod metrics;
mod openapi;
mod planted;
mod proofs;
mod response;
mod settings;
mod sync;
mod trace;
mod watch;

pub use app::App;
pub use audit_log::AuditLog;
pub use auth::{Guard, reloaded};
pub use code::Code;
pub use driver::{
    Answered, Beginning, Clock, Driver, Drivers, Handle, Lead, Listening, Member, Membership, Stamp, Witness,
    default_threads,
};
pub use faces::{Audience, Class};
pub use leasehold_cluster::{PARTITIONS_MAX, Partitions};
pub use leasehold_http as http;
pub use leasehold_http::duration;
pub use proofs::{KeyShelf, MemoryShelf, NoKeys, ProofKeys, ShelfAnswer};
pub use settings::Settings;
pub use trace::SPANS;
pub use watch::Observer;
