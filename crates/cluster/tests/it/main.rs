//! Everything that is tested from outside.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;
mod conformance;
mod gather;
mod instants;
mod record;
