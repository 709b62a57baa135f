//! HTTP plumbing, with nothing in it about leases: sockets and their limits, requests read strictly, answers written in
//! one shape. What a request means is left to the dialects; who may send it, to authentication.
//!
//! ```text
//! listen ── accepts, counts, closes down ─▶ connection ── hyper, deadlines ─▶ Handler
//!                                                                              │ router   which endpoint
//!                                                                              │ request  sizes, body, id
//!                                                                              │ query, json   values, strictly
//!                                                                              ▼
//!                                                              response, problem   bytes back
//! ```

mod activity;
mod connection;
pub mod json;
pub mod limits;
mod listen;
mod problem;
pub mod query;
mod repoll;
pub mod request;
pub mod response;
pub mod router;

pub use limits::HttpLimits;
pub use listen::{ConnectionNews, Handler, Peer, bind, serve};
pub use problem::{Problem, error_body, error_body_with};
pub use request::RequestId;
pub use response::Body;
