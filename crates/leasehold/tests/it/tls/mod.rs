//! TLS with the real binary and certificates made on the spot: protocols, client certificates, and certificates that
//! are replaced while connections are open. Slow handshakes and full houses are tested beside the sockets.

pub(crate) mod authority;
mod client;
mod https;
mod mistakes;
mod mutual;
mod reload;
