//! Renews leases that are out, picked at random, and notes the longest time without an acknowledgement.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::Result;

use super::expect_status;
use super::fill::Leases;
use crate::drive::{Ask, Heard, Script};
use crate::wire::http;

const TTL_S: u32 = 86_000;

/// When one connection was acknowledged, in order.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    pub(crate) acknowledged_at: Vec<Instant>,
}

#[derive(Debug)]
pub(crate) struct Renew {
    leases: Rc<RefCell<Leases>>,
    /// xorshift; which lease is next need not be unpredictable, only spread.
    random: u64,
    gaps: Option<Rc<RefCell<Gaps>>>,
    enough: Option<Arc<AtomicBool>>,
}

impl Renew {
    pub(crate) fn new(leases: &Rc<RefCell<Leases>>, number: u64) -> Self {
        let random = 0x9e37_79b9_7f4a_7c15 ^ (number + 1).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Renew { leases: Rc::clone(leases), random, gaps: None, enough: None }
    }

    /// Notes every acknowledgement, and ends when told.
    pub(crate) fn noting(mut self, gaps: &Rc<RefCell<Gaps>>, enough: &Arc<AtomicBool>) -> Self {
        self.gaps = Some(Rc::clone(gaps));
        self.enough = Some(Arc::clone(enough));
        self
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Script for Renew {
    fn ask(&mut self, _: Instant, over: bool, out: &mut Vec<u8>) -> Ask {
        if over || self.enough.as_ref().is_some_and(|enough| enough.load(Ordering::Relaxed)) {
            return Ask::Done;
        }
        let random = self.next_random();
        let leases = self.leases.borrow();
        let index = usize::try_from(random % leases.granted as u64).expect("below a length");
        out.extend_from_slice(&leases.renewal(index, TTL_S));
        Ask::Sent
    }

    fn hear(&mut self, now: Instant, input: &[u8], _: &mut Vec<u8>) -> Result<Heard> {
        let Some(answer) = http::parse(input)? else { return Ok(Heard::Partial) };
        expect_status(&answer, &[200])?;
        if let Some(gaps) = &self.gaps {
            gaps.borrow_mut().acknowledged_at.push(now);
        }
        Ok(Heard::Answer(answer.len))
    }
}
