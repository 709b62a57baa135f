//! Leasehold over HTTP: the partition's driver, the three dialects, and the plumbing under them.
//!
//! ```text
//! bytes ─ http ─ dialect ─ Command ─▶ driver (engine, journal, gate) ─▶ Reply ─ dialect ─ http ─ bytes
//! ```

mod access;
mod app;
mod audit_log;
mod auth;
pub mod document;
mod driver;
pub mod duration;
mod faces;
#[cfg(test)]
mod fuzz;
pub mod http;
pub mod limits;
mod links;
mod metrics;

mod openapi;
mod settings;
mod sync;
mod trace;
mod watch;

pub use app::App;
pub use audit_log::AuditLog;
pub use auth::{Guard, reloaded};
pub use driver::{Answered, Beginning, Clock, Driver, Handle, Lead, Listening, Witness, default_threads};
pub use faces::{Audience, Class};
pub use settings::Settings;
pub use trace::SPANS;
pub use watch::Observer;
