//! Borrow from a pool of one's own, return, and again, by many callers that share one HTTP/2 connection.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Result, bail};

use super::pool::{is_returned, lease_in, put_pool};
use super::pool_id;
use crate::drive::{Ask, Heard, Line, Script, connect};
use crate::wire::h2::{Frame, Mux};

#[derive(Debug)]
pub(crate) struct PoolMux {
    mux: Mux,
    /// What opens the connection, until it is sent.
    opening: Vec<u8>,
    callers: Vec<Caller>,
    free: Vec<usize>,
    under_way: usize,
}

#[derive(Debug)]
struct Caller {
    borrow: String,
    give_back: String,
    /// The lease it holds.
    lease: Option<String>,
    asked_at: Instant,
}

impl PoolMux {
    /// A connection of that many callers, whose pools are numbered from `first`.
    pub(crate) fn line(addr: SocketAddr, first: u64, callers: u64) -> Result<Line> {
        let mut all = Vec::new();
        for number in first..first + callers {
            let pool = pool_id(1, number);
            put_pool(addr, &pool, 1)?;
            let [borrow, give_back] = ["borrow", "return"].map(|call| format!("/l/{pool}/{call}"));
            all.push(Caller { borrow, give_back, lease: None, asked_at: Instant::now() });
        }
        let mut opening = Vec::new();
        let mux = Mux::open(&mut opening);
        let free = (0..all.len()).collect();
        Line::new(connect(addr)?, PoolMux { mux, opening, callers: all, free, under_way: 0 })
    }
}

impl Script for PoolMux {
    fn ask(&mut self, now: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        out.append(&mut self.opening);
        for index in std::mem::take(&mut self.free) {
            let caller = &mut self.callers[index];
            let body = match &caller.lease {
                None if over => continue,
                None => r#"{"ttl":30}"#.to_owned(),
                Some(lease) => format!(r#"{{"lease":"{lease}"}}"#),
            };
            let path = if caller.lease.is_some() { &caller.give_back } else { &caller.borrow };
            self.mux.post(out, index, path, body.as_bytes());
            caller.asked_at = now;
            self.under_way += 1;
        }
        if self.under_way == 0 { Ask::Done } else { Ask::Sent }
    }

    fn hear(&mut self, _: Instant, input: &[u8], out: &mut Vec<u8>) -> Result<Heard> {
        let (len, index, status, body) = match self.mux.hear(input, out)? {
            Frame::Partial => return Ok(Heard::Partial),
            Frame::Aside(len) => return Ok(Heard::Aside(len)),
            Frame::Answer { len, caller, status, body } => (len, caller, status, body),
        };
        if status != 200 {
            bail!("not answered 200: {}", String::from_utf8_lossy(&body));
        }
        let caller = &mut self.callers[index];
        caller.lease = match caller.lease {
            None => Some(String::from_utf8_lossy(lease_in(&body)?).into_owned()),
            Some(_) if is_returned(&body) => None,
            Some(_) => bail!("a lease that was held was not returned: {}", String::from_utf8_lossy(&body)),
        };
        self.under_way -= 1;
        self.free.push(index);
        Ok(Heard::AnswerSince(len, caller.asked_at))
    }
}
