//! All data of a service on its way from one store to another: into a cluster, out of it, into a file and out of one.
//!
//! ```text
//! read      the streams of all partitions, each to its end                          (`read`)
//! image     one state of all of them: one service time, one order, one pair of counters   (`image`)
//! write     the facts divided by hash, each partition a checkpoint and one mark          (`write`)
//! ```
//!
//! A store that is written to is in a stage in which no node may join, from before the first fact until after the last,
//! so nothing half moved is ever served. The caller decides when it begins to serve: when the source has been marked.

mod image;
mod read;
mod write;

pub use image::{Image, Part};
pub use read::{Checked, Streams, read_all, read_partition, service_time, take_all};
pub use write::{NewStream, write_all, write_stream};
