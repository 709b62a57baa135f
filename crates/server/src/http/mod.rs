//! HTTP plumbing, with nothing in it about leases: sockets and their limits, requests read strictly, answers written in
//! one shape. The dialects know what a request means, authentication knows who may send it.
//!
//! ```text
//! listen ── accepts, counts ─▶ door ── TLS or not ─▶ connection ── hyper, deadlines ─▶ Handler
//!                                                                        │ router   which endpoint
//!                                                                        │ request  sizes, body, id
//!                                                                        │ query, json   values, strictly
//!                                                                        ▼
//!                                                              response, problem   bytes back
//! ```

mod activity;
mod code;
mod connection;
mod door;
mod farewell;
pub mod forwarded;
pub mod json;
pub mod limits;
mod listen;
mod outgoing;
mod problem;
pub mod query;
mod repoll;
pub mod request;
pub mod response;
pub mod router;
mod share;
pub(crate) mod site;
mod socket;
mod streams;
mod tls;
pub(crate) mod turn;
mod unsent;

pub use code::Code;
pub use forwarded::client_of;
pub use limits::HttpLimits;
pub use listen::{ConnectionNews, Handler, Peer, bind, serve, serve_tls};
pub(crate) use problem::ErrorBody;
pub use problem::{Problem, error_body};
pub use request::RequestId;
pub use response::{Body, Receipt};
pub use share::{Share, Shares};
pub use site::Site;
pub use tls::{Clients, Material, Pem, Tls, TlsError, TlsFile};
pub use unsent::Unsent;
