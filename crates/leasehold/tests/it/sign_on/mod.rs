//! Sign-on with the real binary: which callers are let in, their rights, and the answers they get. Forged tokens and
//! policies are tested beside their code; this tests the whole.

mod apache;
mod audit;
mod matrix;
mod oidc;
mod provider;
mod proxy;
mod reload;
mod sight;
pub(crate) mod support;
mod tokens;
