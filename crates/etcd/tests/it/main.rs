//! The store against real etcd: one member and three, healthy and in trouble.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

mod common;
mod conformance;
mod faults;
mod refusals;
mod security;
mod size;
