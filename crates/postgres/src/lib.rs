//! The shared store on PostgreSQL: connections that are asked about before they are given up, and the statements that
//! make a [`leasehold_cluster::SharedStore`] of a few tables. docs/postgres.md describes both.
//!
//! ```text
//! address   postgres://user@h1:5432,h2:5432/database?schema=…
//! client    hosts, lanes, attempts, TLS, passwords        schema   the tables, made and migrated
//! sql       the statements                                store    the contract
//! ```

#![warn(missing_docs)]

mod address;
mod client;
mod error;
mod schema;
mod sql;
mod store;

pub use address::{Address, AddressError, Host, Password, TlsFiles};
pub use error::{CallError, PostgresRefusal};
pub use store::{PostgresSizes, PostgresStore, PostgresUpkeep};
