//! How a shared store is reached, the same for each of them: hosts and options of an address, passwords in files, and
//! TLS. Each mistake is a sentence. The store names itself by [`Kind`].

#![warn(missing_docs)]

mod address;
mod files;

pub use address::{AddressError, Endpoint, HOSTS_MAX, Kind, Options, TlsFiles, decoded, distinct, endpoint, wrong};
pub use files::{FileError, first_line, tls_config};
