//! For tests with real processes: etcd clusters and PostgreSQL servers that live as long as a value, and a proxy
//! between any two of them.
//!
//! ```text
//! node ── proxy ── etcd member ── proxy ── etcd member          node ── proxy ── primary ── proxy ── standby
//!           │ delay, stall, cut after a request or before its reply, each way by itself
//! ```
//!
//! Everything listens on loopback, on ports that were free. Processes are ended by their id when the value is dropped.

#![warn(missing_docs)]

mod authority;
mod etcd;
mod postgres;
mod process;
mod proxy;

pub use authority::Authority;
pub use etcd::{Etcd, EtcdOptions, Member};
pub use postgres::{Pooler, Postgres, PostgresOptions, PostgresServer, SUPERUSER};
pub use process::{Process, free_port, wait_for};
pub use proxy::{Flow, Proxy, Way};
