//! Borrows without a return: leases that end by themselves.

use std::time::Instant;

use anyhow::Result;

use super::{expect_status, fill};
use crate::drive::{Ask, Heard, Script};
use crate::wire::http;

#[derive(Debug)]
pub(crate) struct Short {
    borrow: Vec<u8>,
}

impl Short {
    /// From the pool of that number, which must have a slot free whenever it is asked.
    pub(crate) fn new(pool: u64, ttl_s: f64) -> Self {
        let path = format!("/l/{}/borrow", fill::pool(pool));
        Short { borrow: http::request("POST", &path, &format!(r#"{{"ttl":{ttl_s}}}"#)) }
    }
}

impl Script for Short {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        if over {
            return Ask::Done;
        }
        out.extend_from_slice(&self.borrow);
        Ask::Sent
    }

    fn hear(&mut self, _: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        expect_status(&answer, &[200])?;
        Ok(Heard::Answer(answer.len))
    }
}
