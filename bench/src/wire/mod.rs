//! Just enough of each protocol to ask and to tell a right answer from a wrong one: bytes out of values, values out of
//! bytes. No sockets but in the small helpers that speak before a run.

pub(crate) mod grpc;
pub(crate) mod h2;
pub(crate) mod http;
pub(crate) mod postgres;
pub(crate) mod resp;

use std::io::Read;

use anyhow::{Result, bail};

/// Reads from a blocking stream until `parse` has found an answer. For the conversation before a run.
pub(crate) fn read_until<T>(stream: &mut impl Read, mut parse: impl FnMut(&[u8]) -> Result<Option<T>>) -> Result<T> {
    let mut input = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            bail!("the connection was closed before the answer was complete");
        }
        input.extend_from_slice(&chunk[..read]);
        if let Some(found) = parse(&input)? {
            return Ok(found);
        }
    }
}
