//! The face of sign-on itself: `whoami`, and the dashboard's login. `auth` identifies callers and decides on their
//! rights.

mod login;
mod routes;
mod whoami;

pub(crate) use routes::{Action, Asked, answer, endpoints, parse};
