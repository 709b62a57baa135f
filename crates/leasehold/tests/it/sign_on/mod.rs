//! Sign-on with the real binary: who is let in, what they may do, and what they are told. Forged tokens and policies are
//! tested beside their code; here it is that the pieces are put together.

mod apache;
mod audit;
mod matrix;
mod oidc;
mod provider;
mod proxy;
mod reload;
pub(crate) mod support;
mod tokens;
