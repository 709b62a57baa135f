//! The conversations on a connection. One file each; every answer is checked, so that a fast wrong answer cannot win.

mod claims;
mod etcd;
mod fill;
mod hand_over;
mod lock;
mod pool;
mod pool_h2;
mod postgres;
mod redis;
mod renew;
mod short;

pub(crate) use claims::{Activations, Claims, Pump};
pub(crate) use etcd::EtcdLock;
pub(crate) use fill::{Fill, Leases, POOL_SLOTS, Ttl, make_pools};
pub(crate) use hand_over::{HandOver, HandOvers};
pub(crate) use lock::LockRenewal;
pub(crate) use pool::{Constant, PoolCycle, put_pool};
pub(crate) use pool_h2::PoolMux;
pub(crate) use postgres::{PostgresSlot, SCHEMA as POSTGRES_SCHEMA};
pub(crate) use redis::RedisLock;
pub(crate) use renew::{Gaps, Renew};
pub(crate) use short::Short;

use anyhow::{Result, bail};

use crate::wire::http;

/// A pool's id made of a number. `space` keeps workloads apart.
pub(crate) fn pool_id(space: u16, number: u64) -> String {
    format!("{space:08x}-0000-4000-8000-{number:012x}")
}

/// An answer with the right status, or an error that says which answer came instead.
fn expect_status<'a>(answer: &http::HttpAnswer<'a>, wanted: &[u16]) -> Result<&'a [u8]> {
    if !wanted.contains(&answer.status) {
        bail!("answered {} instead of {wanted:?}: {}", answer.status, String::from_utf8_lossy(answer.body));
    }
    Ok(answer.body)
}
