//! The face of observers, `/v1/observe/…` and `/v1/events`, and of the operator who revokes. `watch` keeps the data, or
//! the engine gives it slice by slice.

mod detail;
mod list;
pub(crate) mod openapi;
mod reader;
mod routes;
mod series;
mod subscription;
mod wire;

pub(crate) use routes::{Action, Asked, answer, endpoints, parse};

#[cfg(test)]
mod tests;
