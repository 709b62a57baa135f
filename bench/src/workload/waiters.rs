//! Callers parked in one queue, each on a connection of its own: the memory of each, and how long it takes to serve all
//! of them once there are slots.

use std::collections::HashSet;
use std::io::Write as _;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;

use super::Context;
use crate::drive::connect;
use crate::figures::{float, float_len, milliseconds};
use crate::machine::settled_resident_bytes;
use crate::peer::Leasehold;
use crate::script::{pool_id, put_pool};
use crate::wire::{http, read_until};

/// Files that are open for other reasons.
const OTHER_FILES: u64 = 512;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Waiters {
    pub(crate) parked: usize,
    /// Fewer than wanted when the limit on open files does not allow more.
    pub(crate) wanted: usize,
    pub(crate) resident_bytes_per_waiter: f64,
    /// From giving the pool its slots until the last one has its answer.
    pub(crate) served_after_ms: f64,
}

pub(crate) fn waiters(context: &Context<'_>, open_files_max: u64) -> Result<Waiters> {
    let wanted = context.sizes.waiters;
    let allowed = usize::try_from(open_files_max.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    let count = wanted.min(allowed);
    let service = Leasehold::start(context.place, "waiters", &["--count-max", "1000000"])?;
    let pool = pool_id(4, 0);
    put_pool(service.addr, &pool, 0)?;
    let before = settled_resident_bytes(|| service.resident_bytes())?;

    let borrow = http::request("POST", &format!("/l/{pool}/borrow"), r#"{"ttl":600,"wait":300}"#);
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = connect(service.addr)?;
        stream.write_all(&borrow)?;
        streams.push(stream);
    }
    let parked_at = Instant::now();
    while service.metrics()?.number("leasehold_waiters")? < count as u64 {
        ensure!(parked_at.elapsed().as_secs() < 60, "not all callers got into the queue");
    }
    let after = settled_resident_bytes(|| service.resident_bytes())?;
    let resident_bytes_per_waiter = float(after.saturating_sub(before)) / float_len(count);
    context.progress.step(&format!("{count} parked waiters: {resident_bytes_per_waiter:.0} bytes each"));

    let opened_at = Instant::now();
    put_pool(service.addr, &pool, count)?;
    let mut positions = HashSet::with_capacity(count);
    for stream in &mut streams {
        let position = read_until(stream, |input| match http::parse(input)? {
            None => Ok(None),
            Some(answer) => {
                ensure!(answer.status == 200, "a waiter was answered {}", answer.status);
                Ok(Some(http::integer(answer.body, b"\"position\":").context("a grant without a position")?))
            }
        })?;
        positions.insert(position);
    }
    let served_after_ms = milliseconds(opened_at.elapsed());
    ensure!(positions.len() == count, "{count} waiters share {} positions", positions.len());
    Ok(Waiters { parked: count, wanted, resident_bytes_per_waiter, served_after_ms })
}
