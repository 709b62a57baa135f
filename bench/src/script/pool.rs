//! Borrow from a pool of one's own, return, and again. Also the same requests to a server that answers a constant.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use super::{expect_status, pool_id};
use crate::drive::{Ask, Heard, Script};
use crate::wire::http;

/// Where the lease stands in a prepared return.
const LEASE_LEN: usize = 36;
const NO_LEASE: &str = "00000000-0000-4000-8000-000000000000";

/// Makes or changes a pool.
pub(crate) fn put_pool(addr: SocketAddr, pool: &str, count: usize) -> Result<()> {
    http::expect_ok(addr, "PUT", &format!("/l/{pool}"), &format!(r#"{{"count":{count}}}"#)).map(drop)
}

/// A return whose last bytes are the lease and `"}`.
pub(super) fn return_request(pool: &str) -> Vec<u8> {
    http::request("POST", &format!("/l/{pool}/return"), &format!(r#"{{"lease":"{NO_LEASE}"}}"#))
}

/// Returns whether this is the answer to a return. Earlier builds, which `--against` compares with, end it without a
/// newline.
pub(super) fn is_returned(body: &[u8]) -> bool {
    body.trim_ascii_end() == br#"{"returned":true}"#
}

/// Puts a lease into a prepared request that ends with `LEASE"}`.
pub(super) fn set_lease(request: &mut [u8], lease: &[u8]) {
    let end = request.len() - 2;
    request[end - LEASE_LEN..end].copy_from_slice(lease);
}

/// The lease in an answer.
pub(super) fn lease_in(body: &[u8]) -> Result<&[u8]> {
    let lease = http::value(body, b"\"lease\":\"").context("a grant without a lease")?;
    if lease.len() != LEASE_LEN {
        bail!("a lease that is no UUID");
    }
    Ok(lease)
}

#[derive(Debug)]
pub(crate) struct PoolCycle {
    borrow: Vec<u8>,
    give_back: Vec<u8>,
    holds: bool,
    borrowing: bool,
}

impl PoolCycle {
    /// A pool of one slot that no other connection uses.
    pub(crate) fn new(addr: SocketAddr, number: u64) -> Result<Self> {
        let pool = pool_id(1, number);
        put_pool(addr, &pool, 1)?;
        Ok(Self::on(&pool))
    }

    fn on(pool: &str) -> Self {
        let borrow = http::request("POST", &format!("/l/{pool}/borrow"), r#"{"ttl":30}"#);
        PoolCycle { borrow, give_back: return_request(pool), holds: false, borrowing: false }
    }
}

impl Script for PoolCycle {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        if over && !self.holds {
            return Ask::Done;
        }
        self.borrowing = !self.holds;
        out.extend_from_slice(if self.borrowing { &self.borrow } else { &self.give_back });
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        let body = expect_status(&answer, &[200])?;
        if self.borrowing {
            set_lease(&mut self.give_back, lease_in(body)?);
        } else if !is_returned(body) {
            bail!("a lease that was held was not returned: {}", String::from_utf8_lossy(body));
        }
        self.holds = self.borrowing;
        Ok(Heard::Answer(answer.len))
    }
}

/// The same requests, and any answer of status 200 will do.
#[derive(Debug)]
pub(crate) struct Constant(PoolCycle);

impl Constant {
    pub(crate) fn new(number: u64) -> Self {
        Constant(PoolCycle::on(&pool_id(1, number)))
    }
}

impl Script for Constant {
    fn ask(&mut self, now: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        self.0.ask(now, over, out)
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        let body = expect_status(&answer, &[200])?;
        set_lease(&mut self.0.give_back, lease_in(body)?);
        self.0.holds = self.0.borrowing;
        Ok(Heard::Answer(answer.len))
    }
}
