//! Leasehold over HTTP.
