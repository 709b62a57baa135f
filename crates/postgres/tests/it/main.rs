//! The store against real PostgreSQL: a server alone, with a synchronous standby, and in trouble.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;
mod conformance;
mod faults;
mod refusals;
mod security;
mod size;
mod standby;
