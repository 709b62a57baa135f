//! Fills a service with leases that stay: pools of a thousand slots, borrowed until a number is reached.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use anyhow::Result;

use super::pool::lease_in;
use super::{expect_status, pool_id};
use crate::drive::{Ask, Heard, Script, connect};
use crate::wire::http;

/// As many as a pool may have without changing a setting.
pub(crate) const POOL_SLOTS: usize = 1000;
/// Pools of this kind of load are numbered in a space of their own.
const SPACE: u16 = 3;

/// The leases that are out. Lease `i` is of pool `i / POOL_SLOTS`.
#[derive(Debug)]
pub(crate) struct Leases {
    wanted: usize,
    /// Taken by a caller, answered or not.
    begun: usize,
    ids: Vec<[u8; 36]>,
    pub(super) granted: usize,
}

impl Leases {
    pub(crate) fn new(wanted: usize) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Leases { wanted, begun: 0, ids: vec![[0; 36]; wanted], granted: 0 }))
    }

    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    pub(super) fn renewal(&self, index: usize, ttl_s: u32) -> Vec<u8> {
        let lease = std::str::from_utf8(&self.ids[index]).expect("UUIDs are text");
        let path = format!("/l/{}/renew", pool((index / POOL_SLOTS) as u64));
        http::request("POST", &path, &format!(r#"{{"ttl":{ttl_s},"lease":"{lease}"}}"#))
    }
}

/// One of the pools that leases are borrowed from.
pub(super) fn pool(number: u64) -> String {
    pool_id(SPACE, number)
}

/// Makes the pools for that many leases.
pub(crate) fn make_pools(addr: SocketAddr, leases: usize) -> Result<()> {
    let mut stream = connect(addr)?;
    for number in 0..leases.div_ceil(POOL_SLOTS) {
        let path = format!("/l/{}", pool(number as u64));
        let (status, text) = http::call_on(&mut stream, "PUT", &path, &format!(r#"{{"count":{POOL_SLOTS}}}"#))?;
        anyhow::ensure!(status == 200, "PUT was answered {status}: {text}");
    }
    Ok(())
}

/// When the leases end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ttl {
    /// Each after this long.
    Each { ttl_s: f64 },
    /// All of them then.
    Together { at: Instant },
}

#[derive(Debug)]
pub(crate) struct Fill {
    leases: Rc<RefCell<Leases>>,
    ttl: Ttl,
    index: usize,
}

impl Fill {
    pub(crate) fn new(leases: &Rc<RefCell<Leases>>, ttl: Ttl) -> Self {
        Fill { leases: Rc::clone(leases), ttl, index: 0 }
    }
}

impl Script for Fill {
    fn ask(&mut self, now: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        let mut leases = self.leases.borrow_mut();
        if over || leases.begun == leases.wanted {
            return Ask::Done;
        }
        self.index = leases.begun;
        leases.begun += 1;
        let ttl_s = match self.ttl {
            Ttl::Each { ttl_s } => ttl_s,
            Ttl::Together { at } => at.saturating_duration_since(now).as_secs_f64().max(0.001),
        };
        let path = format!("/l/{}/borrow", pool((self.index / POOL_SLOTS) as u64));
        out.extend_from_slice(&http::request("POST", &path, &format!(r#"{{"ttl":{ttl_s:.6}}}"#)));
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        let lease = lease_in(expect_status(&answer, &[200])?)?;
        let mut leases = self.leases.borrow_mut();
        leases.ids[self.index].copy_from_slice(lease);
        leases.granted += 1;
        Ok(Heard::Answer(answer.len))
    }
}
