//! The face of those who watch, `/v1/observe/…` and `/v1/events`, and of the operator who revokes. What is shown is kept in
//! `watch`, or asked of the engine slice by slice.

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
