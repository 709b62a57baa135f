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
mod boxed;
mod code;
mod connection;
mod door;
pub mod duration;
mod farewell;
pub mod forwarded;
mod handler;
pub mod json;
pub mod limits;
mod listen;
mod outgoing;
mod planted;
mod problem;
pub mod query;
mod repoll;
pub mod request;
mod request_id;
pub mod response;
pub mod router;
mod share;
pub mod site;
mod socket;
mod streams;
mod tls;
pub mod turn;
mod unsent;

pub use boxed::{boxed, boxed_pin};
pub use code::ErrorCode;
pub use forwarded::client_of;
pub use handler::{ConnectionNews, Handler, Peer, PeerCertificate};
pub use limits::HttpLimits;
pub use listen::{bind, serve, serve_tls};
pub use problem::{ErrorBody, Problem};
pub use request::BodyRoom;
pub use request_id::RequestId;
pub use response::{Body, Receipt};
pub use share::{Share, Shares};
pub use site::Site;
pub use tls::{Clients, Material, Pem, Tls, TlsError, TlsFile};
pub use unsent::Unsent;
