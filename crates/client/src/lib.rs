//! Locks, numbered slots and places in a queue of a Leasehold service, held by a guard that renews them.
//!
//! ```no_run
//! # async fn example() -> Result<(), leasehold_client::Error> {
//! use std::time::Duration;
//! use leasehold_client::Client;
//!
//! let client = Client::from_env()?;
//! let lease = client.lock("backup").ttl(Duration::from_secs(30)).wait(Duration::from_secs(600)).acquire().await?;
//! for part in ["etc", "home"] {
//!     lease.check()?;                     // an error once the lease is lost
//!     copy(part, lease.token()?);         // what is protected compares the token
//! }
//! lease.release().await?;
//! # Ok(()) }
//! # fn copy(_: &str, _: u64) {}
//! ```
//!
//! - A lease is renewed by a thread of the client's own, so that a user's runtime that is blocked or has ended does not
//!   matter.
//! - [`Lease::held`], [`Lease::check`] and [`Lease::token`] compare a clock that counts while the machine sleeps with a
//!   deadline that counts from before the last answered request was sent. A process that was stopped sees the loss
//!   before any timer runs.
//! - Every acquisition has a name of its own, and an unknown outcome is found out by sending the same bytes again.
//!   Waiting goes on over rounds, restarts and addresses.
//! - A lost lease stays lost. It is never acquired again behind its holder's back.
//! - An acquisition whose future is dropped leaves nothing behind.
//!
//! No client can protect a resource from a holder that was paused without noticing: only the fencing token can, checked
//! by the resource. The rules that all clients of Leasehold share are in `docs/clients.md`.
//!
//! Forked processes cannot use a client of their parent: every lease is lost there, and nothing is sent.
//!
//! The arithmetic of a lease ([`terms`]) and its life ([`watch`]) do no IO and can be driven by other programs.

#![warn(missing_docs)]

mod client;
mod clock;
mod dialect;
mod error;
mod handover;
mod lease;
mod loss;
mod reply;
mod request;
mod table;
pub mod terms;
#[doc(hidden)]
pub mod text;
mod transport;
pub mod watch;
mod worker;

pub use client::{Client, ClientBuilder, DEFAULT_URL, Pool};
pub use clock::{LeaseClock, Moment};
pub use dialect::{Kind, NamedSlot};
pub use error::{Error, Holder};
pub use handover::Handover;
pub use lease::Lease;
pub use loss::{Cause, Loss};
pub use reply::{Position, Reply, Trouble};
pub use request::{AtRisk, Request};
pub use table::Released;
pub use transport::{Event, EventStream};
pub use worker::Progress;
