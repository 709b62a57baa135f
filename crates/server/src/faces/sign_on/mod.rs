//! The face of sign-on itself: who am I, and the dashboard's login. Who a caller is and what it may do is decided in `auth`.

mod login;
mod routes;
mod whoami;

pub(crate) use routes::{Action, Asked, answer, endpoints, parse};
