//! For tests with real processes: etcd clusters that live as long as a value, and a proxy between any two of them.
//!
//! ```text
//! node ── proxy ── etcd member ── proxy ── etcd member
//!           │ delay, stall, cut after a request or before its reply, each way by itself
//! ```
//!
//! Everything listens on loopback, on ports that were free. Processes are ended by their id when the value is dropped.

#![warn(missing_docs)]

mod etcd;
mod process;
mod proxy;

pub use etcd::{Etcd, EtcdOptions, Member};
pub use process::{Process, free_port, wait_for};
pub use proxy::{Flow, Proxy, Way};
