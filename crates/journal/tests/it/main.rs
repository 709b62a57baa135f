//! Everything that is tested from outside: the record format, and every store against one conformance suite.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]
#![allow(clippy::similar_names, reason = "the opener opened, the appender appended")]

mod conformance;
#[cfg(target_os = "linux")]
mod crash;
mod fixtures;
mod fuzz;
mod history;
mod memory;
mod record;
mod samples;
mod sqlite;
mod sqlite_damage;
mod sqlite_disturbed;
