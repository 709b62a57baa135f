//! The shared store on etcd: a client for the few calls that are needed, and the transactions that make a
//! [`leasehold_cluster::SharedStore`] of them. docs/cluster.md describes the keys and why the compares suffice.
//!
//! ```text
//! address   etcd://h1:2379,h2:2379/prefix?…
//! wire      etcd's messages              client   endpoints, attempts, tokens, TLS
//! keys, txn the words of the store       store    the contract
//! ```

#![warn(missing_docs)]

mod address;
mod client;
mod error;
mod keys;
mod store;
mod txn;
mod version;
#[allow(missing_docs, reason = "etcd's own documentation describes its messages")]
pub mod wire;

pub use address::{Address, AddressError, Endpoint, TlsFiles, User};
pub use client::Client;
pub use error::{CallError, EtcdRefusal};
pub use store::{EtcdSizes, EtcdStore, EtcdUpkeep};
